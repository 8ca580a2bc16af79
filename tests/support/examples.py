"""How many examples a property is tried with: few each time, many at night."""

import os

TIMES = "MSTARC_EXAMPLES"
"""The environment variable that says how many times as many: `make test-slow` asks for 10."""


def examples(few: int) -> int:
    """`few`, or that many times as many."""
    return few * int(os.environ.get(TIMES, "1"))
