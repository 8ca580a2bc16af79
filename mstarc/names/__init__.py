"""Syntax tree to resolved names: what each name in a spec stands for.

`resolve(spec, sink)` gives a `Resolved`: every declaration by kind and name (`Symbols`) and, for
each `ast.Name` that uses something, the `Symbol` that it means. Unknown and doubled names are
reported here (MS02xx), with the nearest known ones of the same kind.

Whether a value is set where it is read, and what type it has, is not known here: that is
`mstarc.typecheck`. Start reading at `resolve.py`; `locals.py` has the names inside walks and
machines.
"""

from mstarc.names.resolve import resolve
from mstarc.names.symbols import Resolved, Symbol, SymbolKind, Symbols

__all__ = ["Resolved", "Symbol", "SymbolKind", "Symbols", "resolve"]
