"""Values that nothing reads (MS0501), where no other mistake is the reason.

A misspelt name, a loop that does not carry, another value given in its place, an output that
nothing emits, a walk that nothing runs: each leaves a value behind, and saying so as well would be
the same mistake twice. It is said when the other is right.
"""

from mstarc.source import Span
from mstarc.syntax import ast
from mstarc.typecheck.state import State

_REASONS = frozenset(
    (
        *("MS0302", "MS0303", "MS0304", "MS0305", "MS0306"),
        *("MS0310", "MS0311", "MS0312", "MS0313"),
        *("MS0502", "MS0503", "MS0505", "MS0507", "MS0509"),
    )
)


def report_unused(state: State) -> None:
    """Report what is never used, unless something in the same declaration explains it."""
    found = state.sink.diagnostics
    reasons = [
        diagnostic.primary.span
        for diagnostic in found
        if diagnostic.code.startswith("MS02") or diagnostic.code in _REASONS
    ]
    is_silent = any(diagnostic.code == "MS0519" for diagnostic in found)
    is_idle = any(diagnostic.code in ("MS0524", "MS0535") for diagnostic in found)
    run_for_more = _walks_run_for_more(found_spans={d.primary.span for d in found}, state=state)
    for diagnostic in state.unused:
        span = diagnostic.primary.span
        around = next((d for d in state.resolved.spec.declarations if _holds(d.span, span)), None)
        is_explained = around is not None and (
            any(_holds(around.span, reason) for reason in reasons)
            or (isinstance(around, ast.WalkDecl) and (is_silent or around in run_for_more))
            or (isinstance(around, ast.MachineDecl) and is_idle)
        )
        if not is_explained:
            state.sink.report(diagnostic)


def _walks_run_for_more(*, found_spans: set[Span], state: State) -> list[ast.WalkDecl]:
    """The walks whose runs are reported: more is wanted of them than they give."""
    walks = []
    for node in ast.descendants(state.resolved.spec):
        if isinstance(node, ast.RunCall) and node.span in found_spans:
            symbol = state.resolved.meaning(node.walk)
            if symbol is not None and isinstance(symbol.node, ast.WalkDecl):
                walks.append(symbol.node)
    return walks


def _holds(outer: Span, inner: Span) -> bool:
    return outer.path == inner.path and outer.start <= inner.start and inner.end <= outer.end
