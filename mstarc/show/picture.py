"""The facts that every picture of a model shows: nested blocks, and what connects them.

A machine is a block of its states, a state a block of its statements; a statement that holds others
(a walk that is run, a loop, a choice) is a block of those. `key` is the statement's place in the
spec, so that a walk that two states run has the same keys in both. `blocks` makes them.
"""

from typing import Literal, TypeAlias

from mstarc.ir.graph import Engine
from mstarc.records import dataclass

BlockKind: TypeAlias = Literal[
    "machine",
    "state",
    "walk",
    "run",
    "loop",
    "parallel",
    "branch",
    "when",
    "each",
    "for",
    "match",
    "call",
    "set",
    "send",
    "pull",
    "emit",
    "mark",
    "context",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One thing in a picture. `name` is what it is about: a node, a walk, a stream, an output.

    `note` says when it happens or what it keeps; `ranks` and `region` are of calls in a placed
    program; `next` are the states that may follow a state, each with its condition.
    """

    kind: BlockKind
    key: str
    title: str
    name: str = ""
    note: str = ""
    engine: Engine | None = None
    ranks: tuple[int, ...] = ()
    region: str = ""
    next: tuple[tuple[str, str], ...] = ()
    blocks: tuple["Block", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A stream in words: what an item is, how it is cut, what becomes of the rest."""

    name: str
    producer: str
    consumer: str
    item: str
    policy: str
    rest: str
    capacity: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """An input, output or option of the request, in words."""

    kind: Literal["in", "out", "opt"]
    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """A node in words; `where` are its ranks, by walk and context, and how they share it."""

    name: str
    engine: Engine
    impl: str
    weights: str
    ops: tuple[str, ...]
    ranks: tuple[int, ...]
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """A rank of a placement: its device, what it takes, and how much there is, in bytes.

    `copies` are the devices of its replicas.
    """

    number: int
    device: str
    used_bytes: int
    memory_bytes: int
    copies: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    """A machine goes from rank to rank, with values and with the rows of KV contexts."""

    machine: str
    source: int
    target: int
    place: str
    values: tuple[str, ...]
    contexts: tuple[str, ...]
    row_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A model, or a part of one, as it is shown. `ranks` are empty before it is placed."""

    model: str
    fields: tuple[Field, ...]
    nodes: tuple[NodeFacts, ...]
    channels: tuple[Channel, ...]
    blocks: tuple[Block, ...]
    placement: str = ""
    ranks: tuple[Rank, ...] = ()
    journeys: tuple[Journey, ...] = ()
