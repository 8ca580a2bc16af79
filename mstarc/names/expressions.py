"""Resolve the names in expressions, types and chunk policies."""

from collections.abc import Mapping
from typing import assert_never

from mstarc.diagnostics import Diagnostic, Edit, Fix, Label, did_you_mean
from mstarc.names.scope import Scope, Uses, report_unknown
from mstarc.names.symbols import Symbol
from mstarc.syntax import ast
from mstarc.syntax.foreign_words import FOREIGN_VALUES, GENERIC_TYPES, LITERALS


def resolve_expr(expr: ast.Expr | ast.RunCall | ast.Pull, scope: Scope, uses: Uses) -> None:
    """Resolve every name of an expression that stands where `scope` is seen."""
    match expr:
        case ast.Name():
            resolve_value(expr, scope, uses)
        case ast.Int() | ast.Float() | ast.Str() | ast.Bool() | ast.NoneLit():
            pass
        case ast.List() | ast.Tuple():
            for item in expr.items:
                resolve_expr(item, scope, uses)
        case ast.Unary() | ast.Not():
            resolve_expr(expr.operand, scope, uses)
        case ast.Binary() | ast.Compare() | ast.And() | ast.Or():
            resolve_expr(expr.left, scope, uses)
            resolve_expr(expr.right, scope, uses)
        case ast.Member():
            resolve_expr(expr.item, scope, uses)
            resolve_expr(expr.container, scope, uses)
        case ast.Wants():
            uses.use(expr.output, uses.symbols.outputs, "MS0208", "output")
        case ast.Has():
            _resolve_has(expr, uses)
        case ast.Attr():
            resolve_expr(expr.base, scope, uses)
        case ast.Index():
            resolve_expr(expr.base, scope, uses)
            for index in expr.items:
                for part in (
                    (index.lower, index.upper) if isinstance(index, ast.Slice) else (index,)
                ):
                    if part is not None:
                        resolve_expr(part, scope, uses)
        case ast.CallExpr():
            _resolve_args(expr.args, scope, uses)
        case ast.OpCall():
            _resolve_op_call(expr, scope, uses)
        case ast.RunCall():
            uses.use(expr.walk, uses.symbols.walks, "MS0204", "walk")
            _resolve_args(expr.args, scope, uses)
        case ast.Pull():
            uses.use(expr.stream, uses.symbols.streams, "MS0205", "stream")
        case _:
            assert_never(expr)


def resolve_value(name: ast.Name, scope: Scope, uses: Uses) -> None:
    """Resolve a name that stands where a value is wanted."""
    symbol = scope.find(name.text)
    if symbol is not None:
        uses.found[name] = symbol
        return
    if name.text in uses.untaken:
        return
    hidden = scope.find_hidden(name.text)
    if hidden is not None:
        uses.sink.report(
            Diagnostic(
                code="MS0214",
                message=f"a walk does not see the input `{name.text}`",
                primary=Label(span=name.span, text="not known in a walk"),
                notes=("a walk sees its parameters, and config, options, lets and tables",),
                helps=(f"give the walk a parameter, and pass `{name.text}` where it is run",),
            ).label(hidden.declaration.span, "an input of the request")
        )
        return
    if name.text in LITERALS:
        meant = LITERALS[name.text]
        uses.sink.report(
            Diagnostic(
                code="MS0207",
                message=f"there is no value `{name.text}`",
                primary=Label(span=name.span, text=f"written `{meant}`"),
                helps=(f"write `{meant}`",),
                fix=Fix(
                    message=f"write `{meant}`",
                    edits=(Edit(span=name.span, text=meant),),
                    applicability="safe",
                ),
            )
        )
        return
    helps: tuple[str, ...] = ()
    if name.text in FOREIGN_VALUES:
        helps = (FOREIGN_VALUES[name.text],)
    elif name.text in uses.symbols.outputs:
        helps = (f"`wants {name.text}` asks whether the request wants this output",)
    elif name.text in uses.symbols.streams:
        helps = (f"`{name.text}` is a stream: read it with `each {name.text} as …`, or `pull`",)
    elif name.text in uses.symbols.nodes:
        helps = (f"`{name.text}` is a node: call one of its ops, `{name.text}.op(…)`",)
    elif name.text in uses.symbols.walks:
        helps = (f"`{name.text}` is a walk: a machine runs it with `run {name.text}(…)`",)
    known = set(scope.all_names())
    if not helps and not did_you_mean(name.text, known):
        giver = _giver_of(name.text, uses)
        if giver is not None:
            helps = (f"write `{name.text} = {giver}(…)`, which gives it, or take a parameter",)
        else:
            helps = (f"set it above (`{name.text} = node.op(…)`), or take it as a parameter",)
    report_unknown(name, known, "MS0207", "value", uses.sink, helps=helps)


