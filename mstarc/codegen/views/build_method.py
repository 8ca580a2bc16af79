"""What a rank declares in `build`, and gives back in `release`."""

from mstarc.codegen.expressions import constant_name
from mstarc.codegen.pyrepr import layout_call, layout_dict, layout_tuple, layout_value, pyrepr
from mstarc.diagnostics import InternalError
from mstarc.ir.exprs import Const, Expr, LetRef, Option
from mstarc.ir.graph import Context, Mask, Op, Policy, Tail
from mstarc.ir.text import format_dim, format_type
from mstarc.ir.types import DimConst, TensorType
from mstarc.plan.naming import attribute, identifier
from mstarc.plan.plan import NodePlan, NodeWeights, OutboxPlan, RankPlan, RingPlan, Variable

_DEPTH = 8


class _Names:
    """The names that `build` needs of the other modules."""

    def __init__(self) -> None:
        self.machines: set[str] = set()
        self.api: set[str] = set()

    def setting(self, expr: Expr) -> str:
        """A number, a config entry, or the name of the option that gives it."""
        match expr:
            case Const(value, None):
                return pyrepr(value)
            case Const(_, str() as name):
                self.machines.add(constant_name(name))
                return constant_name(name)
            case Option(name) | LetRef(name):
                return pyrepr(name)
            case _:
                raise InternalError(f"a setting that no sampler takes: {expr}", stage="codegen")


def build_lines(rank: RankPlan) -> tuple[tuple[str, ...], set[str], set[str]]:
    """The lines of `build`, the config names and the API names that they use."""
    names = _Names()
    lines: list[str] = []
    for node in rank.nodes:
        lines.append(_node(node, names))
    lines += [_ring(ring, names) for ring in rank.rings]
    lines += [_outbox(outbox) for outbox in rank.outboxes]
    lines += [_variable(variable) for variable in rank.variables]
    for table in rank.tables:
        arguments = [pyrepr(table.name), pyrepr(table.dtype), f"capacity={table.capacity}"]
        lines.append(_assign(table.name, "table", arguments))
    for constant in rank.constants:
        value = pyrepr(constant.value)
        if constant.config is not None:
            value = constant_name(constant.config)
            names.machines.add(value)
        arguments = [pyrepr(constant.name), pyrepr(constant.dtype), value]
        lines.append(_assign(constant.name, "constant", arguments))
    for loop in rank.loops:
        names.api.add("Loop")
        settings = [
            f"name={pyrepr(loop.name)}",
            f"bound={pyrepr(loop.name)}",
            f"tested={loop.tested}",
        ]
        kept = f"self.{identifier(loop.name)} = " if loop.numbered else ""
        inner = layout_call("Loop", settings, _DEPTH + 4, before=len(kept) + len("b.loop()") - 4)
        lines.append(" " * _DEPTH + layout_call(f"{kept}b.loop", [inner], _DEPTH))
    return tuple(lines or ["        pass"]), names.machines, names.api


def release_lines(rank: RankPlan) -> tuple[str, ...]:
    """One line for everything that a request may hold on the rank."""
    holders = [n.node.name for n in rank.nodes if n.node.engine != "stateless"]
    holders += [ring.name for ring in rank.rings]
    names = [attribute(name) for name in holders] + [v.name for v in rank.variables]
    return tuple(f"        self.{name}.release(slot)" for name in names) or ("        pass",)


def _assign(name: str, method: str, arguments: list[str]) -> str:
    head = f"self.{attribute(name)} = b.{method}"
    return " " * _DEPTH + layout_call(head, arguments, _DEPTH)


def _node(node: NodePlan, names: _Names) -> str:
    spec = node.node
    arguments = [pyrepr(spec.name), f"impl={pyrepr(spec.impl)}"]
    names.api.add("Weights")
    arguments.append(f"weights={_weights(node.weights)}")
    if spec.engine == "kv_cache":
        arguments += _kv_arguments(node, names)
    arguments += _signatures(node, names)
    if node.group:
        arguments.append(f"group={pyrepr(node.group)}")
        arguments += [f"tp={node.tp}"] if node.tp > 1 else []
        arguments += [f"sp={node.sp}"] if node.sp > 1 else []
    return _assign(spec.name, spec.engine, arguments)


