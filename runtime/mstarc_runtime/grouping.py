"""Ranks that hold the parts of one node: the leader's steps call it, the others serve.

The plan's steps run on the leader alone. Whatever its engine does with the node, its followers do
too, in the same order: operations that only count rows wait for the next call, so that a step costs
one message, and so does a stretch of captured passes. A follower is told of them when they are
launched, and the leader waits for no answer. All run the module, whose layers put the parts'
results together.

A call that fails on all of them (a bad row) is settled: nobody is ahead, and the group goes on. If
it fails on one alone, the others wait in vain inside a layer: that one ends, and says why.
"""

import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from mstarc_runtime.engine.mirroring import Notes, Recorder
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.frames import Frame, Shape, pack_value, unpack_value
from mstarc_runtime.layers.shard import WHOLE, Collectives, Shard
from mstarc_runtime.messages import (
    BatchRows,
    Message,
    NodeAction,
    NodeActions,
    Settle,
    Settled,
)
from mstarc_runtime.plan_api import DeviceStep
from mstarc_runtime.transport.mailbox import Mailbox, Parcel

# How long a member waits to hear that a call has failed on the others as well.
_SETTLE_S = 5.0


class GroupLost(RuntimeFailure):
    """Nothing that this process leads or serves can go on: its group is not whole any more."""


class Connect(Protocol):
    """Joins a group of `count` processes as its member `index`; waits for the others."""

    def __call__(self, name: str, *, index: int, count: int) -> Collectives: ...


def alone(name: str, *, index: int, count: int) -> Collectives:
    """For a process that is a member of no group."""
    raise AssertionError(f"member {index} of {count} of {name} is alone")


class Awaiting(Protocol):
    """A worker that can wait for one message and keep the others for later."""

    mailbox: Mailbox

    def await_message(
        self, wanted: Callable[[Message], bool], timeout_s: float
    ) -> Message | None: ...


