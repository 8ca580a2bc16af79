"""`python -m mstarc_runtime.server PLAN …`, which `mstarc serve` becomes."""

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

from mstarc_runtime.arguments import look_first
from mstarc_runtime.server.arguments import parse_serve
from mstarc_runtime.settings import loaded_at_once, prepare_environment


def _leave(_number: int, _frame: FrameType | None) -> None:
    # Nothing has begun, as in `mstarc_runtime.__main__`.
    with suppress(OSError):
        os.write(2, b"interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in ending:
        signal.signal(number, _leave)
    # `mstarc serve` has them wait until here.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ending)
    prepare_environment()
    look_first(parse_serve)
    # Not before: loading torch fixes what its threads do.
    with loaded_at_once():
        from mstarc_runtime.server.command import main

    sys.exit(main())
