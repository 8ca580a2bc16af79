"""What the checker gives: declarations with their types, and side tables over the tree."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from mstarc.names import Resolved, Symbol
from mstarc.records import dataclass
from mstarc.syntax import ast
from mstarc.typecheck.constants import ConfigValue
from mstarc.typecheck.dims import Dim
from mstarc.typecheck.links import Links
from mstarc.typecheck.types import Type

Engine: TypeAlias = Literal["kv_cache", "stateless", "host"]
MaskKind: TypeAlias = Literal["causal", "full", "prefix", "frames"]
PolicyKind: TypeAlias = Literal["fixed", "sliding", "left_context", "until"]
TailKind: TypeAlias = Literal["drop", "short", "pad"]
EmptyKind: TypeAlias = Literal["skip", "error"]
Signature: TypeAlias = "OpInfo | WalkInfo"
Call: TypeAlias = ast.OpCall | ast.RunCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ParamInfo:
    """A parameter; `default` stands where no argument is given."""

    name: str
    type: Type
    default: ast.Expr | None
    decl: ast.Param


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultInfo:
    """A result; with `condition` (over flags) it is there only where that holds."""

    name: str
    type: Type
    condition: ast.Expr | None
    decl: ast.Result


@dataclass(frozen=True, slots=True, kw_only=True)
class OpInfo:
    """An op with its effects spelled out. `scope` is the scope of its dims.

    `writes` and `reads` name contexts; where the spec names none, they hold the first context and
    `on` may choose another (`is_movable`).
    """

    node: str
    name: str
    params: tuple[ParamInfo, ...]
    results: tuple[ResultInfo, ...]
    mask: MaskKind | None
    mask_size: Dim | None
    writes: tuple[str, ...]
    reads: tuple[str, ...]
    is_movable: bool
    advance: ast.Expr | None
    receptive: int | None
    sampler: str | None
    stateful: bool
    cost: tuple[tuple[str, float], ...]
    scope: int
    decl: ast.OpDecl

    @property
    def title(self) -> str:
        """The op as people write it: `node.op`."""
        return f"{self.node}.{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextInfo:
    """A context of a node. `count` for an array, `cross` the length of a cross-attention cache."""

    name: str
    count: ast.Expr | None
    cross: int | None
    aliases: tuple[str, ...]
    decl: ast.ContextDecl | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsInfo:
    """Where weights come from."""

    source: str
    under: str
    size_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    """A node. `samplers` has the unnamed one as `default`."""

    name: str
    engine: Engine
    impl: str
    weights: WeightsInfo | None
    shards: tuple[str, ...]
    kv: tuple[ast.Setting, ...]
    contexts: tuple[ContextInfo, ...]
    samplers: tuple[tuple[str, tuple[ast.Setting, ...]], ...]
    aliases: tuple[str, ...]
    ops: Mapping[str, OpInfo]
    decl: ast.NodeDecl


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyInfo:
    """A chunk policy with its numbers; fields of other kinds are 0, () or None."""

    kind: PolicyKind
    size: int
    stride: int = 0
    context: int = 0
    ramp: tuple[int, ...] = ()
    stop: ast.Expr | None = None
    mark: str | None = None
    decl: ast.Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInfo:
    """A stream and who stands at its ends: machines, found through the walks that they run."""

    name: str
    item: Type
    policy: PolicyInfo
    tail: TailKind | None
    pad: ConfigValue | None
    empty: EmptyKind | None
    marks: tuple[str, ...]
    producer: str
    consumer: str
    decl: ast.StreamDecl


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkInfo:
    """A walk. `scope` is the scope of its dims."""

    name: str
    params: tuple[ParamInfo, ...]
    results: tuple[ResultInfo, ...]
    aliases: tuple[str, ...]
    scope: int
    decl: ast.WalkDecl

    @property
    def title(self) -> str:
        """The walk as messages name it."""
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionInfo:
    """An option: its default and what it may be, ends included."""

    name: str
    type: Type
    default: ConfigValue | None
    domain: tuple[Literal["range", "set"], tuple[ConfigValue, ...]] | None
    decl: ast.OptField


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """A checked spec: what `lowering` needs beside the tree.

    `variant` is the one whose values stand in `config`, if one was asked for.
    `links` is what machines do with streams and outputs.
    `types` holds the type of every expression, and of every name that is set where it is set.
    `arguments` gives a call's arguments in the order of the parameters, defaults filled in.
    `contexts` gives the context of each op call on a kv_cache node, and of each fork's ends; one of
    an array as `dream[2]`. `over` says of a call on a whole array which arguments have an entry a
    context.
    `registers` are the values of each machine with their types, in order of first setting; `unsure`
    are values that are read where they may be none.
    """

    resolved: Resolved
    variant: ast.VariantDecl | None
    links: Links
    config: Mapping[str, ConfigValue]
    fields: Mapping[str, Type]
    options: Mapping[str, OptionInfo]
    nodes: Mapping[str, NodeInfo]
    streams: Mapping[str, StreamInfo]
    walks: Mapping[str, WalkInfo]
    types: Mapping[ast.Node, Type]
    arguments: Mapping[Call, tuple[ast.Expr, ...]]
    contexts: Mapping[ast.Node, str]
    over: Mapping[ast.OpCall, tuple[bool, ...]]
    policies: Mapping[ast.Each, PolicyInfo]
    registers: Mapping[str, Mapping[Symbol, Type]]
    unsure: frozenset[Symbol]

    @property
    def left_out(self) -> frozenset[str]:
        """The outputs that the variant cannot make."""
        names = self.variant.without if self.variant is not None else ()
        return frozenset(name.text for name in names)
