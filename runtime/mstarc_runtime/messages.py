"""What processes of one run say to each other: tagged, versioned messages.

Conductor → rank: Start, Left, Release, Succeeded, Tell, Stop. Rank → conductor: Ready, Progress,
Broken, StepOutput, HostOutput, MachineDone, Failed, Released, Told. Rank → rank: Items, Closed,
ReadTo, Moved. Between the ranks of a node's group: NodeActions, Settle, Settled.

A message is a small struct; tensors travel beside it as frames of raw bytes, described by a `Shape`
(`frames`). `request` is a serial number that never comes twice, so that what arrives late for a
slot's former request is told from what arrives early for its next one.
"""

from typing import Any

import msgspec

from mstarc_runtime.frames import Frame, Shape
from mstarc_runtime.visits import Visit

PROTOCOL = 2


class Start(msgspec.Struct, tag="start", array_like=True, frozen=True):
    """A request takes a slot. `machines`: (name, first step) of those that begin on this rank.

    `where` gives the process of each rank for this request. `idle` are machines that do not run:
    they send nothing, and take nothing. `is_traced`: when it was at which step is told at its end.
    `wants` are the outputs that somebody hears; all of them, if it is None.
    """

    slot: int
    request: int
    where: dict[int, int]
    machines: tuple[tuple[str, int], ...]
    bounds: dict[str, int]
    options: dict[str, Any]
    inputs: dict[str, Shape]
    seed: int
    idle: tuple[str, ...] = ()
    is_traced: bool = False
    wants: tuple[str, ...] | None = None


class Left(msgspec.Struct, tag="left", array_like=True, frozen=True):
    """A machine of a request is done: nobody reads its streams any more."""

    slot: int
    request: int
    machine: str


class Release(msgspec.Struct, tag="release", array_like=True, frozen=True):
    """A request is over, whichever way: give back what it holds, and say so."""

    slot: int
    request: int


class Succeeded(msgspec.Struct, tag="succeeded", array_like=True, frozen=True):
    """A process is gone: what it had of requests is lost. From here on its number is `successor`'s.

    `successor` counts those that have had the number before; it may not have been started yet.
    """

    process: int
    successor: int


class Stop(msgspec.Struct, tag="stop", array_like=True, frozen=True):
    """The process ends."""


class Tell(msgspec.Struct, tag="tell", array_like=True, frozen=True):
    """Say what you have run since you began, and hand over the trace if one is kept.

    For `watch_s` seconds it is told again before steps that may be long.
    """

    with_trace: bool
    watch_s: float = 0.0


class Tally(msgspec.Struct, array_like=True):
    """How often a step ran at one padded size. `reason` says why not as a graph; "" is a graph.

    `requests` counts the rows that were somebody's; `is_pass` says that they are passes of a loop
    in which a context grows: tokens, for a decoder.
    """

    step: str
    region: str
    nodes: tuple[str, ...]
    bucket: int
    reason: str
    is_pass: bool
    runs: int = 0
    requests: int = 0


class Told(msgspec.Struct, tag="told", array_like=True, frozen=True):
    """What a process has run. `start_s` are parts of its start; a frame has its trace, as JSON.

    `held` is what requests hold there, as JSON; `now` what its steps cost, and where requests are.
    """

    process: int
    tallies: tuple[Tally, ...]
    start_s: dict[str, float]
    held: str
    now: str = ""


class Ready(msgspec.Struct, tag="ready", array_like=True, frozen=True):
    """A process has loaded its weights and waits for requests."""

    process: int
    protocol: int


class Progress(msgspec.Struct, tag="progress", array_like=True, frozen=True):
    """A line about start-up, for people."""

    rank: int
    text: str


class Broken(msgspec.Struct, tag="broken", array_like=True, frozen=True):
    """A process can't go on. `code` is empty for a mistake of ours."""

    process: int
    code: str
    message: str
    notes: tuple[str, ...]
    helps: tuple[str, ...]


class OutputPart(msgspec.Struct, array_like=True, frozen=True):
    """One emitted value of a step: a frame of rows, `counts[i]` of them (or one) a request.

    `read`: of a step in front of a loop, the rows that each request's context holds by then.
    """

    output: str
    dtype: str
    dims: tuple[int, ...]
    slots: tuple[int, ...]
    counts: tuple[int, ...] | None
    read: tuple[int, ...] | None = None


class StepOutput(msgspec.Struct, tag="out", array_like=True, frozen=True):
    """Everything that one step of a rank has emitted; a frame a part."""

    rank: int
    parts: tuple[OutputPart, ...]


class HostOutput(msgspec.Struct, tag="host-out", array_like=True, frozen=True):
    """A host value that a request has emitted."""

    rank: int
    slot: int
    output: str
    shape: Shape


class MachineDone(msgspec.Struct, tag="done", array_like=True, frozen=True):
    rank: int
    slot: int
    request: int
    machine: str


