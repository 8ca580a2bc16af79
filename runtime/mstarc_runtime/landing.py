"""What a step leaves behind: items counted, values sent out.

Effects of a batch and the flags that were read back → counts of rings and collectors, one message
to the conductor with everything that the step emitted, items for other ranks. A calm step lands
without a look at a single row.
"""

from typing import TYPE_CHECKING, Any, assert_never

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.dtypes import dtype_name
from mstarc_runtime.engine.effects import Collected, Emitted, HandedOver, Reset, Sent, SentPacked
from mstarc_runtime.engine.job import Job
from mstarc_runtime.frames import pack_value, tensor_frame
from mstarc_runtime.messages import HostOutput, OutputPart, StepOutput
from mstarc_runtime.scheduler import Group
from mstarc_runtime.streaming.counts import Slots
from mstarc_runtime.streaming.outbox import Outbox
from mstarc_runtime.streaming.ring import Ring
from mstarc_runtime.transport.mailbox import CONDUCTOR

if TYPE_CHECKING:
    from mstarc_runtime.worker import Worker

Flags = NDArray[np.bool_]


class Landing:
    """Lands the steps of one rank."""

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker

    def land_calm(self, group: Group, batch: StepBatch) -> bool:
        """Every row has sent, emitted and appended all that it could.

        Returns whether the streams have room for another such step.
        """
        slots = group.slots
        has_room, has_output = True, False
        for effect in batch.effects:
            if type(effect) is Sent:
                target = effect.target
                assert isinstance(target, Ring)
                portions = group.portions.get(effect.count)
                if portions is None:
                    portions = self._portions(group, effect.count)
                has_room = target.landed_each(portions, effect.count) and has_room
            elif type(effect) is Emitted:
                has_output = True
            elif type(effect) is HandedOver:
                self._hand_over(effect, slots, None)
            elif type(effect) is Collected:
                effect.target.landed_all(slots, 1)
            else:
                raise AssertionError(f"{effect} in a calm step")
        if not has_output:
            return has_room
        if group.message is None:
            group.message = self._message(
                [_part(e, batch.slot_list) for e in batch.effects if type(e) is Emitted]
            )
        self._worker.mailbox.send(CONDUCTOR, group.message, batch.output_frames())
        return has_room

    def _portions(self, group: Group, count: int) -> NDArray[np.int64]:
        made = np.zeros(self._worker.plan.slots, dtype=np.int64)
        made[group.slots] = count
        group.portions[count] = made
        return made

    def land(self, batch: StepBatch, flags: Flags, slots: Slots) -> None:
        """Row by row where rows differ. `flags` [size, COLUMNS] are those of `slots` [size]."""
        parts: list[OutputPart] = []
        frames: list[bytes] = []
        for effect in batch.effects:
            match effect:
                case Sent():
                    self._land_sent(batch, effect, flags, slots)
                case SentPacked():
                    self._land_packed(batch, effect, slots)
                case Emitted():
                    rows = None if effect.where is None else flags[:, effect.where]
                    part, frame = _emitted(effect, batch.on_host(effect.value), slots, rows)
                    if part is not None:
                        parts.append(part)
                        frames.append(frame)
                case HandedOver():
                    rows = None if effect.where is None else flags[:, effect.where]
                    self._hand_over(effect, slots, rows)
                case Collected():
                    chosen = slots if effect.where is None else slots[flags[:, effect.where]]
                    effect.target.landed_all(chosen, 1)
                case Reset():
                    effect.target.landed_reset(slots)
                case _:
                    assert_never(effect)
        if parts:
            self._worker.mailbox.send(CONDUCTOR, self._message(parts), frames)

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

    def _land_sent(self, batch: StepBatch, effect: Sent, flags: Flags, slots: Slots) -> None:
        rows = None if effect.where is None else flags[:, effect.where]
        ends: NDArray[np.bool_] | None = None
        if effect.marks is not None:
            ends = batch.on_host(effect.marks)[: slots.size].numpy()
        elif effect.ends is not None:
            ends = flags[:, [effect.ends]]
        target = effect.target
        if isinstance(target, Outbox):
            assert effect.values is not None
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

    def _land_packed(self, batch: StepBatch, effect: SentPacked, slots: Slots) -> None:
        target = effect.target
        values = None if effect.values is None else batch.on_host(effect.values).clone()
        marks = None if effect.marks is None else batch.on_host(effect.marks).numpy().copy()
        start = 0
        for slot, count in zip(slots.tolist(), effect.counts, strict=True):
            ends = None if marks is None else marks[start : start + count]
            if isinstance(target, Outbox):
                assert values is not None
                ended = [] if ends is None else ends.nonzero()[0].tolist()
                target.put(slot, values[start : start + count], ended)
            else:
                one = np.array([slot], dtype=np.int64)
                target.landed(one, count, None if ends is None else ends[None])
            start += count

    def _message(self, parts: list[OutputPart]) -> StepOutput:
        return StepOutput(self._worker.plan.rank, tuple(parts))


def _frame(value: Tensor, size: int) -> bytes:
    rows = value if value.shape[0] == size else value[:size]
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
) -> tuple[OutputPart | None, bytes]:
    if effect.counts is not None:
        assert rows is None, "packed values are emitted whole"
        return _part(effect, slots.tolist()), tensor_frame(value)
    if rows is None or rows.all():
        return _part(effect, slots.tolist()), _frame(value, slots.size)
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
