"""`python -m mstarc_runtime PLAN …`, which `mstarc run` becomes."""

import sys

from mstarc_runtime.settings import prepare_environment

if __name__ == "__main__":
    prepare_environment()
    # Not before: loading torch fixes what its threads do.
    from mstarc_runtime.command import main

    sys.exit(main())
