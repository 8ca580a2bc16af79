"""Steps of a plan as data: what runs, what it reads and sends, and where a row goes next.

Part of `plan_api`, by whose name plans import it. Standard library only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


def machine_of(name: str) -> str:
    """The machine of a step or a loop of this name.

    >>> machine_of("speak.decode.pass")
    'speak'
    """
    return name.partition(".")[0]


# Where a row goes next


@dataclass(frozen=True, slots=True)
class Enter:
    """Behind the step, test the loop for its first pass: `first` if it runs, else `otherwise`."""

    loop: str
    first: int
    otherwise: int


@dataclass(frozen=True, slots=True)
class Again:
    """The step is a pass of the loop: back to `first` for the next one, else `otherwise`."""

    loop: str
    first: int
    otherwise: int


Target = int | Enter | Again


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A loop whose passes are steps. `bound` names an entry of `Admission.bounds`.

    `tested` says that the step before a pass sets the batch's `more` flag on the device;
    otherwise only the bound ends it.
    """

    name: str
    bound: str
    tested: bool


# Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """How a step's reads are cut, where not as their streams say.

    `until` is a mark: once all before it was read, the row goes to `drained`. A mark ends the chunk
    before it in any case.
    """

    policy: "Policy"
    until: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """How a step's prompt is read in pieces.

    `of` names the values whose rows are cut; `run` reads a piece that is not the last: it calls
    `op` of `node`, whose rows stay in `context`, and does nothing else.
    `shared`: rows are functions of the values' rows so far alone, which are whole numbers of host
    code, so requests that begin with the same ones may have the same pages.
    """

    run: Callable[..., None]
    of: tuple[str, ...]
    node: str
    context: str
    op: str
    shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceStep:
    """A batch of rows runs `run` on this rank's device.

    `rows`: `one` row a request in every kv_cache call (static shapes for a bucket), or `fixed`
    (as many rows a request in every run, which `prepare` says), or `packed`
    (a free dim: the rows of several requests one behind the other), or `shaped` (stateless,
    requests of equal shapes together). `region` is the capture region that holds the step.
    `reads` names streams of which each pass takes one chunk (several: in step); once they are
    closed and empty the row goes to `drained`. A step with `last` waits until it is known whether
    the chunk is the last, and leaves that one to the step of this number. `pulls` names streams of
    which it takes one item, or none once closed; where it is `sure`, a stream that closes before
    fails the request. `sends` gives (stream, most items a row and step). `passes` names loops whose
    pass number the step asks for. With `pieces` a long prompt is read by several runs.

    `stretch`: a step that comes back to itself may run so often before the host looks once, and as
    often again before it has looked; 0: it looks at each pass before the next.

    A step without nodes only tests, sends, emits and copies. `buckets` () is any batch; a step
    with a result whose size only the run, or an option, knows has the one bucket 1.
    """

    id: int
    name: str
    run: Callable[..., None]
    prepare: Callable[..., None] | None = None
    nodes: tuple[str, ...]
    rows: Literal["one", "fixed", "packed", "shaped"]
    region: str | None = None
    buckets: tuple[int, ...] = ()
    stretch: int = 0
    reads: tuple[str, ...] = ()
    cut: Cut | None = None
    pulls: tuple[str, ...] = ()
    sure: bool = False
    drained: int | None = None
    last: int | None = None
    sends: tuple[tuple[str, int], ...] = ()
    passes: tuple[str, ...] = ()
    emits: tuple[str, ...] = ()
    pieces: Pieces | None = None
    then: Target
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStep:
    """One request at a time runs `run` in the host pool."""

    id: int
    name: str
    run: Callable[..., None]
    node: str
    reads: tuple[str, ...] = ()
    cut: Cut | None = None
    drained: int | None = None
    last: int | None = None
    sends: tuple[tuple[str, int], ...] = ()
    emits: tuple[str, ...] = ()
    then: Target
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchStep:
    """A static choice for each row: `test(rank, slot)` on the host."""

    id: int
    name: str
    test: Callable[..., bool]
    yes: Target
    no: Target
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkStep:
    """A mark in streams, behind all that the machine has sent to them so far."""

    id: int
    name: str
    streams: tuple[str, ...]
    mark: str
    then: int
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HopStep:
    """The machine goes on at `step` of rank `rank`; `values` are the registers that travel.

    `contexts` are (node, context) pairs whose rows move there too, as far as they are here: a
    context is on one rank at a time. (node, "sampler:NAME") is what a sampler has drawn and seen.
    """

    id: int
    rank: int
    step: int
    values: tuple[str, ...]
    contexts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadStep:
    """The machine goes on at several steps of this rank at once, one a branch."""

    id: int
    name: str
    branches: tuple[int, ...]
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinStep:
    """Here the branches of a spread meet: the machine goes on when `arrivals` have come."""

    id: int
    name: str
    arrivals: int
    then: Target
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneStep:
    """The machine is done; the streams that it sends to close."""

    id: int
    machine: str
    closes: tuple[str, ...] = ()


Step = DeviceStep | HostStep | BranchStep | MarkStep | HopStep | SpreadStep | JoinStep | DoneStep


# Streams


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How a stream is cut; the meaning of each kind is in the language reference.

    fixed: `size`; sliding: `size` = window, `stride`; left_context: `size` = chunk, `context`,
    `ramp`; until: `size` = max, items carry an end flag.
    `tail`: drop, short or pad (with `pad`). `empty`: skip or error.
    """

    kind: Literal["fixed", "sliding", "left_context", "until"]
    size: int
    stride: int = 0
    context: int = 0
    ramp: tuple[int, ...] = ()
    tail: Literal["drop", "short", "pad"] | None = None
    pad: int | float | str | None = None
    empty: Literal["skip", "error"] | None = None
