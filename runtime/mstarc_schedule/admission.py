"""Whether a request is let in now, waits, or is turned away."""

from typing import Literal

Decision = Literal["admit", "wait", "refuse"]


def decide(*, free_slots: int, waiting: int, most_waiting: int) -> Decision:
    """What becomes of one more request.

    >>> decide(free_slots=1, waiting=0, most_waiting=8)
    'admit'
    >>> decide(free_slots=0, waiting=8, most_waiting=8)
    'refuse'
    """
    if free_slots and not waiting:
        return "admit"
    if waiting >= most_waiting:
        return "refuse"
    return "wait"
