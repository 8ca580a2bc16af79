"""The numbers of a placement, and a layout: the answer.

A *piece* goes to one group of ranks whole; a node that may be split has several pieces, which share
its weights where they share a rank. Ranks that a group ties together are a *set*: it can be copied
as a whole to other devices, whatever the other sets do.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from mstarc.records import dataclass

Objective = Literal["latency", "throughput", "cost"]
DEFAULT_OBJECTIVE: Objective = "latency"
OBJECTIVES: tuple[Objective, ...] = ("latency", "throughput", "cost")


@dataclass(frozen=True, slots=True)
class Option:
    """One way to hold a piece: cut into tp x sp shards, each on a device of a kind.

    `kind` is the index in `Problem.supply`.
    """

    kind: int
    tp: int = 1
    sp: int = 1

    @property
    def ranks(self) -> int:
        return self.tp * self.sp

    @property
    def order(self) -> tuple[int, int, int]:
        """Few ranks first."""
        return self.ranks, self.sp, self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """Devices of one kind. `capacity_bytes` is what a rank may use of its memory."""

    name: str
    count: int
    capacity_bytes: int
    price: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What goes to one group of ranks.

    `busy_s`: seconds that a request keeps each rank of the group busy when many run at once;
    `alone_s`: seconds of a request that runs alone. Both have the same options. `machine` runs the
    piece. Of `alone_s`, `aside_s` is in a `branch`: pieces of one branch group run side by side
    where they are on different ranks. `holds` names what the piece keeps in memory: what pieces of
    the same node have in common is there once.
    """

    name: str
    node: str
    machine: str
    busy_s: Mapping[Option, float]
    alone_s: Mapping[Option, float]
    aside_s: Mapping[Option, float] = field(default_factory=dict)
    branch: str | None = None
    holds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """What a request loses where two pieces have different leaders.

    `lost_s` lengthens the machine of `a` if it is that of `b`; `busy_s` keeps both leaders busy.
    """

    a: str
    b: str
    lost_s: float
    busy_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """`bytes_of`: what a thing that pieces hold takes on each rank of a group, by option.

    Pieces of each tuple in `together` go to one group. `most_ranks` bounds the ranks before copies;
    with `copies_alike` there are none: what a layout needs is copied as a whole by whoever asks.
    """

    pieces: tuple[Piece, ...]
    edges: tuple[Edge, ...]
    bytes_of: Mapping[tuple[str, Option], int]
    supply: tuple[Supply, ...]
    together: tuple[tuple[str, ...], ...] = ()
    most_ranks: int = 8
    copies_alike: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """Where a piece is: its ranks, the leader first and lowest."""

    option: Option
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """`homes` in the order of names; `sets` of ranks that are copied as one, `copies[i]` times.

    `period_s`: seconds between two requests when all devices work; `latency_s`: of a request alone;
    `price`: of all devices that are used. `load_s` and `bytes_used` are those of each rank.
    """

    homes: Mapping[str, Home]
    sets: tuple[tuple[int, ...], ...]
    copies: tuple[int, ...]
    kinds: tuple[int, ...]
    load_s: tuple[float, ...]
    bytes_used: tuple[int, ...]
    period_s: float
    latency_s: float
    price: float
    key: tuple[float, ...]
