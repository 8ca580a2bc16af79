"""How processes of a measurement end when somebody ends them: once, and after what they began."""

import signal
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end_once() -> None:
    """The first of these signals raises KeyboardInterrupt; further ones find it being obeyed."""
    for number in ENDING:
        signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