class Groups:
    """The groups of which one process is a member.

    `peers` gives the process of each rank of this process's copy.
    """

    def __init__(
        self,
        worker: Awaiting,
        *,
        rank: int,
        process: int,
        peers: Mapping[int, int],
        connect: Connect,
    ) -> None:
        self.rank = rank
        self.leads: dict[str, Followers] = {}
        self.serves: dict[str, Served] = {}
        self._worker = worker
        self._process = process
        self._peers = peers
        self._connect = connect
        self._joined: dict[tuple[int, ...], Collectives] = {}

    def can_capture(self, step: DeviceStep) -> bool:
        """Whether a step may be captured: where other ranks hold parts of what it calls, if they
        record that, too. Who leads one node and serves another would wait for a rank that waits
        for it."""
        led = self.led_by(step)
        return not led or (not self.serves and all(one.can_record for one in led))

    def led_by(self, step: DeviceStep) -> "list[Followers]":
        """The other ranks of the nodes that a step calls, in its order."""
        return [self.leads[name] for name in step.nodes if name in self.leads]

    def left_alone(self, step: DeviceStep, error: Exception) -> GroupLost:
        """What ends this rank: it failed in a step of which the others have been told, and no
        answer of theirs is waited for."""
        nodes = ", ".join(f"`{one.node}`" for one in self.led_by(step))
        return GroupLost(
            "MS9311",
            f"rank {self.rank} failed in step `{step.name}`: {type(error).__name__}: {error}",
            notes=[
                f"the other ranks of {nodes} do their part of it already, and wait for this one"
            ],
        )

    def shard(self, ranks: Sequence[int], tp: int, sp: int) -> Shard:
        """The part that this rank holds of a node on `ranks`."""
        if len(ranks) <= 1:
            return WHOLE
        assert len(ranks) == tp * sp, f"{len(ranks)} ranks for {tp} * {sp} parts"
        place = list(ranks).index(self.rank)
        sp_index, index = divmod(place, tp)
        return Shard(
            index=index,
            count=tp,
            group=self._join(ranks[sp_index * tp : (sp_index + 1) * tp]),
            sp_index=sp_index,
            sp_count=sp,
            sp_group=self._join(ranks[index::tp]),
        )

    def lead(self, node: str, ranks: Sequence[int]) -> "Followers":
        """This rank's steps call the node, which the others of `ranks` hold too."""
        processes = {self._peers[rank]: rank for rank in ranks[1:]}
        made = self.leads[node] = Followers(node, processes, self._worker)
        return made

    def serve(self, node: str, ranks: Sequence[int], engine: Any) -> None:
        """Another rank's steps call the node; this one does the same with `engine`."""
        self.serves[node] = Served(node, engine, ranks[0], self._peers[ranks[0]])

    def flush(self) -> None:
        """Tells followers what is not part of a call."""
        for followers in self.leads.values():
            followers.flush()

    def handle(self, parcel: Parcel) -> None:
        """Does what a leader has done, or says how it ended."""
        message = parcel.message
        if isinstance(message, Settle):
            self._settle(self.serves[message.node], message, "")
            return
        assert isinstance(message, NodeActions)
        served = self.serves[message.node]
        try:
            with served.queue():
                served.act(message.actions, parcel.frames)
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            answer = self._worker.await_message(
                lambda m: isinstance(m, (Settle, NodeActions)) and m.node == served.node, _SETTLE_S
            )
            if not isinstance(answer, Settle):
                raise self._failed_alone(served, message.actions[-1], said) from error
            self._settle(served, answer, said)

    def snapshot(self) -> dict[str, Any]:
        """What requests hold of nodes that are served here."""
        return {name: served.snapshot() for name, served in self.serves.items()}

    def _join(self, ranks: Sequence[int]) -> Collectives | None:
        if len(ranks) == 1:
            return None
        wanted = tuple(ranks)
        if wanted not in self._joined:
            name = "-".join(str(self._peers[rank]) for rank in ranks)
            self._joined[wanted] = self._connect(
                name, index=wanted.index(self.rank), count=len(wanted)
            )
        return self._joined[wanted]

    def _settle(self, served: "Served", message: Settle, error: str) -> None:
        answer = Settled(self._process, served.node, message.number, error)
        self._worker.mailbox.send(served.leader_process, answer)

    def _failed_alone(self, served: "Served", action: NodeAction, said: str) -> GroupLost:
        return GroupLost(
            "MS9311",
            f"rank {self.rank} failed in `{served.node}.{action.op or action.kind}`: {said}",
            notes=[
                f"it holds a part of `{served.node}`, whose steps are rank {served.leader}'s, "
                "where this did not fail"
            ],
        )


