"""From the text of a spec to its program, for tests."""

from mstarc.diagnostics import Diagnostic, DiagnosticSink
from mstarc.ir.graph import Program
from mstarc.ir.verify import verify
from mstarc.lowering import lower
from mstarc.names import resolve
from mstarc.source import SourceFile
from mstarc.syntax.parser import parse
from mstarc.typecheck import Sizes, check


def lowered(text: str, sizes: Sizes | None = None) -> Program:
    """The program of a spec that has no errors."""
    program, found = front_half(text, sizes)
    assert program is not None, [f"{finding.code} {finding.message}" for finding in found]
    return program


def front_half(
    text: str, sizes: Sizes | None = None
) -> tuple[Program | None, tuple[Diagnostic, ...]]:
    """The verified program, none with errors, and all findings."""
    source = SourceFile(path="spec.mstar", text=text)
    sink = DiagnosticSink()
    spec = parse(source, sink)
    if spec is None:
        return None, sink.diagnostics
    typed = check(resolve(spec, sink), sink, sizes or Sizes())
    if sink.has_errors:
        return None, sink.diagnostics
    program = lower(typed)
    verify(program, stage="lower")
    return program, sink.diagnostics
