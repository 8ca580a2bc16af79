"""From a stream's items to the sound that they become.

A machine reads a stream with `each`; the chunk goes to an op, directly or as the argument of a
walk, and the op's result is emitted to an `audio` output. Then the op's dims say how many samples
an item becomes: of `op decode(frames: i64[F, 16]) -> (pcm: f32[1920 * F - 555])` 1,920, of
`op decode(codes: i64[28]) -> (pcm: f32[2048])` behind a stride of 7 items 292.6. What cannot be
followed this way has no `Sound`, and the rules say nothing about it.
"""

from collections.abc import Iterator

from mstarc.lint.base import RuleContext
from mstarc.names import Symbol
from mstarc.records import dataclass
from mstarc.syntax import ast
from mstarc.typecheck.dims import Dim
from mstarc.typecheck.typed import OpInfo, PolicyInfo, StreamInfo
from mstarc.typecheck.types import MediaType, TensorType


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkUse:
    """An op call that takes a chunk of a stream as it is read. `scope` is the body it stands in."""

    stream: StreamInfo
    policy: PolicyInfo
    each: ast.Each
    call: ast.OpCall
    op: OpInfo
    parameter: int
    scope: ast.Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """A stream whose chunks become sound: `samples_an_item` samples of `rate` hertz each."""

    use: ChunkUse
    output: str
    rate: int
    samples_an_item: float

    @property
    def seconds_an_item(self) -> float:
        """How long one item sounds."""
        return self.samples_an_item / self.rate


def chunk_uses(context: RuleContext) -> Iterator[ChunkUse]:
    """Every op call whose argument is a whole chunk, through the walks that it is passed to."""
    for each in context.nodes.get(ast.Each, ()):
        assert isinstance(each, ast.Each)
        for position, name in enumerate(each.streams):
            stream = context.typed.streams.get(name.text)
            symbol = _symbol_of(each.items[position], each, context)
            if stream is None or symbol is None:
                continue
            policy = context.typed.policies.get(each, stream.policy)
            for call, op, parameter, scope in _calls_with(symbol, each.body, context, ()):
                yield ChunkUse(
                    stream=stream,
                    policy=policy,
                    each=each,
                    call=call,
                    op=op,
                    parameter=parameter,
                    scope=scope,
                )


def sounds(context: RuleContext) -> Iterator[Sound]:
    """The streams whose chunks become sound, one entry a use and output."""
    for use in chunk_uses(context):
        for output, index in _emitted(use, context):
            media = context.typed.fields.get(output) or context.typed.types.get(
                context.resolved.symbols.outputs[output].node
            )
            if not isinstance(media, MediaType) or media.rate is None:
                continue
            samples = _samples_an_item(use, index)
            if samples:
                yield Sound(use=use, output=output, rate=media.rate, samples_an_item=samples)


def new_items(policy: PolicyInfo) -> int:
    """The items that each full chunk holds for the first time."""
    return policy.stride if policy.kind == "sliding" else policy.size


def _symbol_of(name: ast.Name, each: ast.Each, context: RuleContext) -> Symbol | None:
    """The symbol of a chunk's name, found by one of its uses."""
    for used in ast.descendants(each.body):
        if isinstance(used, ast.Name) and used.text == name.text:
            symbol = context.resolved.meaning(used)
            if symbol is not None and symbol.node is each:
                return symbol
    return None


def _calls_with(
    symbol: Symbol, body: ast.Node, context: RuleContext, walks: tuple[str, ...]
) -> Iterator[tuple[ast.OpCall, OpInfo, int, ast.Node]]:
    for node in ast.descendants(body):
        if not isinstance(node, ast.OpCall | ast.RunCall):
            continue
        for position, argument in enumerate(context.typed.arguments.get(node, ())):
            if not isinstance(argument, ast.Name) or context.resolved.meaning(argument) != symbol:
                continue
            if isinstance(node, ast.OpCall):
                op = context.typed.nodes[node.target.node.text].ops[node.target.op.text]
                yield node, op, position, body
                continue
            walk = context.typed.walks[node.walk.text]
            if walk.name in walks:
                continue
            inner = _parameter(walk.params[position].decl, walk.decl, context)
            if inner is not None:
                yield from _calls_with(inner, walk.decl.body, context, (*walks, walk.name))


def _parameter(param: ast.Param, walk: ast.WalkDecl, context: RuleContext) -> Symbol | None:
    for used in ast.descendants(walk.body):
        if isinstance(used, ast.Name) and used.text == param.name.text:
            symbol = context.resolved.meaning(used)
            if symbol is not None and symbol.declaration is param.name:
                return symbol
    return None


def _emitted(use: ChunkUse, context: RuleContext) -> Iterator[tuple[str, int]]:
    """Outputs that get a result of the call as it is, each with the result's position."""
    for node in ast.descendants(use.scope):
        if not isinstance(node, ast.Emit):
            continue
        if node.value is use.call:
            yield node.output.text, 0
            continue
        meaning = context.resolved.meaning(node.value) if isinstance(node.value, ast.Name) else None
        if meaning is None:
            continue
        for setting in ast.descendants(use.scope):
            if not isinstance(setting, ast.Assign) or setting.value is not use.call:
                continue
            for index, target in enumerate(setting.targets):
                if isinstance(target, ast.Name) and context.resolved.meaning(target) is meaning:
                    yield node.output.text, index


def _samples_an_item(use: ChunkUse, result: int) -> float | None:
    """Samples that an item becomes, from the op's dims; None where they do not say it."""
    if result >= len(use.op.results):
        return None
    given = use.op.results[result].type
    taken = use.op.params[use.parameter].type
    if not isinstance(given, TensorType) or not isinstance(taken, TensorType) or not given.dims:
        return None
    length = given.dims[-1]
    if (samples := length.value) is not None:
        # A fixed length belongs to what is new in a chunk: the rest was heard before.
        return samples / new_items(use.policy) if use.policy.kind != "until" else None
    leading = taken.dims[0].variable if taken.dims else None
    return None if leading is None else _slope(length, leading.name, leading.scope)


def _slope(length: Dim, name: str, scope: int) -> float | None:
    """The factor of a dim variable in a dim that is linear in it and has no other."""
    slope: int | None = None
    for atoms, factor in length.terms:
        match atoms:
            case ():
                continue
            case (atom,) if getattr(atom, "name", None) == name and (
                getattr(atom, "scope", None) == scope
            ):
                slope = factor
            case _:
                return None
    return slope
