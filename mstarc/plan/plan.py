"""The plan: flat, immutable, and all that code generation and the reports need.

A `Plan` holds what is the same for every placement (`program`, `admission`, `weights`) and one
`PlacedPlan` a placement: for each rank what it holds and its numbered steps. Steps name one another
by number, values by the name of the register that holds them between steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mstarc.ir.decisions import PagePool, Placement
from mstarc.ir.exprs import Expr
from mstarc.ir.graph import Node, Policy, Program, Stream, Tail
from mstarc.ir.types import TensorType, Type
from mstarc.plan.actions import Action, ClearContext, ForkContext
from mstarc.plan.draft import CutPlan
from mstarc.plan.prompt import Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWeights:
    """Where a node's weights come from, with the entries of its config that are set here.

    `size_bytes` and `kept_bytes` are what a file of sizes says of them: a plan that is placed again
    counts with it.
    """

    node: str
    source: str
    under: str = ""
    seed: int = 0
    config: Mapping[str, Any] = field(default_factory=dict)
    size_bytes: int | None = None
    kept_bytes: int | None = None


# What a rank holds


Storage = Literal["local", "register", "values", "collector"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A value of a machine. `name` is unique in the plan; `local` is its name inside a step.

    `storage` is where it is kept between steps; a `local` lives within one. `capacity` is a
    collector's, in rows a request; None where nothing bounds them.
    """

    name: str
    local: str
    type: Type
    storage: Storage
    capacity: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A config list on the device."""

    name: str
    dtype: str
    value: tuple[int | float, ...]
    config: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayPlan:
    """An array of contexts: `count` of a request, a number or a name, and the `most` of any."""

    context: str
    count: Expr
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """A node on a rank, with its pages there if it has a KV cache.

    `group` are the `tp` x `sp` ranks that hold its shards, the leader first; empty: the rank alone.
    """

    node: Node
    weights: NodeWeights
    pool: PagePool | None
    arrays: tuple[ArrayPlan, ...] = ()
    group: tuple[int, ...] = ()
    tp: int = 1
    sp: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RingPlan:
    """A stream's buffer, or one of several, on the rank that reads it."""

    name: str
    item: TensorType
    policy: Policy
    tail: Tail | None
    empty: Literal["skip", "error"] | None
    capacity: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxPlan:
    """The way to a ring that rank `rank` holds."""

    name: str
    item: TensorType
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopPlan:
    """A loop whose passes are steps of this rank, or whose pass number steps of it need.

    `index` is what the spec calls the number of a pass, or the part that a pass is at; `over` is
    the input then. `numbered`: steps of the rank ask for the number.
    """

    name: str
    tested: bool
    numbered: bool = False
    index: str | None = None
    over: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan:
    """Entries of a request that admission has computed, on the device: at most `capacity`."""

    name: str
    dtype: str
    capacity: int


# Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopTarget:
    """Into a loop (`enter`), or back for the next pass (`again`)."""

    kind: Literal["enter", "again"]
    loop: str
    first: int
    otherwise: int


Target = int | LoopTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class Grow:
    """Room in a node's context for a call: `rows` a request, or as many as `of` has there.

    `of` names a variable that is kept between steps, or a stream whose chunk is meant; `axis` is
    where its rows are. Rows that are not `kept` are attended by their own call alone. `advance` is
    by how much positions move instead: a number, a variable that the host knows, or what admission
    has computed, as `count` is, which rows there are. `index` picks one context of an array;
    without one all have the room.
    """

    node: str
    context: str
    rows: int
    of: str | None = None
    axis: int = 0
    count: str | Expr | None = None
    kept: bool = True
    advance: int | str | Expr | None = None
    index: Expr | None = None