def _signatures(node: NodePlan, names: _Names) -> list[str]:
    """What the ops of a device node take and give, by which the runtime knows a wrong result."""
    if node.node.engine == "host":
        return []
    items = []
    for op in node.node.ops:
        names.api.add("Signature")
        takes = [format_type(parameter.type) for parameter in op.parameters]
        gives = [f"{result.name}: {format_type(result.type)}" for result in op.results]
        settings = [f"takes={_texts(takes)}", f"gives={_texts(gives)}"]
        name = pyrepr(op.name)
        # A colon and a space stand before it, a comma behind it.
        called = layout_call("Signature", settings, _DEPTH + 8, before=len(name) + 3)
        items.append((name, called))
    return [f"signatures={layout_dict(items, _DEPTH + 4, before=11, after=1)}"]


def _texts(texts: list[str]) -> str:
    items = [pyrepr(text) for text in texts]
    return layout_tuple(items, _DEPTH + 12, before=6, after=1) if items else "()"


def _weights(weights: NodeWeights) -> str:
    arguments = [f"source={pyrepr(weights.source)}"]
    if weights.under:
        arguments.append(f"under={pyrepr(weights.under)}")
    if weights.seed:
        arguments.append(f"seed={weights.seed}")
    if weights.config:
        config = layout_value(dict(weights.config), _DEPTH + 8, before=7, after=1)
        arguments.append(f"config={config}")
    return layout_call("Weights", arguments, _DEPTH + 4, before=len("weights=,"), tail="")


def _kv_arguments(node: NodePlan, names: _Names) -> list[str]:
    spec = node.node
    settings = dict(spec.kv)
    contexts = spec.contexts or (Context(name="main"),)
    plain = [context for context in contexts if context.cross is None]
    samplers = []
    for name, pairs in spec.samplers:
        names.api.add("Sampler")
        given = [] if name == "default" else [f"name={pyrepr(name)}"]
        given += [f"{key}={names.setting(value)}" for key, value in pairs]
        samplers.append(layout_call("Sampler", given, _DEPTH + 8, tail=""))
    ops = [op for op in spec.ops if op.writes or op.reads or op.mask is not None]
    assert node.pool is not None, "plan-memory has run"
    return [
        f"layers={names.setting(settings['layers'])}",
        f"heads={names.setting(settings['heads'])}",
        f"head_dim={names.setting(settings['head_dim'])}",
        f"contexts={pyrepr(tuple(context.name for context in plain))}",
        *_arrays(node, names),
        f"cross={pyrepr({c.name: c.cross for c in contexts if c.cross is not None})}",
        _dict("masks", [(op.name, _mask(op.mask)) for op in ops if op.mask is not None]),
        _dict("writes", [(op.name, name) for op in ops for name in _written(op, plain)[:1]]),
        *([_dict("reads", reads)] if (reads := _attended(ops, plain)) else []),
        f"samplers={layout_tuple(samplers, _DEPTH + 4, before=9, after=1) if samplers else '()'}",
        _dict("op_sampler", [(op.name, op.sampler) for op in spec.ops if op.sampler is not None]),
        f"pages={node.pool.pages}",
        f"page_tokens={node.pool.page_tokens}",
    ]


def _arrays(node: NodePlan, names: _Names) -> list[str]:
    """Which contexts are arrays: how many a request has, and the most of any."""
    items = []
    for array in node.arrays:
        names.api.add("ContextArray")
        arguments = [f"count={names.setting(array.count)}", f"most={array.most}"]
        items.append((pyrepr(array.context), f"ContextArray({', '.join(arguments)})"))
    return [f"arrays={layout_dict(items, _DEPTH + 4, before=7, after=1)}"] if items else []


