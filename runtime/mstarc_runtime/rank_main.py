"""`python -m mstarc_runtime.rank_main …`, which `launch` starts: see `rank_process`."""

import os
import signal
import sys

from mstarc_runtime.settings import loaded_at_once

if __name__ == "__main__":
    # Ctrl-C goes to the whole group; the conductor decides what becomes of it. Before torch is
    # loaded, or the seconds that this takes would end with a trace.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # `launch` has it wait until here
    with loaded_at_once():
        from mstarc_runtime.rank_process import main

    status = main(sys.argv[1:])
    # What is said is said. A device that waits for another rank would keep Python from ending, and
    # groups are ended with the process (`transport.collectives`).
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