class Followers:
    """The leader's way to the others of a node's group."""

    def __init__(self, node: str, processes: Mapping[int, int], worker: Awaiting) -> None:
        self.node = node
        self._processes = processes
        self._worker = worker
        self._actions: list[NodeAction] = []
        self._frames: list[Frame] = []
        self._number = 0
        # What was told last: a step that is as the one before is not made into a message again.
        self._message = NodeActions(node, ())
        self._run = -1
        self._batch: tuple[Any, ...] = ()
        # Where calls are recorded in a graph, here and on the others: it gets each of them.
        self.recorder: Recorder | None = None
        # Whether arguments of calls go from rank to rank in a graph, and whether they can.
        self.is_in_graph = False
        self.can_record = False

    def note(
        self,
        kind: str,
        arguments: Sequence[Any],
        named: Mapping[str, Any],
        batch: Any = None,
        op: str = "",
    ) -> None:
        """Something that the engine has done, to be told with the next call."""
        packed = tuple([self._packed(argument) for argument in arguments])
        more = {name: self._packed(value) for name, value in named.items()}
        if batch is None:
            self._actions.append(NodeAction(kind, op, False, None, packed, more))
            return
        is_new, self._run = batch.number != self._run, batch.number
        rows = self._rows_of(batch) if is_new else None
        self._actions.append(NodeAction(kind, op, is_new, rows, packed, more))

    def flush(self) -> None:
        if not self._actions:
            return
        actions = tuple(self._actions)
        if actions != self._message.actions:
            self._message = NodeActions(self.node, actions)
        for process in self._processes:
            self._worker.mailbox.send(process, self._message, self._frames)
        self._number += 1
        self._actions = []
        self._frames = []

    def tell(self) -> None:
        """Lets the others know what was noted before this one waits for them on the device."""
        self.flush()
        self._worker.mailbox.drain(self._processes)

    def together(self, work: Callable[[], Any]) -> Any:
        """What the leader makes of a call that the others have been told of.

        Raises what `work` does if they all failed too, else GroupLost.
        """
        # The others must have been told before this one waits for them in a layer.
        self.tell()
        try:
            return work()
        except Exception as error:
            self._settle(error)
            raise

    def _settle(self, error: Exception) -> None:
        number = self._number - 1
        for process in self._processes:
            self._worker.mailbox.send(process, Settle(self.node, number))
        open_processes = dict(self._processes)
        deadline = time.monotonic() + _SETTLE_S
        while open_processes:
            answer = self._worker.await_message(
                lambda m: isinstance(m, Settled) and m.node == self.node and m.number == number,
                max(0.0, deadline - time.monotonic()),
            )
            if answer is None:
                raise self._lost(open_processes.values(), error) from error
            assert isinstance(answer, Settled)
            rank = open_processes.pop(answer.process)
            if not answer.error:
                raise self._lost([rank], error) from error

    def _lost(self, ranks: Iterable[int], error: Exception) -> GroupLost:
        names = ", ".join(str(rank) for rank in sorted(ranks))
        return GroupLost(
            "MS9311",
            f"rank {names}, which holds a part of `{self.node}`, has failed or is gone",
            notes=[f"the leader of its group saw {type(error).__name__}: {error}"],
        )

    def _rows_of(self, batch: Any) -> BatchRows | None:
        """What the others need to know of a batch; None where it is as the last one."""
        # A slot array stands for its rows: it never changes.
        batch_now = (batch.step, batch.slots, batch.bucket, batch.old, batch.passes)
        if len(self._batch) == len(batch_now) and all(
            one is other for one, other in zip(batch_now, self._batch, strict=True)
        ):
            return None
        self._batch = batch_now
        return BatchRows(
            step=batch.step.name,
            rows=batch.step.rows,
            slots=tuple(batch.slot_list),
            bucket=batch.bucket,
            old=batch.old,
            passes=batch.passes,
        )

    def _packed(self, value: Any) -> Any:
        if value is None or type(value) is int:
            # A step's own; a shape never changes.
            return _plain(value)
        if isinstance(value, np.ndarray):
            value = value.tolist()
        shape, frame = pack_value(value)
        if frame is not None:
            self._frames.append(frame)
        return shape


@functools.lru_cache(maxsize=1024)
def _plain(value: int | None) -> Shape:
    return pack_value(value)[0]


class Served:
    """A node that another rank leads."""

    def __init__(self, node: str, engine: Any, leader: int, leader_process: int) -> None:
        self.node = node
        self.leader = leader
        self.leader_process = leader_process
        self._engine = engine
        self._notes = Notes()
        # Where on the device it does so.
        self.queue = engine.queue

    def act(self, actions: Sequence[NodeAction], frames: Sequence[Frame]) -> None:
        waiting = iter(frames)

        def unpacked(shape: Any) -> Any:
            frame = None if shape.kind == "plain" else next(waiting)
            return self._engine.on_device(unpack_value(shape, frame))

        for action in actions:
            arguments = [unpacked(shape) for shape in action.arguments]
            named = {name: unpacked(shape) for name, shape in action.named.items()}
            batch = self._notes.batch(action, self._engine.device)
            self._engine.follow(action.kind, action.op, batch, arguments, named)

    def snapshot(self) -> Any:
        return self._engine.held()