class Failed(msgspec.Struct, tag="failed", array_like=True, frozen=True):
    """A request can't go on. `code` and the texts are a runtime failure's."""

    rank: int
    slot: int
    request: int
    code: str
    message: str
    notes: tuple[str, ...]
    helps: tuple[str, ...]


class Released(msgspec.Struct, tag="released", array_like=True, frozen=True):
    process: int
    slot: int
    request: int
    visits: tuple[Visit, ...] = ()


class Items(msgspec.Struct, tag="items", array_like=True, frozen=True):
    """Items of a stream from several slots; the frame holds them one slot behind the other.

    Slot i sends `counts[i]` items, the first having the number `firsts[i]`; `ends[i]` are those of
    them that end a chunk, `marks[i]` counts the marks before the first one. Without a `dtype` there
    is no frame: the sender's device has written them into the reader's memory.
    """

    stream: str
    slots: tuple[int, ...]
    requests: tuple[int, ...]
    firsts: tuple[int, ...]
    counts: tuple[int, ...]
    ends: tuple[tuple[int, ...], ...]
    marks: tuple[int, ...]
    dtype: str
    dims: tuple[int, ...]


class LentRing(msgspec.Struct, tag="lent", array_like=True, frozen=True):
    """A stream's ring may be written by the receiver's device: `lent` says where it is, on CUDA
    device `device`. Without `lent`, `why` it may not."""

    stream: str
    lent: bytes
    device: int
    why: str


class Marked(msgspec.Struct, tag="marked", array_like=True, frozen=True):
    """A mark of a stream, behind `count` items; `number` counts the marks before it."""

    stream: str
    slot: int
    request: int
    count: int
    number: int
    mark: str


class Closed(msgspec.Struct, tag="closed", array_like=True, frozen=True):
    """A stream's producer is done, after `count` items."""

    stream: str
    slot: int
    request: int
    count: int


class ReadTo(msgspec.Struct, tag="read-to", array_like=True, frozen=True):
    """A stream's reader has no more use for the first `count` items."""

    stream: str
    slot: int
    request: int
    count: int


class Travelling(msgspec.Struct, array_like=True, frozen=True):
    """A context, or a sampler, that moves with a machine; its frame holds what `shape` says."""

    node: str
    context: str
    shape: Shape
    position: int


class Moved(msgspec.Struct, tag="moved", array_like=True, frozen=True):
    """A machine goes on at `step` of the receiver; a frame for each value that has one.

    Behind them come the frames of `contexts`. `sent` and `marks` count what the machine has sent to
    each stream, `left` the passes of its loops.
    """

    slot: int
    request: int
    step: int
    values: tuple[tuple[str, Shape], ...]
    contexts: tuple[Travelling, ...]
    sent: dict[str, int]
    marks: dict[str, int]
    left: dict[str, int]


class BatchRows(msgspec.Struct, array_like=True, frozen=True):
    """A batch of a leader: its rows are `slots` padded to `bucket`, each for so many `passes`, and
    begin with `old` items of a chunk read before."""

    step: str
    rows: str
    slots: tuple[int, ...]
    bucket: int
    old: int
    passes: int


class NodeAction(msgspec.Struct, array_like=True, frozen=True, omit_defaults=True):
    """What a node's leader has done with the node: an operation of its engine, or a call of `op`.

    `is_new`: it is the first on a batch since that was made ready. `batch` is None where it is as
    in the action before, so that a step which is as the one before is the same message again.
    """

    kind: str
    op: str
    is_new: bool
    batch: BatchRows | None = None
    arguments: tuple[Shape, ...] = ()
    named: dict[str, Shape] = {}


class NodeActions(msgspec.Struct, tag="node", array_like=True, frozen=True):
    """What a node's followers are to do as well, in order; a call is the last of them."""

    node: str
    actions: tuple[NodeAction, ...]


class Settle(msgspec.Struct, tag="settle", array_like=True, frozen=True):
    """A call has failed on the leader: how did it end on the others?"""

    node: str
    number: int


class Settled(msgspec.Struct, tag="settled", array_like=True, frozen=True):
    """How a call ended on a follower; `error` is empty where it did not fail."""

    process: int
    node: str
    number: int
    error: str


Message = (
    Start
    | Left
    | Release
    | Succeeded
    | Tell
    | Stop
    | Ready
    | Progress
    | Broken
    | StepOutput
    | HostOutput
    | MachineDone
    | Failed
    | Released
    | Told
    | Items
    | LentRing
    | Marked
    | Closed
    | ReadTo
    | Moved
    | NodeActions
    | Settle
    | Settled
)

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    return _encoder.encode(message)


def decode(data: Frame) -> Message:
    """Raises msgspec.DecodeError for what is no message."""
    return _decoder.decode(data)
