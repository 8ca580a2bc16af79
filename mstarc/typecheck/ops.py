"""Ops: types of parameters and results, and effects with what is implied spelled out."""

from typing import get_args

from mstarc.diagnostics import Diagnostic, Label
from mstarc.names.scope import report_unknown
from mstarc.source import Span
from mstarc.syntax import ast
from mstarc.typecheck.constants import evaluate
from mstarc.typecheck.declared import declared_type
from mstarc.typecheck.dims import Dim
from mstarc.typecheck.environment import Env, Held
from mstarc.typecheck.logic import TRUE
from mstarc.typecheck.state import State
from mstarc.typecheck.statics import static_dim
from mstarc.typecheck.typed import MaskKind, NodeInfo, OpInfo, ParamInfo, ResultInfo
from mstarc.typecheck.types import (
    ERROR,
    INT,
    FlagType,
    ListType,
    MediaType,
    OptionalType,
    PartsType,
    ScalarType,
    TensorType,
    TupleType,
    Type,
    dims_of,
)
from mstarc.typecheck.values import Values

MASKS: tuple[MaskKind, ...] = get_args(MaskKind)
_ALL = ("bidirectional", "all", "none", "noncausal", "non_causal", "dense", "everything")
COSTS = ("flops", "bytes", "weights", "weights_a_row")
_PARTS = COSTS[2:]


def check_op(op: ast.OpDecl, node: NodeInfo, state: State) -> OpInfo:
    """Check an op of `node`, whose `ops` are not known yet."""
    scope = state.new_scope()
    params = tuple(_param(param, scope, node, state) for param in op.params)
    env = Env()
    for param in params:
        symbol = state.resolved.uses.get(param.decl.name)
        if symbol is not None:
            env.set(symbol, Held(param.type, TRUE, param.decl.span))
    results = tuple(_result(result, scope, node, params, env, state) for result in op.results)
    effects = _Effects(op, node, env, state)
    return OpInfo(
        node=node.name,
        name=op.name.text,
        params=params,
        results=results,
        mask=effects.mask,
        mask_size=effects.mask_size,
        writes=effects.writes,
        reads=effects.reads,
        is_movable=effects.is_movable,
        advance=effects.advance,
        receptive=effects.receptive,
        sampler=effects.sampler(results),
        stateful=effects.stateful,
        cost=effects.cost,
        scope=scope,
        decl=op,
    )


def check_param_type(param: ast.Param, scope: int, state: State) -> Type:
    """The type of a parameter of an op or a walk, and of its default."""
    type_ = declared_type(param.type, scope, state, tensors=True)
    if param.default is not None:
        default = Values(state).type_of(param.default, Env())
        is_value = isinstance(default, ScalarType | FlagType) or default == ERROR
        if not is_value or (isinstance(type_, ScalarType) and default not in (type_, ERROR, INT)):
            state.sink.report(
                Diagnostic(
                    code="MS0318",
                    message=f"the default of `{param.name.text}` does not fit it",
                    primary=Label(span=param.default.span, text=f"this is `{default}`"),
                ).label(param.type.span, f"`{type_}` is declared here")
            )
    return type_


def _param(param: ast.Param, scope: int, node: NodeInfo, state: State) -> ParamInfo:
    type_ = check_param_type(param, scope, state)
    inner = type_.item if isinstance(type_, OptionalType) else type_
    stays = isinstance(inner, MediaType | PartsType | ListType) or inner == ScalarType("str")
    if node.engine != "host" and stays:
        _refuse_on_device(param.type.span, inner, node, state)
        type_ = ERROR
    elif isinstance(inner, TupleType):
        state.error(
            "MS0301",
            param.type.span,
            f"an op takes the fields of `{inner}` one by one",
            "several named values are an item of a stream",
        )
        type_ = ERROR
    return ParamInfo(name=param.name.text, type=type_, default=param.default, decl=param)


def _result(
    result: ast.Result,
    scope: int,
    node: NodeInfo,
    params: tuple[ParamInfo, ...],
    env: Env,
    state: State,
) -> ResultInfo:
    type_ = declared_type(result.type, scope, state, tensors=True)
    inner = type_.item if isinstance(type_, OptionalType) else type_
    if isinstance(inner, ScalarType | FlagType | TupleType | PartsType | ListType):
        state.sink.report(
            Diagnostic(
                code="MS0301",
                message=f"an op cannot give `{type_}`",
                primary=Label(span=result.type.span, text="ops give tensors and media"),
                helps=("a number that an op gives is a tensor without dims: `i64`, `f32`",),
            )
        )
        type_ = ERROR
    elif node.engine != "host" and isinstance(inner, MediaType):
        _refuse_on_device(result.type.span, inner, node, state)
        type_ = ERROR
    if node.engine != "host":
        _refuse_unbound_dims(result, type_, scope, params, state)
    if result.condition is not None:
        Values(state).condition(result.condition, env, "whether a result is there")
    return ResultInfo(name=result.name.text, type=type_, condition=result.condition, decl=result)