def _written(op: Op, plain: list[Context]) -> list[str]:
    """The contexts of its own rows that an op writes; a cross context is written by name."""
    return [name for name in op.writes if any(context.name == name for context in plain)]


def _attended(ops: list[Op], plain: list[Context]) -> list[tuple[str, str]]:
    """Ops that keep nothing, each with the context that it attends."""
    names = [context.name for context in plain]
    found = [(op, [n for n in op.reads if n in names]) for op in ops if not _written(op, plain)]
    return [(op.name, reads[0]) for op, reads in found if reads]


def _mask(mask: Mask) -> str:
    return mask.kind if mask.size is None else f"{mask.kind}({format_dim(mask.size)})"


def _dict(name: str, pairs: list[tuple[str, str]]) -> str:
    items = [(pyrepr(key), pyrepr(value)) for key, value in pairs]
    return f"{name}={layout_dict(items, _DEPTH + 4, before=len(name) + 1, after=1)}"


def _item(type_: TensorType) -> str:
    return pyrepr(_sizes(type_))


def _sizes(type_: TensorType) -> tuple[int, ...]:
    sizes = tuple(dim.value for dim in type_.dims if isinstance(dim, DimConst))
    if len(sizes) != len(type_.dims):
        raise InternalError(f"no fixed size: {type_}", stage="codegen")
    return sizes


def _ring(ring: RingPlan, names: _Names) -> str:
    names.api.add("Policy")
    policy = layout_call(
        "Policy", policy_settings(ring.policy, ring.tail, ring.empty), _DEPTH + 4, before=7, tail=""
    )
    arguments = [
        pyrepr(ring.name),
        f"dtype={pyrepr(ring.item.dtype)}",
        f"item={_item(ring.item)}",
        f"policy={policy}",
        f"capacity={ring.capacity}",
    ]
    return _assign(ring.name, "ring", arguments)


def policy_settings(policy: Policy, tail: Tail | None, empty: str | None) -> list[str]:
    """The arguments of a `Policy`."""
    arguments = [f"kind={pyrepr(policy.kind)}", f"size={policy.size}"]
    if policy.stride:
        arguments.append(f"stride={policy.stride}")
    if policy.context:
        arguments.append(f"context={policy.context}")
    if policy.ramp:
        arguments.append(f"ramp={pyrepr(policy.ramp)}")
    if tail is not None:
        arguments.append(f"tail={pyrepr(tail.kind)}")
        if tail.value is not None:
            arguments.append(f"pad={pyrepr(tail.value)}")
    if empty is not None:
        arguments.append(f"empty={pyrepr(empty)}")
    return arguments


def _outbox(outbox: OutboxPlan) -> str:
    arguments = [
        pyrepr(outbox.name),
        f"dtype={pyrepr(outbox.item.dtype)}",
        f"item={_item(outbox.item)}",
        f"rank={outbox.rank}",
    ]
    return _assign(outbox.name, "outbox", arguments)


def _variable(variable: Variable) -> str:
    match variable.storage:
        case "values":
            return _assign(variable.name, "values", [pyrepr(variable.name)])
        case "register":
            assert isinstance(variable.type, TensorType)
            arguments = [
                pyrepr(variable.name),
                pyrepr(variable.type.dtype),
                _item(variable.type),
            ]
            return _assign(variable.name, "register", arguments)
        case "collector":
            assert isinstance(variable.type, TensorType)
            one = TensorType(variable.type.dtype, variable.type.dims[1:])
            arguments = [
                pyrepr(variable.name),
                pyrepr(one.dtype),
                _item(one) if one.is_static and variable.capacity is not None else "None",
                f"capacity={variable.capacity}",
            ]
            return _assign(variable.name, "collector", arguments)
        case _:
            raise InternalError(f"{variable.name} is not kept", stage="codegen")
