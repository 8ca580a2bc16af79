"""The request, nodes and streams as the IR has them."""

from mstarc.ir import exprs as ir_exprs
from mstarc.ir import graph as ir
from mstarc.lowering.exprs import Exprs
from mstarc.lowering.names import Types
from mstarc.names import Symbol
from mstarc.syntax import ast
from mstarc.typecheck import Typed
from mstarc.typecheck.typed import NodeInfo, OpInfo, OptionInfo, PolicyInfo, StreamInfo
from mstarc.typecheck.types import OptionalType


def lower_inputs(typed: Typed) -> tuple[ir.InputField, ...]:
    """The inputs of the request."""
    fields = []
    for field in typed.resolved.spec.request_fields:
        if not isinstance(field, ast.InField):
            continue
        type_ = typed.fields[field.name.text]
        quantity = field.quantity
        least = quantity.at_least if quantity is not None else None
        fields.append(
            ir.InputField(
                name=field.name.text,
                type=Types().type(type_.item if isinstance(type_, OptionalType) else type_),
                optional=field.optional,
                at_least=least.value if least is not None else 0,
                turns=quantity is not None and quantity.turns,
                span=field.span,
            )
        )
    return tuple(fields)


def lower_outputs(typed: Typed) -> tuple[ir.OutputField, ...]:
    """The outputs of the request."""
    return tuple(
        ir.OutputField(
            name=field.name.text,
            type=Types().type(typed.types[field]),
            optional=field.optional,
            via=None if field.via is None else (field.via.node.text, field.via.op.text),
            span=field.span,
        )
        for field in typed.resolved.spec.request_fields
        if isinstance(field, ast.OutField)
    )


def lower_options(typed: Typed) -> tuple[ir.OptionField, ...]:
    """The options of the request."""
    return tuple(_option(option) for option in typed.options.values())


def _option(option: OptionInfo) -> ir.OptionField:
    default = option.default
    assert not isinstance(default, tuple)
    domain = None
    if option.domain is not None:
        kind, values = option.domain
        domain = (kind, tuple(value for value in values if not isinstance(value, tuple)))
    return ir.OptionField(
        name=option.name,
        type=Types().type(option.type),
        default=default,
        domain=domain,
        span=option.decl.span,
    )


def lower_lets(typed: Typed) -> tuple[ir.Let, ...]:
    """The lets at the top of the spec, each after those that it uses."""
    ordered: dict[str, ir.Let] = {}

    def add(symbol: Symbol) -> None:
        if symbol.name in ordered:
            return
        let = symbol.of(ast.Let)
        for name in ast.descendants(let.value):
            used = typed.resolved.uses.get(name) if isinstance(name, ast.Name) else None
            if used is not None and used.kind == "let":
                add(used)
        ordered[symbol.name] = ir.Let(
            name=symbol.name,
            type=Types().type(typed.fields[symbol.name]),
            value=Exprs(typed, {}).lower(let.value),
            span=let.span,
        )

    for symbol in typed.resolved.symbols.values_of("let"):
        add(symbol)
    return tuple(ordered.values())


def lower_tables(typed: Typed) -> tuple[ir.Table, ...]:
    """The tables, whose index is a loop index by its name."""
    tables = []
    for symbol in typed.resolved.symbols.values_of("table"):
        table = symbol.of(ast.TableDecl)
        index = typed.resolved.uses[table.index]
        exprs = Exprs(typed, {index: ir_exprs.LoopIndex(index.name)})
        tables.append(
            ir.Table(
                name=symbol.name,
                index=index.name,
                length=exprs.lower(table.length),
                value=exprs.lower(table.value),
                span=table.span,
            )
        )
    return tuple(tables)


def lower_nodes(typed: Typed) -> tuple[ir.Node, ...]:
    """The nodes with their ops."""
    return tuple(_node(node, typed) for node in typed.nodes.values())


def _node(node: NodeInfo, typed: Typed) -> ir.Node:
    exprs = Exprs(typed, {})
    weights = None
    if node.weights is not None:
        weights = ir.Weights(
            source=node.weights.source,
            under=node.weights.under,
            size_bytes=node.weights.size_bytes,
        )
    return ir.Node(
        name=node.name,
        engine=node.engine,
        impl=node.impl,
        ops=tuple(_op(op, typed) for op in node.ops.values()),
        weights=weights,
        shards=node.shards,
        kv=_settings(node.kv, exprs),
        contexts=tuple(
            ir.Context(
                name=context.name,
                count=None if context.count is None else exprs.lower(context.count),
                cross=context.cross,
                aliases=context.aliases,
            )
            for context in node.contexts
        ),
        samplers=tuple((name, _settings(settings, exprs)) for name, settings in node.samplers),
        aliases=node.aliases,
        span=node.decl.span,
    )


def _settings(
    settings: tuple[ast.Setting, ...], exprs: Exprs
) -> tuple[tuple[str, ir_exprs.Expr], ...]:
    pairs = []
    for setting in settings:
        value, name = exprs.lower(setting.value), setting.name.text
        if setting.last is None:
            pairs.append((name, value))
        else:
            pairs += [(f"{name}_first", value), (f"{name}_last", exprs.lower(setting.last))]
    return tuple(pairs)


def _op(op: OpInfo, typed: Typed) -> ir.Op:
    types = Types()
    parameters = {
        typed.resolved.uses[param.decl.name]: ir_exprs.Local(param.name) for param in op.params
    }
    exprs = Exprs(typed, parameters)
    mask = None
    if op.mask is not None:
        size = None if op.mask_size is None else types.dim(op.mask_size)
        mask = ir.Mask(kind=op.mask, size=size)
    return ir.Op(
        name=op.name,
        parameters=tuple(
            ir.Parameter(name=param.name, type=types.type(param.type)) for param in op.params
        ),
        results=tuple(
            ir.Result(
                name=result.name,
                type=types.type(result.type),
                condition=None if result.condition is None else exprs.lower(result.condition),
            )
            for result in op.results
        ),
        mask=mask,
        writes=op.writes,
        reads=op.reads,
        advance=None if op.advance is None else exprs.lower(op.advance),
        receptive=op.receptive,
        sampler=op.sampler,
        stateful=op.stateful,
        cost=op.cost,
        span=op.decl.span,
    )


def lower_streams(typed: Typed) -> tuple[ir.Stream, ...]:
    """The streams."""
    return tuple(_stream(stream, typed) for stream in typed.streams.values())


def _stream(stream: StreamInfo, typed: Typed) -> ir.Stream:
    tail = None
    if stream.tail is not None:
        value = stream.pad
        assert not isinstance(value, tuple)
        tail = ir.Tail(kind=stream.tail, value=value)
    return ir.Stream(
        name=stream.name,
        item=Types().type(stream.item),
        policy=lower_policy(stream.policy, typed),
        tail=tail,
        empty=stream.empty,
        marks=stream.marks,
        producer=stream.producer,
        consumer=stream.consumer,
        span=stream.decl.span,
    )


def lower_policy(policy: PolicyInfo, typed: Typed) -> ir.Policy:
    """A chunk policy; its condition is over the value `item`."""
    return ir.Policy(
        kind=policy.kind,
        size=policy.size,
        stride=policy.stride,
        context=policy.context,
        ramp=policy.ramp,
        stop=None if policy.stop is None else Exprs(typed, {}).lower(policy.stop),
        mark=policy.mark,
    )