def _refuse_unbound_dims(
    result: ast.Result, type_: Type, scope: int, params: tuple[ParamInfo, ...], state: State
) -> None:
    if any(param.type == ERROR for param in params):
        return  # what is wrong with it is reported, and it may have had the dim
    bound = {var for param in params for dim in dims_of(param.type) for var in dim.variables()}
    for dim in dims_of(type_):
        for var in dim.variables():
            if var.origin != "free" or var.scope != scope or var in bound:
                continue
            state.sink.report(
                Diagnostic(
                    code="MS0309",
                    message=f"nothing says how large `{var.name}` is",
                    primary=Label(
                        span=result.type.span, text=f"no parameter has a dim `{var.name}`"
                    ),
                    notes=("sizes on a device are known before the op runs",),
                    helps=(
                        f"give a parameter the dim `{var.name}`, or write `?` for a size that only "
                        "the run knows",
                    ),
                )
            )
            return


def _refuse_on_device(span: Span, type_: Type, node: NodeInfo, state: State) -> None:
    """Refuse what stays on the host; of a node once, since its engine may be what is wrong."""
    if node.name in state.misplaced:
        return
    state.misplaced.add(node.name)
    state.sink.report(
        Diagnostic(
            code="MS0328",
            message=f"`{type_}` stays on the host, and `{node.name}` computes on a device",
            primary=Label(span=span, text="a tensor or a number is wanted here"),
            helps=(
                f"let an op of a host node make tensors of it, or write `node {node.name} : host`",
            ),
        ).label(node.decl.engine.span, f"its engine is `{node.engine}`")
    )


