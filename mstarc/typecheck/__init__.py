"""Resolved names to a checked spec: types, dims, conditions under which values are there.

`check(resolved, sink, sizes)` gives a `Typed`: every declaration with its types, and side tables
over the tree that `mstarc.lowering` reads. Config is worked out to numbers here, with `sizes`
above the defaults, so that sizes compare as numbers. What is wrong is reported (MS03xx types,
MS04xx streams, MS05xx walks, contexts and machines); a spec with errors is not lowered.

Nothing here knows the IR or devices. Start reading at `check.py`, then `flow.py`; `fitting.py`
says what fits where, `logic.py` how conditions are compared.
"""

from mstarc.typecheck.check import check
from mstarc.typecheck.constants import ConfigValue, Sizes
from mstarc.typecheck.typed import Typed

__all__ = ["ConfigValue", "Sizes", "Typed", "check"]
