"""As many connections as the system lets a process have."""

import resource


def allow_connections() -> int:
    """Raises the number of open files to what may be had without asking; that number.

    Where none is left, nobody can connect: idle clients alone take one each.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
