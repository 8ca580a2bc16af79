"""What leaves a walk: items sent to streams, and values emitted to outputs."""

from typing import TYPE_CHECKING

from mstarc.diagnostics import Diagnostic, Label
from mstarc.syntax import ast
from mstarc.typecheck.dims import Dim
from mstarc.typecheck.environment import Env
from mstarc.typecheck.fitting import Fitter, Misfit
from mstarc.typecheck.pictures import pixel_misfit
from mstarc.typecheck.text import text_of
from mstarc.typecheck.typed import NodeInfo, OpInfo
from mstarc.typecheck.types import (
    ERROR,
    MediaType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
)

if TYPE_CHECKING:
    from mstarc.typecheck.flow import Flow


def check_send(flow: "Flow", send: ast.Send, env: Env) -> None:
    """Check a send: one value a field, each one item or a row of items."""
    state = flow.state
    inner = flow.under(send.condition, env, "the condition of `send`")
    types = [flow.values.type_of(value, inner) for value in send.values]
    symbol = state.resolved.meaning(send.stream)
    stream = state.streams.get(symbol.name) if symbol is not None else None
    if stream is None:
        return
    fields = (
        stream.item.fields if isinstance(stream.item, TupleType) else ((stream.name, stream.item),)
    )
    if len(fields) != len(types):
        state.sink.report(
            Diagnostic(
                code="MS0313",
                message=f"an item of `{stream.name}` has {len(fields)} value"
                f"{'s' if len(fields) > 1 else ''}, not {len(types)}",
                primary=Label(span=send.span, text=f"sends {len(types)}"),
            ).label(stream.decl.item.span, f"items are `{stream.item}`")
        )
        return
    rows: list[tuple[ast.Expr, Dim | None]] = []
    for value, type_, (_, wanted) in zip(send.values, types, fields, strict=True):
        count = _items(type_, wanted)
        misfit = Fitter(0).fit(wanted, type_) if count is None else None
        if misfit is not None:
            state.sink.report(_misfit(misfit, value, stream.name, wanted, stream.decl.item))
            state.doubtful.add(stream.name)
            return
        rows.append((value, count))
    counts = [(value, count) for value, count in rows if count is not None]
    if not counts:
        return
    first_value, first = counts[0]
    for value, count in counts[1:]:
        if count != first:
            state.sink.report(
                Diagnostic(
                    code="MS0305",
                    message=f"the values sent to `{stream.name}` are not of one number",
                    primary=Label(span=value.span, text=f"{count} of this one"),
                ).label(first_value.span, f"{first} of this one")
            )
    for (value, count), type_ in zip(rows, types, strict=True):
        # A tensor must come as often as the others; a number of the host stands for each item.
        if count is None and isinstance(type_, TensorType):
            state.sink.report(
                Diagnostic(
                    code="MS0305",
                    message=f"the values sent to `{stream.name}` are not of one number",
                    primary=Label(span=value.span, text="one of this one"),
                ).label(first_value.span, f"{first} of this one")
            )


def check_emit(flow: "Flow", emit: ast.Emit, env: Env) -> None:
    """Check that a value may go to an output."""
    state = flow.state
    inner = flow.under(emit.condition, env, "the condition of `emit`")
    found = flow.values.type_of(emit.value, inner)
    symbol = state.resolved.meaning(emit.output)
    if symbol is None or found == ERROR:
        return
    output = symbol.of(ast.OutField)
    wanted = state.types.get(output)
    if not isinstance(wanted, MediaType):
        return
    if isinstance(found, OptionalType):
        state.sink.report(
            Diagnostic(
                code="MS0307",
                message=f"`{text_of(emit.value)}` may be none where it is emitted",
                primary=Label(span=emit.value.span, text="not always there"),
                helps=("emit it under the condition that it is there: `emit … if …`",),
            ).label(output.span, "goes to this output")
        )
        return
    misfit = _emit_misfit(flow, output, wanted, found)
    if misfit is None:
        if wanted.kind in ("image", "video") and isinstance(found, TensorType):
            state.pictures[emit] = (found, inner.facts)
        return
    diagnostic = Diagnostic(
        code=misfit.code,
        message=f"`{text_of(emit.value)}` cannot go to the output `{symbol.name}`",
        primary=Label(span=emit.value.span, text=misfit.reason),
    ).label(output.span, f"is `{wanted}`")
    if wanted.kind == "text" and output.via is None and isinstance(found, TensorType):
        diagnostic = diagnostic.help(
            f"name the op that makes text of tokens: `out {symbol.name} : text via node.op`"
        )
    state.sink.report(diagnostic)


