"""Declarations: a whole spec and what stands at its top; `nodes` has those of nodes."""

from typing import TypeAlias, TypeVar

from mstarc.records import dataclass
from mstarc.syntax.ast.base import Name, Node
from mstarc.syntax.ast.exprs import Expr, Int, OpRef, Str
from mstarc.syntax.ast.nodes import NodeDecl, Setting
from mstarc.syntax.ast.stmts import Block, Let, Policy
from mstarc.syntax.ast.types import Param, Result, Type


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelDecl(Node):
    """`model name from "org/checkpoint"`. A spec without the line gets one of zero width."""

    name: Name
    source: Str | None
    doc: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConfigItem(Node):
    """`name : type = default from "key" as "public name"`."""

    name: Name
    type: Type
    default: Expr | None
    source: Str | None
    aliases: tuple[Str, ...]
    doc: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConfigDecl(Node):
    """`config { … }`."""

    items: tuple[ConfigItem, ...]
    doc: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Quantity(Node):
    """`at least 1 turns`: how many parts, and whether they carry roles."""

    at_least: Int | None
    turns: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InField(Node):
    """`in name : type at least 1 turns optional`."""

    name: Name
    type: Type
    quantity: Quantity | None
    optional: bool
    doc: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OutField(Node):
    """`out name : type optional via node.op`."""

    name: Name
    type: Type
    optional: bool
    via: OpRef | None
    doc: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RangeDomain(Node):
    """`in low .. high`, both ends allowed."""

    low: Expr
    high: Expr


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChoiceDomain(Node):
    """`in ["a", "b"]`."""

    choices: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OptField(Node):
    """`opt name : type = default in domain`."""

    name: Name
    type: Type
    default: Expr | None
    domain: RangeDomain | ChoiceDomain | None
    doc: str | None


RequestField: TypeAlias = InField | OutField | OptField


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RequestDecl(Node):
    """`request { … }`."""

    fields: tuple[RequestField, ...]
    doc: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NeedDecl(Node):
    """`need condition`: what every request must satisfy."""

    condition: Expr
    doc: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableDecl(Node):
    """`table name[index in length] = value`, computed at admission for each index."""

    name: Name
    index: Name
    length: Expr
    value: Expr
    doc: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VariantDecl(Node):
    """`variant "public name" from "org/checkpoint" without output { name = value }`.

    Another public name of the model: with other weights and sizes, and perhaps without outputs.
    """

    name: Str
    source: Str | None
    without: tuple[Name, ...]
    settings: tuple[Setting, ...]
    doc: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FoldedDecl(Node):
    """`folded "alias" into node`: a public name that has no node of its own."""

    alias: Str
    node: Name
    doc: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tail(Node):
    """`tail drop`, `tail short`, `tail pad(value)`."""

    kind: Name
    value: Expr | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Empty(Node):
    """`empty skip`, `empty error`."""

    kind: Name


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamDecl(Node):
    """`stream name : item marks a, b chunk policy tail kind empty kind`."""

    name: Name
    item: Type
    marks: tuple[Name, ...]
    policy: Policy
    tail: Tail | None
    empty: Empty | None
    doc: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WalkDecl(Node):
    """`walk name as "alias" (params) -> (results) { … }`."""

    name: Name
    aliases: tuple[Str, ...]
    params: tuple[Param, ...]
    results: tuple[Result, ...]
    body: Block
    doc: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateDecl(Node):
    """`state name { … }`."""

    name: Name
    body: Block
    doc: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MachineDecl(Node):
    """`machine name when condition { … }`. The first state is where it starts."""

    name: Name
    condition: Expr | None
    states: tuple[StateDecl, ...]
    doc: str | None


Decl: TypeAlias = (
    ConfigDecl
    | RequestDecl
    | VariantDecl
    | NeedDecl
    | Let
    | TableDecl
    | FoldedDecl
    | NodeDecl
    | StreamDecl
    | WalkDecl
    | MachineDecl
)

D = TypeVar("D", bound=Node)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spec(Node):
    """A whole file. `declarations` are in source order, without those that could not be read."""

    version: int
    model: ModelDecl
    declarations: tuple[Decl, ...]

    def all_of(self, kind: type[D]) -> tuple[D, ...]:
        """The declarations of one kind, in source order: `spec.all_of(NodeDecl)`."""
        return tuple(decl for decl in self.declarations if isinstance(decl, kind))

    @property
    def config_items(self) -> tuple[ConfigItem, ...]:
        """The items of all `config` blocks."""
        return tuple(item for block in self.all_of(ConfigDecl) for item in block.items)

    @property
    def request_fields(self) -> tuple[RequestField, ...]:
        """The fields of all `request` blocks."""
        return tuple(item for block in self.all_of(RequestDecl) for item in block.fields)