def _giver_of(name: str, uses: Uses) -> str | None:
    """The one walk, else the one op, of which a result has this name, as it is called."""
    walks = (symbol.of(ast.WalkDecl) for symbol in uses.symbols.walks.values())
    found = [f"run {w.name.text}" for w in walks if any(r.name.text == name for r in w.results)]
    if len(found) == 1:
        return found[0]
    for node, members in uses.symbols.members.items():
        for op in members.ops.values():
            if any(result.name.text == name for result in op.of(ast.OpDecl).results):
                found.append(f"{node}.{op.name}")
    return found[0] if len(found) == 1 else None


def resolve_op(ref: ast.OpRef, uses: Uses) -> Symbol | None:
    """The op that `node.op` means."""
    if ref.node.text in uses.symbols.streams and ref.node.text not in uses.symbols.nodes:
        stream = ref.node.text
        helps = (f"`{stream}` is a stream: write `send {stream} <- value`",)
        report_unknown(ref.node, (), "MS0202", "node", uses.sink, helps=helps)
        return None
    node = uses.use(ref.node, uses.symbols.nodes, "MS0202", "node")
    if node is None:
        return None
    ops = uses.symbols.members[node.name].ops
    return uses.use(ref.op, ops, "MS0203", f"op of `{node.name}` named")


def resolve_context(node: ast.Name, context: ast.Name, uses: Uses) -> None:
    """Resolve `context` among the contexts of `node`. Without a list there is `main`."""
    symbol = uses.symbols.nodes.get(node.text)
    if symbol is None:
        return
    contexts = uses.symbols.members[symbol.name].contexts
    if not contexts and context.text == "main":
        return
    known: Mapping[str, Symbol] = contexts or {"main": symbol}
    uses.use(context, known, "MS0210", f"context of `{node.text}` named")


def resolve_policy(policy: ast.Policy, stream: Symbol | None, scope: Scope, uses: Uses) -> None:
    """Resolve the arguments of a chunk policy: `item` is the item, and marks may be named."""
    item = Symbol(
        kind="item", declaration=ast.Name(span=policy.name.span, text="item"), node=policy
    )
    marks = uses.symbols.marks.get(stream.name, {}) if stream is not None else {}
    inner = Scope({"item": item, **marks}, scope)
    for arg in policy.args:
        resolve_expr(arg.value, inner, uses)


def resolve_type(type_: ast.Type, scope: Scope, dims: dict[str, Symbol] | None, uses: Uses) -> None:
    """Resolve the dims of a type. Capital names that nothing declares become free dims in `dims`.

    `dims` is None where a dim must be a number or a name of config or options.
    """
    match type_:
        case ast.TensorType():
            for dim in type_.dims:
                # What stands in `list[str]` is no dim: there is no such type, which is said.
                if not isinstance(dim, ast.UnknownDim) and type_.dtype.text not in GENERIC_TYPES:
                    _resolve_dim(dim, scope, dims, uses)
        case ast.MediaType():
            resolve_expr(type_.argument, scope, uses)
        case ast.TupleType():
            for entry in type_.fields:
                resolve_type(entry.type, scope, dims, uses)
        case ast.OptionalType():
            resolve_type(type_.inner, scope, dims, uses)
        case ast.ScalarType() | ast.PartsType() | ast.ListType():
            pass
        case _:
            assert_never(type_)


def _resolve_dim(dim: ast.Expr, scope: Scope, dims: dict[str, Symbol] | None, uses: Uses) -> None:
    for name in ast.descendants(dim):
        if not isinstance(name, ast.Name):
            continue
        symbol = scope.find(name.text)
        if symbol is None and dims is not None:
            symbol = dims.get(name.text)
            if symbol is None and name.text[0].isupper():
                symbol = dims[name.text] = Symbol(kind="dim", declaration=name, node=name)
        if symbol is not None:
            uses.found[name] = symbol
            continue
        known = {*scope.all_names(), *(dims or ())}
        note = (
            "a free dim begins with a capital letter, as `T` does; other dims are named in "
            "config, options or lets"
            if dims is not None
            else "the items of a stream are all of one size, of numbers and config values"
        )
        report_unknown(name, known, "MS0213", "dim", uses.sink, notes=(note,))


def _resolve_args(args: tuple[ast.Arg, ...], scope: Scope, uses: Uses) -> None:
    for arg in args:
        resolve_expr(arg.value, scope, uses)


def _resolve_op_call(call: ast.OpCall, scope: Scope, uses: Uses) -> None:
    resolve_op(call.target, uses)
    _resolve_args(call.args, scope, uses)
    if call.context is not None:
        resolve_context(call.target.node, call.context.name, uses)
        if call.context.index is not None:
            resolve_expr(call.context.index, scope, uses)


def _resolve_has(expr: ast.Has, uses: Uses) -> None:
    inputs = {symbol.name: symbol for symbol in uses.symbols.values_of("input")}
    if expr.subject.text in inputs:
        uses.found[expr.subject] = inputs[expr.subject.text]
        return
    kinds = {
        kind.text
        for symbol in inputs.values()
        if isinstance(parts := symbol.of(ast.InField).type, ast.PartsType)
        for kind in parts.kinds
    }
    if expr.subject.text not in kinds:
        known = {*inputs, *kinds}
        report_unknown(expr.subject, known, "MS0209", "input or kind of part", uses.sink)
