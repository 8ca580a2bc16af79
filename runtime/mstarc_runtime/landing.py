"""What a step leaves behind: items counted, values sent out.

Effects of a batch and the flags that were read back → counts of rings and collectors, one message
to the conductor with everything that the step emitted, items for other ranks. A calm step lands
without a look at a single row.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, assert_never

import numpy as np
import torch
from msgspec import structs
from numpy.typing import NDArray
from torch import Tensor

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.dtypes import dtype_name
from mstarc_runtime.engine.effects import (
    Collected,
    Effect,
    Emitted,
    HandedOver,
    Reset,
    Sent,
    SentPacked,
)
from mstarc_runtime.engine.job import Job
from mstarc_runtime.frames import Frame, lent_frame, pack_value, tensor_frame
from mstarc_runtime.messages import HostOutput, OutputPart, StepOutput
from mstarc_runtime.plan_steps import Again, DeviceStep
from mstarc_runtime.scheduler import Group
from mstarc_runtime.streaming.counts import Slots
from mstarc_runtime.streaming.outbox import Outbox
from mstarc_runtime.streaming.ring import Ring
from mstarc_runtime.transport.mailbox import CONDUCTOR

if TYPE_CHECKING:
    from mstarc_runtime.worker import Worker

Flags = NDArray[np.bool_]

# Bytes from which on a value leaves as the memory that it was copied to, and not as a copy of that.
_LARGE = 1 << 20


class Landed(Protocol):
    """What has come back of a step: its batch, or one of the passes of a stretch."""

    @property
    def leaving(self) -> Sequence[Effect]: ...

    @property
    def slot_list(self) -> list[int]: ...

    def on_host(self, value: Tensor) -> Tensor: ...

    def lend(self) -> None: ...

    def output_frames(self) -> list[bytes]: ...


class Landing:
    """Lands the steps of one rank."""

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker
        # The node with a KV cache whose step makes an output.
        self._makers = {
            output: node
            for step in worker.plan.steps
            if isinstance(step, DeviceStep)
            for output in step.emits
            for node in step.nodes
            if node in worker.parts.kv
        }

    def land_calm(self, group: Group, batch: Landed, slots: Slots, passes: int = 1) -> bool:
        """Every row has sent, emitted and appended all that it could, in so many passes.

        Returns whether the streams have room for another such step.
        """
        has_room, has_output = True, False
        # What a pass sends in all, by one effect or by several: so much room the next one needs.
        sent: dict[Ring, int] = {}
        for effect in batch.leaving:
            if type(effect) is Sent:
                target = effect.target
                assert isinstance(target, Ring)
                sent[target] = sent.get(target, 0) + effect.count
            elif type(effect) is Emitted:
                has_output = True
            elif type(effect) is HandedOver:
                self._hand_over(effect, slots, None)
            elif type(effect) is Collected:
                effect.target.landed_all(slots, passes)
            else:
                raise AssertionError(f"{effect} in a calm step")
        for ring, count in sent.items():
            portions = group.portions.get(count * passes)
            if portions is None:
                portions = self._portions(group, count * passes)
            has_room = ring.landed_each(portions, count) and has_room
        if not has_output:
            return has_room
        message = group.messages.get(passes)
        if message is None:
            parts = [_part(e, batch.slot_list) for e in batch.leaving if type(e) is Emitted]
            message = group.messages[passes] = self._message(parts * passes)
        self._worker.mailbox.send(CONDUCTOR, message, batch.output_frames())
        return has_room

    def _portions(self, group: Group, count: int) -> NDArray[np.int64]:
        made = np.zeros(self._worker.plan.slots, dtype=np.int64)
        made[group.slots] = count
        group.portions[count] = made
        return made

    def land(
        self, batch: Landed, flags: Flags, slots: Slots, ran: NDArray[np.bool_] | None = None
    ) -> None:
        """Row by row where rows differ. `flags` [size, COLUMNS] are those of `slots` [size].

        `ran` [size]: which of them took part, where not all did.
        """
        if ran is not None and ran.all():
            ran = None
        parts: list[OutputPart] = []
        frames: list[Frame] = []
        for effect in batch.leaving:
            match effect:
                case Sent():
                    self._land_sent(batch, effect, slots, flags, _rows(effect, flags, ran))
                case SentPacked():
                    self._land_packed(batch, effect, slots)
                case Emitted():
                    rows = _rows(effect, flags, ran)
                    part, frame = _emitted(effect, batch.on_host(effect.value), slots, rows)
                    if part is not None:
                        parts.append(self._with_read(batch, part))
                        frames.append(frame)
                case HandedOver():
                    self._hand_over(effect, slots, _rows(effect, flags, ran))
                case Collected():
                    rows = _rows(effect, flags, ran)
                    effect.target.landed_all(slots if rows is None else slots[rows], 1)
                case Reset():
                    effect.target.landed_reset(slots)
                case _:
                    assert_never(effect)
        if parts:
            if any(isinstance(frame, memoryview) for frame in frames):
                batch.lend()
            self._worker.mailbox.send(CONDUCTOR, self._message(parts), frames)

    def _with_read(self, batch: Landed, part: OutputPart) -> OutputPart:
        """The part, of a step in front of a loop with how many rows its maker's contexts hold."""
        if not isinstance(batch, StepBatch) or isinstance(batch.step.then, Again):
            return part
        engine = self._worker.parts.kv.get(self._makers.get(part.output, ""))
        if engine is None:
            return part
        tables = engine.cache.tables
        held = tables.lengths[tables.keys(np.array(part.slots, dtype=np.int64), 0)]
        return structs.replace(part, read=tuple(held.tolist()))

    def land_job(self, job: Job) -> None:
        for output, value in job.emits:
            self._emit(job.slot, output, value)
        for target, value in job.sends:
            items = torch.as_tensor(value)
            target.put(job.slot, items.unsqueeze(0) if items.dim() == target.item_dims else items)

    def _emit(self, slot: int, output: str, value: Any) -> None:
        shape, frame = pack_value(value)
        message = HostOutput(self._worker.plan.rank, slot, output, shape)
        self._worker.mailbox.send(CONDUCTOR, message, () if frame is None else (frame,))

    def _hand_over(self, effect: HandedOver, slots: Slots, rows: Flags | None) -> None:
        for row, slot in enumerate(slots.tolist()):
            if rows is None or rows[row]:
                self._emit(slot, effect.output, effect.values[row])

    def _land_sent(
        self,
        batch: Landed,
        effect: Sent,
        slots: Slots,
        flags: Flags,
        rows: NDArray[np.bool_] | None,
    ) -> None:
        ends: NDArray[np.bool_] | None = None
        if effect.marks is not None:
            ends = batch.on_host(effect.marks)[: slots.size].numpy()
        elif effect.ends is not None:
            ends = flags[:, [effect.ends]]
        target = effect.target
        if isinstance(target, Outbox) and effect.values is not None:
            items = batch.on_host(effect.values).clone()
            for row, slot in enumerate(slots.tolist()):
                if rows is None or rows[row]:
                    ended = [] if ends is None else ends[row].nonzero()[0].tolist()
                    target.put(slot, items[row], ended)
            return
        if rows is None or rows.all():
            target.landed(slots, effect.count, ends)
        else:
            target.landed(slots[rows], effect.count, None if ends is None else ends[rows])

    def _land_packed(self, batch: Landed, effect: SentPacked, slots: Slots) -> None:
        target = effect.target
        values = None if effect.values is None else batch.on_host(effect.values).clone()
        marks = None if effect.marks is None else batch.on_host(effect.marks).numpy().copy()
        start = 0
        for slot, count in zip(slots.tolist(), effect.counts, strict=True):
            ends = None if marks is None else marks[start : start + count]
            if isinstance(target, Outbox) and values is not None:
                ended = [] if ends is None else ends.nonzero()[0].tolist()
                target.put(slot, values[start : start + count], ended)
            else:
                one = np.array([slot], dtype=np.int64)
                target.landed(one, count, None if ends is None else ends[None])
            start += count

    def _message(self, parts: list[OutputPart]) -> StepOutput:
        return StepOutput(self._worker.plan.rank, tuple(parts))


