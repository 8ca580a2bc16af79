"""Chunks that their reader cannot take, said in the words of the stream."""

from mstarc.diagnostics import Diagnostic, Label
from mstarc.syntax import ast
from mstarc.typecheck.fitting import Misfit
from mstarc.typecheck.policies import chunk_type
from mstarc.typecheck.state import State
from mstarc.typecheck.text import text_of
from mstarc.typecheck.typed import PolicyInfo, StreamInfo


def chunk_misfit(misfit: Misfit, expr: ast.Expr, state: State) -> Diagnostic | None:
    """The finding for a misfit of a chunk of a stream; None where `expr` is none."""
    if misfit.code not in ("MS0304", "MS0305"):
        return None
    base = expr.base if isinstance(expr, ast.Attr) else expr
    symbol = state.resolved.meaning(base) if isinstance(base, ast.Name) else None
    if symbol is None or not isinstance(symbol.node, ast.Each):
        return None
    each = symbol.node
    names = [name.text for name in each.items]
    stream = state.streams.get(each.streams[names.index(symbol.name)].text)
    if stream is None:
        return None
    policy = state.policies.get(each, stream.policy)
    is_short = stream.tail == "short" and each not in state.policies
    fixed = chunk_type(policy, stream.item, short=False, place=each, state=state)
    if is_short and chunk_type(policy, stream.item, short=True, place=each, state=state) != fixed:
        assert stream.decl.tail is not None
        return (
            Diagnostic(
                code="MS0412",
                message=f"the last chunk of `{stream.name}` may be too short for its reader",
                primary=Label(span=expr.span, text=f"up to {policy.size} items"),
                helps=(
                    "let the reader take any number, as in `i64[F]`, or write `tail drop` or "
                    "`tail pad(value)`",
                ),
            )
            .label(stream.decl.tail.span, "hands over what is left")
            .label(policy.decl.span, f"chunks are of {policy.size}")
        )
    return Diagnostic(
        code="MS0409",
        message=f"chunks of `{stream.name}` are not of the size that their reader takes",
        primary=Label(span=expr.span, text=misfit.reason),
        helps=(_advice(policy, stream, text_of(expr)),),
    ).label(policy.decl.span, _holds(policy))


def _holds(policy: PolicyInfo) -> str:
    match policy.kind:
        case "fixed":
            return "hands over one item" if policy.size == 1 else f"hands over {policy.size} items"
        case "sliding":
            return f"hands over {policy.size} items"
        case "left_context":
            return f"hands over up to {policy.context + policy.size} items"
        case "until":
            return f"hands over up to {policy.size} items"


def _advice(policy: PolicyInfo, stream: StreamInfo, text: str) -> str:
    if policy.kind in ("until", "left_context"):
        return f"let the reader of `{text}` take any number of items: a free leading dim, as `F`"
    if policy.kind == "fixed" and policy.size == 1:
        return f"one item of `{stream.name}` is `{stream.item}`; a larger chunk has a leading dim"
    return "make the chunk as large as its reader's first dim, or that dim as large as the chunk"
