"""What we tell users: diagnostics, the catalogue of codes, and how they are shown.

Stages report `Diagnostic`s to a `DiagnosticSink`; `render/` turns the same objects into each
output format and computes nothing. The catalogue gives a code its name, severity and group.
No stage of the compiler is known here. Start reading at `diagnostic.py`.
"""

from mstarc.diagnostics.catalog import CATALOG, CatalogEntry, Severity
from mstarc.diagnostics.diagnostic import Diagnostic, Edit, Fix, InternalError, Label
from mstarc.diagnostics.sink import DiagnosticSink
from mstarc.diagnostics.suggest import did_you_mean

__all__ = [
    "CATALOG",
    "CatalogEntry",
    "Diagnostic",
    "DiagnosticSink",
    "Edit",
    "Fix",
    "InternalError",
    "Label",
    "Severity",
    "did_you_mean",
]