def _rows(
    effect: Sent | Emitted | HandedOver | Collected, flags: Flags, ran: NDArray[np.bool_] | None
) -> NDArray[np.bool_] | None:
    """Whose effect it was: rows that its mask names, of those that took part; None is all."""
    if effect.where is None:
        return ran
    rows: NDArray[np.bool_] = flags[:, effect.where]
    return rows if ran is None else rows & ran


def _frame(effect: Emitted, value: Tensor, size: int) -> Frame:
    rows = value if value.shape[0] == size else value[:size]
    if effect.value.device.type == "cuda" and rows.nbytes >= _LARGE:
        return lent_frame(rows)
    if rows.dtype == torch.int64 and rows.device.type == "cpu":
        array: NDArray[Any] = rows.numpy()
        return array.tobytes()
    return tensor_frame(rows)


def _part(effect: Emitted, slots: list[int]) -> OutputPart:
    return OutputPart(
        effect.output,
        dtype_name(effect.value.dtype),
        tuple(effect.value.shape[1:]),
        tuple(slots),
        effect.counts,
    )


def _emitted(
    effect: Emitted, value: Tensor, slots: Slots, rows: NDArray[np.bool_] | None
) -> tuple[OutputPart | None, Frame]:
    if effect.counts is not None:
        assert rows is None, "packed values are emitted whole"
        return _part(effect, slots.tolist()), _frame(effect, value, value.shape[0])
    if rows is None or rows.all():
        return _part(effect, slots.tolist()), _frame(effect, value, slots.size)
    if not rows.any():
        return None, b""
    chosen = value[: slots.size][torch.from_numpy(rows)]
    part = OutputPart(
        effect.output,
        dtype_name(effect.value.dtype),
        tuple(effect.value.shape[1:]),
        tuple(slots[rows].tolist()),
        None,
    )
    return part, tensor_frame(chosen)