def _emit_misfit(
    flow: "Flow", output: ast.OutField, wanted: MediaType, found: Type
) -> Misfit | None:
    if isinstance(found, MediaType):
        return Fitter(0).fit(wanted, found)
    if output.via is not None:
        return _via_misfit(flow, output.via, found)
    if not isinstance(found, TensorType):
        return Misfit("MS0302", f"this is `{found}`")
    match wanted.kind:
        case "text":
            return Misfit("MS0306", f"`{found}` is no text")
        case "audio":
            if found.dtype not in ("f32", "f16", "bf16"):
                return Misfit("MS0303", f"`{found}`: samples are numbers in -1 .. 1, such as f32")
            return (
                None
                if len(found.dims) == 1
                else Misfit("MS0304", f"`{found}`: samples have one dim")
            )
        case "image":
            return pixel_misfit(found, "a picture", "u8[3, H, W]")
        case "video":
            return pixel_misfit(found, "a video", "u8[3, F, H, W]")
        case "action" | "tensor":
            return None


def via_problem(node: NodeInfo, op: OpInfo) -> str | None:
    """Why an op cannot make text of tokens; None where it can."""
    needed = [param for param in op.params if param.default is None]
    first = op.params[0].type if op.params else None
    if node.engine != "host":
        return f"an op of a {node.engine} node"
    if len(needed) > 1 or not isinstance(first, TensorType) or first.dtype != "i64":
        return "does not take just tokens (`i64`)"
    if len(op.results) != 1 or op.results[0].type != MediaType("text"):
        return "does not give just `text`"
    return None


def _via_misfit(flow: "Flow", via: ast.OpRef, found: Type) -> Misfit | None:
    node = flow.state.nodes.get(via.node.text)
    op = node.ops.get(via.op.text) if node is not None else None
    if node is None or op is None or via_problem(node, op) is not None:
        return None
    fitter = Fitter(op.scope)
    param = op.params[0].type
    fitter.bind(param, found)
    if fitter.fit(param, found) is None:
        return None
    # A row of tokens is as many tokens, one after another.
    if isinstance(found, TensorType) and isinstance(param, TensorType) and len(found.dims) == 1:
        return fitter.fit(param, TensorType(found.dtype, found.dims[1:]))
    return fitter.fit(param, found)


def _items(found: Type, wanted: Type) -> Dim | None:
    """How many items a value is, if it has one leading dim more than an item."""
    if not isinstance(found, TensorType) or not isinstance(wanted, TensorType):
        return None
    if len(found.dims) != len(wanted.dims) + 1:
        return None
    if Fitter(0).fit(wanted, TensorType(found.dtype, found.dims[1:])) is not None:
        return None
    return found.dims[0]


def _misfit(
    misfit: Misfit, value: ast.Expr, stream: str, wanted: Type, item: ast.Type
) -> Diagnostic:
    diagnostic = Diagnostic(
        code=misfit.code,
        message=f"`{text_of(value)}` is no item of the stream `{stream}`",
        primary=Label(span=value.span, text=misfit.reason),
    ).label(item.span, f"an item is `{wanted}`")
    if misfit.code == "MS0307":
        diagnostic = diagnostic.help("send it under the condition that it is there: `send … if …`")
    return diagnostic
