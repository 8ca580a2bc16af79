"""What a rank runs, and the requests that hold its slots."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mstarc_runtime.engine.travel import Luggage
from mstarc_runtime.plan_api import Rank, Step
from mstarc_runtime.visits import Visits


@dataclass(slots=True, kw_only=True, eq=False)
class LiveRequest:
    """A request that holds a slot on this rank.

    `sent`, `marks` and `left` are what its machines that came from other ranks have brought along:
    items and marks sent to streams, passes left of loops. A machine that moves on takes them with
    it, and so it does the contexts in `passing`, of nodes that are not here. `where` gives the
    process of each rank.
    """

    slot: int
    request: int
    where: Mapping[int, int]
    bounds: Mapping[str, int]
    options: Mapping[str, Any]
    inputs: Mapping[str, Any]
    sent: dict[str, int] = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    passing: list[tuple[str, Luggage]] = field(default_factory=list)
    # Where it was when, if it is traced.
    visits: Visits | None = None
    jobs: int = 0
    is_ending: bool = False
    is_released: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlan:
    """What a rank runs: its module's class and steps, and the plan's facts about streams."""

    rank: int
    process: int
    rank_class: type[Rank]
    steps: Sequence[Step]
    slots: int
    spec: str
    is_alone: bool
    producers: Mapping[str, Sequence[int]] = field(default_factory=dict)
    # The process of each rank of the same copy, itself included: those of its groups.
    peers: Mapping[int, int] = field(default_factory=dict)
