"""`python -m mstarc` is the `mstarc` command."""

import os
import signal
from contextlib import suppress
from types import FrameType


def main() -> None:
    """Run the command. Ctrl-C before it has begun is no error with a trace."""
    signal.signal(signal.SIGINT, _leave)
    from mstarc.cli.main import main as run

    run()


def _leave(_number: int, _frame: FrameType | None) -> None:
    with suppress(OSError):
        os.write(2, b"interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    main()
