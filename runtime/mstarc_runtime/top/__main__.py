"""`python -m mstarc_runtime.top URL`, which `mstarc top` becomes."""

import sys

from mstarc_runtime.top.command import main

if __name__ == "__main__":
    sys.exit(main())