Prepared = Grow | ForkContext | ClearContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The heading over a step's body: words for people, and the spec's line."""

    text: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStep:
    """A step that runs actions.

    `loads` are variables that the step takes from where they are kept, `stores` those that it puts
    there, `packed` those whose rows lie one behind the other. `rows`, `region`, `buckets` and
    `prepares` (what is done before it is launched) are a device step's. `sure`: there is an item to
    pull, or the request fails. `last` is where it goes instead with the last chunk, where it is
    known to be that: chunks are held back by one then. `passes` are loops whose pass number it
    needs. The host looks once in `stretch` passes; 0: at each before the next. `why` is why no
    region holds it; empty where one does. `prompt` is what it reads of a request's own length.
    """

    id: int
    name: str
    kind: Literal["device", "host"]
    machine: str
    role: str
    section: Section
    line: int
    nodes: tuple[str, ...]
    actions: tuple[Action, ...]
    loads: tuple[str, ...]
    stores: tuple[str, ...]
    packed: tuple[str, ...]
    rows: Literal["one", "fixed", "packed", "shaped"] | None
    region: str | None
    buckets: tuple[int, ...]
    stretch: int = 0
    prepares: tuple[Prepared, ...]
    reads: tuple[str, ...]
    cut: CutPlan | None
    pulls: tuple[str, ...]
    sure: bool
    drained: int | None
    last: int | None
    sends: tuple[tuple[str, int], ...]
    emits: tuple[str, ...]
    passes: tuple[str, ...]
    then: Target
    why: str
    prompt: Prompt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchPlan:
    """A choice by what admission has computed: an option, or a table's entry for the pass."""

    id: int
    name: str
    section: Section
    line: int
    test: Expr
    text: str
    yes: Target
    no: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkPlan:
    """A mark behind what the machine has sent so far to a stream, in all its lanes."""

    id: int
    name: str
    streams: tuple[str, ...]
    mark: str
    text: str
    line: int
    then: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HopPlan:
    """The machine goes on at step `step` of rank `rank`; `values` travel, `bytes` if known.

    So do those of the `contexts`, as (node, context), that are here: a row takes `row_bytes`.
    """

    id: int
    name: str
    rank: int
    step: int
    values: tuple[str, ...]
    bytes: int | None
    contexts: tuple[tuple[str, str], ...] = ()
    row_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadPlan:
    """The machine goes on at all `branches` at once."""

    id: int
    name: str
    branches: tuple[int, ...]
    text: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPlan:
    """The machine goes on when `arrivals` branches are here."""

    id: int
    name: str
    arrivals: int
    text: str
    line: int
    then: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DonePlan:
    """The machine is done."""

    id: int
    name: str
    machine: str
    closes: tuple[str, ...]


Step = RunStep | BranchPlan | MarkPlan | SpreadPlan | JoinPlan | HopPlan | DonePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlan:
    """All that one process holds and does. `variables` outlive steps here, or travel through.

    A rank without steps only serves the calls of those that lead its groups.
    """

    rank: int
    nodes: tuple[NodePlan, ...]
    machines: tuple[str, ...]
    rings: tuple[RingPlan, ...]
    outboxes: tuple[OutboxPlan, ...]
    variables: tuple[Variable, ...]
    constants: tuple[Constant, ...]
    tables: tuple[TablePlan, ...]
    loops: tuple[LoopPlan, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineStart:
    """Where a machine begins."""

    machine: str
    rank: int
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPlan:
    """A stream between ranks; `lanes` are the rings of its values."""

    stream: Stream
    lanes: tuple[str, ...]
    producer_ranks: tuple[int, ...]
    consumer_rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPlan:
    """One placement. `variables` has every variable of its steps."""

    program: Program
    placement: Placement
    ranks: tuple[RankPlan, ...]
    machines: tuple[MachineStart, ...]
    streams: tuple[StreamPlan, ...]
    variables: tuple[Variable, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PerPass:
    """One entry a pass: `value` over `indices`, for every pass that their bounds allow.

    `indices` are (index, bound) pairs, the slowest first: of several loops there is an entry for
    each pass of the innermost. Where a bound is an input of several parts, its index is the part
    that the pass is at.
    """

    value: Expr
    indices: tuple[tuple[str, Expr], ...]


Derived = Expr | PerPass


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What is computed once a request: bounds of loops, and conditions that steps use.

    A bound that is an input means as many passes as it has parts.
    """

    bounds: tuple[tuple[str, Expr], ...]
    derived: tuple[tuple[str, Derived], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A whole plan. `lines` gives the spec's line of an offset, by the offsets of lines."""

    abi: int
    version: str
    spec: str
    program: Program
    admission: Admission
    weights: tuple[NodeWeights, ...]
    placements: tuple[PlacedPlan, ...]
