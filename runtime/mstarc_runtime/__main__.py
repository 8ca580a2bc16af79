"""`python -m mstarc_runtime PLAN …`, which `mstarc run` becomes."""

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

from mstarc_runtime.arguments import look_first, parse_arguments
from mstarc_runtime.settings import loaded_at_once, prepare_environment


def _leave(_number: int, _frame: FrameType | None) -> None:
    # Nothing has begun: there is no process and no file to look after. Seconds go by until then,
    # and an exception would show where in torch the person pressed Ctrl-C.
    with suppress(OSError):
        os.write(2, b"interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in ending:
        signal.signal(number, _leave)
    # `mstarc run` has them wait until here.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ending)
    prepare_environment()
    look_first(parse_arguments)
    # Not before: loading torch fixes what its threads do.
    with loaded_at_once():
        from mstarc_runtime.command import main

    sys.exit(main())
