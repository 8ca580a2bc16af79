"""The meaning of a program: what a request gets, over toy ops and toy tokens.

`interpret` runs all machines of a request to their ends and tells what was emitted, how often each
site ran and what went through each stream. Ops are pure functions of their arguments and of what
their contexts hold, so that a wrong order, a lost row or a repeated item shows in every later
token. Placement, batches and time do not exist here; machines take turns, in any order.
Start at `run.py`.
"""

from mstarc.ir.interpret.request import Outcome, Part, Request
from mstarc.ir.interpret.run import interpret
from mstarc.ir.interpret.toys import landmarks

__all__ = ["Outcome", "Part", "Request", "interpret", "landmarks"]
