"""Whether a request is let in now, waits, or is turned away."""

from typing import Literal

Decision = Literal["admit", "wait", "refuse"]


def decide(*, free_slots: int, waiting: int, most_waiting: int) -> Decision:
    """What becomes of one more request.

    It is let in where a slot is free and nobody waits: whoever came before goes first. Else it
    waits, as far as `most_waiting` allow.

    >>> decide(free_slots=1, waiting=0, most_waiting=8)
    'admit'
    >>> decide(free_slots=1, waiting=3, most_waiting=8)
    'wait'
    >>> decide(free_slots=0, waiting=8, most_waiting=8)
    'refuse'
    """
    if free_slots and not waiting:
        return "admit"
    if waiting >= most_waiting:
        return "refuse"
    return "wait"
