"""Nodes: their settings, weights and contexts, and their ops with what each says of itself."""

from typing import TypeAlias

from mstarc.records import dataclass
from mstarc.syntax.ast.base import Name, Node
from mstarc.syntax.ast.exprs import Expr, Float, Int, Str
from mstarc.syntax.ast.types import Param, Result


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Setting(Node):
    """`name = value` inside `kv { … }`, `sample { … }` or `cost { … }`; with `.. last`, a range."""

    name: Name
    value: Expr
    last: Expr | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImplItem(Node):
    """`impl "module:Class"`."""

    path: Str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ByteSize(Node):
    """`61 GB`."""

    amount: Int | Float
    unit: Name


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightsItem(Node):
    """`weights "source" under "prefix." size 61 GB`."""

    source: Str
    under: Str | None
    size: ByteSize | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShardsItem(Node):
    """`shards tensor, expert`."""

    kinds: tuple[Name, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KvItem(Node):
    """`kv { layers = layers, … }`."""

    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleItem(Node):
    """`sample { … }`, or `sample name { … }` for a sampler of its own."""

    name: Name | None
    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContextDecl(Node):
    """`main`, `dream[count]`, `sound cross(length)`, each with `as "alias"`."""

    name: Name
    count: Expr | None
    cross: Expr | None
    aliases: tuple[Str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContextsItem(Node):
    """`contexts main, sound cross(1500)`."""

    contexts: tuple[ContextDecl, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attends(Node):
    """`attends causal`, `attends frames(258)`."""

    mask: Name
    argument: Expr | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Writes(Node):
    """`writes`, or `writes main, other`."""

    contexts: tuple[Name, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reads(Node):
    """`reads`, or `reads sound`."""

    contexts: tuple[Name, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Advance(Node):
    """`advance amount`: how far positions move."""

    amount: Expr


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Receptive(Node):
    """`receptive 72`: how many items back an output depends on."""

    items: Int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UseSampler(Node):
    """`sampler words`: which of the node's samplers the op uses."""

    name: Name


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stateful(Node):
    """`stateful`: one state object a request."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cost(Node):
    """`cost { flops = 14000000000 }`."""

    settings: tuple[Setting, ...]


Effect: TypeAlias = Attends | Writes | Reads | Advance | Receptive | UseSampler | Stateful | Cost


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpDecl(Node):
    """`op name(params) -> (results) effects`."""

    name: Name
    params: tuple[Param, ...]
    results: tuple[Result, ...]
    effects: tuple[Effect, ...]
    doc: str | None


NodeItem: TypeAlias = (
    ImplItem | WeightsItem | ShardsItem | KvItem | SampleItem | ContextsItem | OpDecl
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeDecl(Node):
    """`node name : engine as "alias" { … }`."""

    name: Name
    engine: Name
    aliases: tuple[Str, ...]
    items: tuple[NodeItem, ...]
    doc: str | None

    @property
    def ops(self) -> tuple[OpDecl, ...]:
        """The ops, in source order."""
        return tuple(item for item in self.items if isinstance(item, OpDecl))
