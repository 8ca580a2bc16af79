"""Which of a machine's GPUs write streams into whose memory: agreed on before anything is captured.

Each rank lends the rings that ranks on other GPUs fill, and opens those that it fills itself. Where
a device can't reach the other, items go through the host, and `said` has a line for people; with
`device` as the way that was asked for, the rank does not start instead. A rank that takes the place
of a lost one lends its own rings, and is lent the others' again.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.loader import PlacementFacts
from mstarc_runtime.messages import LentRing, Message
from mstarc_runtime.run_choices import Way
from mstarc_runtime.streaming.outbox import Outbox
from mstarc_runtime.streaming.peer_ring import PeerRing, is_long_enough
from mstarc_runtime.streaming.ring import Ring
from mstarc_runtime.streaming.standing import is_single

if TYPE_CHECKING:
    from mstarc_runtime.worker import Worker

# Longer than any rank takes to load.
_LEND_S = 600.0


class PeerMemory:
    """One rank's part of the agreement."""

    def __init__(self, worker: "Worker", placement: PlacementFacts, way: Way) -> None:
        self.said: list[str] = []
        self._worker = worker
        self._placement = placement
        self._way = way
        # How each stream's items are written, and who reads it.
        self._posts: dict[str, tuple[Any, int]] = {}
        self._borrowed: Any = None

    def agree(self) -> None:
        """Lends and opens. Every rank calls it, at its start. Fails with MS9019."""
        if self._way == "host" or self._worker.plan.is_alone:
            return
        if self._worker.device.type != "cuda":
            if self._way == "device":
                raise _not_reached("between CPUs streams go through the host")
            return
        if self._has_copies():
            if self._way == "device":
                raise _not_reached("a rank exists several times")
            return
        # Here, because its kernel's compiler comes with torch for GPUs only.
        from mstarc_runtime.transport.device_memory import Borrowed

        self._borrowed = Borrowed(self._worker.device)
        self.lend()
        for name, box in self._worker.parts.outboxes.items():
            if self._device_kind_of(box.rank) != "cpu":
                self._connect(name, box)

    def lend(self, to: int | None = None) -> None:
        """Tells those that fill rings of this rank, or one of them, where the rings are."""
        if self._borrowed is None:
            return
        worker = self._worker
        for name, ring in worker.parts.rings.items():
            producers = worker.plan.producers.get(name, ())
            ring.is_fed_here = worker.plan.rank in producers
            processes = self._processes_of([r for r in producers if r != worker.plan.rank])
            for process in processes if to is None else {to} & set(processes):
                worker.mailbox.send(process, self._lent(name, ring))

    def relent(self, message: LentRing) -> None:
        """A ring is somewhere else: its rank has taken another's place."""
        if message.stream in self._posts and message.lent:
            self._posts[message.stream][0].turn_to(self._borrowed.borrow(message.lent))

    def succeeded(self, process: int) -> None:
        """A process is gone: nothing is written to it, and its successor is lent what it was."""
        for post, reader in self._posts.values():
            if reader == process:
                post.turn_to(0)
        self.lend(process)

    def _lent(self, name: str, ring: Ring) -> LentRing:
        from mstarc_runtime.transport.device_memory import DeviceMemoryError, lend

        lent, why = b"", ""
        if not is_single(ring.policy):
            why = "it is read in chunks of several items"
        elif not is_long_enough(ring.capacity):
            why = "its buffer is short"
        else:
            try:
                lent = lend(ring.storage)
            except DeviceMemoryError as error:
                why = str(error)
        return LentRing(name, lent, self._worker.device.index or 0, why)

    def _connect(self, name: str, box: Outbox) -> None:
        from mstarc_runtime.transport.device_memory import DeviceMemoryError

        def is_it(message: Message) -> bool:
            return isinstance(message, LentRing) and message.stream == name

        message = self._worker.await_message(is_it, _LEND_S)
        if not isinstance(message, LentRing):
            raise _not_reached(f"rank {box.rank} did not lend the ring of `{name}`")
        why = message.why or self._unreachable(message.device)
        if not why:
            try:
                self._open(name, box, message)
            except DeviceMemoryError as error:
                why = str(error)
        if why and self._way == "device":
            raise _not_reached(f"`{name}` to rank {box.rank}: {why}")
        how = f"through the host: {why}" if why else "from device to device"
        self.said.append(f"stream `{name}` goes to rank {box.rank} {how}")

    def _open(self, name: str, box: Outbox, message: LentRing) -> None:
        from mstarc_runtime.kernels.posting import Post

        worker = self._worker
        given: dict[str, Any] = {
            "capacity": box.capacity,
            "slots": worker.plan.slots,
            "device": worker.device,
        }
        post = Post(size=torch.Size(box.item).numel(), **given)
        post.turn_to(self._borrowed.borrow(message.lent))
        box.connect(PeerRing(post, **given))
        (reader,) = self._processes_of([box.rank])
        self._posts[name] = (post, reader)

    def _unreachable(self, other: int) -> str:
        from mstarc_runtime.transport.device_memory import can_reach

        own = self._worker.device.index or 0
        return "" if can_reach(own, other) else f"device {own} can't write to device {other}"

    def _has_copies(self) -> bool:
        """Whether a rank exists several times: whose ring it is then differs by request."""
        ranks = [facts.rank for facts in self._placement.processes]
        return len(set(ranks)) < len(ranks)

    def _processes_of(self, ranks: Sequence[int]) -> list[int]:
        return [facts.process for facts in self._placement.processes if facts.rank in ranks]

    def _device_kind_of(self, rank: int) -> str:
        (facts,) = (facts for facts in self._placement.processes if facts.rank == rank)
        return self._placement.devices[facts.device]


def _not_reached(what: str) -> RuntimeFailure:
    return RuntimeFailure(
        "MS9019",
        "a stream can't go from device to device",
        notes=[what],
        helps=["`--streams auto` lets it go through the host, and says so"],
    )
