"""Checked spec to Walk IR: the one folder that knows the tree and the IR.

`lower(typed)` gives an `ir.Program` of a spec without errors. Config becomes numbers, names
become values with one definition each, walks that walks run are put in their place, implied
contexts and default arguments are written out. Nothing is checked or reported here: what cannot
be lowered was refused by `mstarc.typecheck`.

Start reading at `lower.py`; `walks.py` and `machines.py` have the statements.
"""

from mstarc.lowering.lower import lower

__all__ = ["lower"]