class _Effects:
    """The effects of one op."""

    def __init__(self, op: ast.OpDecl, node: NodeInfo, env: Env, state: State) -> None:
        self._op, self._node, self._env, self._state = op, node, env, state
        self.mask: MaskKind | None = None
        self.mask_size: Dim | None = None
        self.writes: tuple[str, ...] = ()
        self.reads: tuple[str, ...] = ()
        self.is_movable = False
        self.advance: ast.Expr | None = None
        self.receptive: int | None = None
        self.stateful = False
        self.cost: tuple[tuple[str, float], ...] = ()
        self._sampler: ast.Name | None = None
        self._writes: ast.Writes | None = None
        self._reads: ast.Reads | None = None
        seen: dict[type, ast.Effect] = {}
        for effect in op.effects:
            first = seen.setdefault(type(effect), effect)
            if first is not effect:
                state.sink.report(
                    Diagnostic(
                        code="MS0201",
                        message=f"op `{node.name}.{op.name.text}` has an effect twice",
                        primary=Label(span=effect.span, text="said again here"),
                    ).label(first.span, "said first here")
                )
                continue
            self._read(effect)
        self._settle_contexts()

    def sampler(self, results: tuple[ResultInfo, ...]) -> str | None:
        """The sampler that the op uses: the named one, or the node's if the op gives tokens."""
        names = [name for name, _ in self._node.samplers]
        if self._sampler is not None:
            return self._sampler.text if self._sampler.text in names else None
        gives_tokens = any(
            isinstance(result.type, TensorType) and result.type.dtype == "i64" for result in results
        )
        return "default" if "default" in names and gives_tokens else None

    def _read(self, effect: ast.Effect) -> None:
        state = self._state
        if self._node.engine != "kv_cache" and isinstance(
            effect, ast.Attends | ast.Writes | ast.Reads | ast.Advance | ast.UseSampler
        ):
            state.sink.report(
                Diagnostic(
                    code="MS0327",
                    message=f"node `{self._node.name}` keeps no cache that an op could use",
                    primary=Label(span=effect.span, text="only ops of kv_cache nodes do this"),
                    helps=("take it away, or let the node be `: kv_cache`, with a `kv { … }`",),
                ).label(self._node.decl.engine.span, f"its engine is `{self._node.engine}`")
            )
            return
        match effect:
            case ast.Attends():
                self._read_mask(effect)
            case ast.Writes():
                self._writes = effect
            case ast.Reads():
                self._reads = effect
            case ast.Advance():
                self._read_advance(effect)
            case ast.Receptive():
                self.receptive = effect.items.value
            case ast.UseSampler():
                self._sampler = effect.name
            case ast.Stateful():
                self.stateful = True
                if self._node.engine != "host" and self._node.name not in state.misplaced:
                    state.sink.report(
                        Diagnostic(
                            code="MS0328",
                            message="only ops of host nodes are stateful",
                            primary=Label(span=effect.span, text="keeps an object a request"),
                        ).label(self._node.decl.engine.span, f"a {self._node.engine} node")
                    )
            case ast.Cost():
                self.cost = self._read_cost(effect)

    def _read_mask(self, effect: ast.Attends) -> None:
        for mask in MASKS:
            if mask == effect.mask.text:
                self.mask = mask
        if self.mask is None:
            helps = ("rows that all see one another: `full`",) if effect.mask.text in _ALL else ()
            report_unknown(effect.mask, MASKS, "MS0218", "mask", self._state.sink, helps=helps)
        if (self.mask == "frames") != (effect.argument is not None) and self.mask is not None:
            self._state.error(
                "MS0327",
                effect.span,
                f"`attends {self.mask}` {'needs' if self.mask == 'frames' else 'has no'} size",
                "the rows of one frame, as in `frames(258)`",
            )
        if effect.argument is not None:
            Values(self._state).whole_number(effect.argument, self._env, "the rows of a frame")
            self.mask_size = static_dim(effect.argument, self._state)

    def _read_advance(self, effect: ast.Advance) -> None:
        values = Values(self._state)
        type_ = values.type_of(effect.amount, self._env)
        if type_ not in (ERROR, INT, TensorType("i64")):
            self._state.error(
                "MS0315",
                effect.amount.span,
                "positions advance by a whole number that the host knows",
                f"this is `{type_}`",
            )
            return
        self.advance = effect.amount

    def _read_cost(self, effect: ast.Cost) -> tuple[tuple[str, float], ...]:
        costs = []
        for setting in effect.settings:
            if setting.name.text not in COSTS:
                what = "setting of `cost` named"
                report_unknown(setting.name, COSTS, "MS0220", what, self._state.sink)
                continue
            value = evaluate(
                setting.value, self._state.config, self._state.resolved, self._state.sink
            )
            if isinstance(value, int | float) and self._is_in_range(setting, value):
                costs.append((setting.name.text, float(value)))
        parts = dict(costs)
        if parts.get("weights_a_row", 0.0) > parts.get("weights", 1.0):
            self._state.sink.report(
                Diagnostic(
                    code="MS0331",
                    message="a row goes through more weights than its call reads",
                    primary=Label(
                        span=effect.span,
                        text=f"{parts['weights_a_row']:g} of them, and {parts['weights']:g}",
                    ),
                    helps=("`weights_a_row` is at most `weights`",),
                )
            )
        return tuple(costs)

    def _is_in_range(self, setting: ast.Setting, value: float) -> bool:
        """Whether what `cost` counts may be so much; else it is reported (MS0331)."""
        name = setting.name.text
        is_part = name in _PARTS
        if (0 < value <= 1) if is_part else value >= 0:
            return True
        wanted = "a part of the weights: above 0, and 1 at most" if is_part else "0 or more"
        self._state.sink.report(
            Diagnostic(
                code="MS0331",
                message=f"`{name}` of `cost` is {wanted}",
                primary=Label(span=setting.value.span, text=f"{value:g} is not"),
                helps=("write `0.5` for half of them",) if is_part else (),
            )
        )
        return False

    def _settle_contexts(self) -> None:
        if self._node.engine != "kv_cache":
            return
        first = self._node.contexts[0].name
        known = {context.name for context in self._node.contexts}
        writes, reads = self._writes, self._reads
        if self.mask is None:
            self.mask = "causal"
        if writes is not None and self.mask == "prefix":
            self._refuse_kept_prefix(writes)
        if writes is None and reads is None:
            if self.mask == "prefix":
                self.reads = (first,)
            else:
                self.writes = (first,)
            self.is_movable = True
            return
        named = [effect for effect in (writes, reads) if effect is not None and effect.contexts]
        self.is_movable = not named
        if writes is not None:
            self.writes = tuple(c.text for c in writes.contexts if c.text in known) or (first,)
        if reads is not None:
            self.reads = tuple(c.text for c in reads.contexts if c.text in known) or (first,)
        both = [name for name in self.writes if name in self.reads]
        if both and writes is not None and reads is not None:
            self._state.sink.report(
                Diagnostic(
                    code="MS0530",
                    message=f"`{self._node.name}.{self._op.name.text}` writes what it only reads",
                    primary=Label(span=writes.span, text=f"writes `{both[0]}`"),
                    notes=("`reads` alone attends to a context and keeps nothing of the call",),
                    helps=("an op that writes attends to the context as well: leave `reads` out",),
                ).label(reads.span, f"only reads `{both[0]}`")
            )

    def _refuse_kept_prefix(self, writes: ast.Writes) -> None:
        attends = next(e for e in self._op.effects if isinstance(e, ast.Attends))
        self._state.sink.report(
            Diagnostic(
                code="MS0530",
                message=f"`{self._node.name}.{self._op.name.text}` writes behind a prefix",
                primary=Label(span=writes.span, text="keeps the rows of the call"),
                notes=("each call would attend to what the calls before it left there",),
                helps=("write `reads`; or `attends full`, whose rows may be kept",),
            ).label(attends.span, "keeps none")
        )
