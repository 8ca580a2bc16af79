"""What the passes of a stretch leave on the device, and which rows go on to the next pass.

Several passes of a loop are launched one behind the other, and the host looks when the last is
through. So a pass ends, on the device, with `record`: its flags and outputs are noted in the row of
the log whose turn it is; a row whose loop has stopped becomes padding, which touches no page and no
state and sends nothing; the others move on to their next row of the cache. A body that is captured
ends with it too.

The log has two halves: while the passes of one stretch are read, those of the next are under way.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mstarc_runtime.engine.effects import Effect, Emitted, Sent, SentPacked
from mstarc_runtime.engine.flag_columns import COLUMNS, MORE, RAN
from mstarc_runtime.kvcache.mirror import MovingFixed, MovingRows

if TYPE_CHECKING:
    from mstarc_runtime.engine.batch import StepBatch

HALVES = 2
# Of a captured body, at most, itself included.
_WARM_UPS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PassEnd:
    """What the end of a pass reads and writes: `log` at `at` i64[1] gets `flags` [B, COLUMNS].

    `slots` i64[B] and `allowed` bool[B] are the batch's.
    """

    flags: Tensor
    log: Tensor
    at: Tensor
    slots: Tensor
    allowed: Tensor
    padding_slot: int
    tested: bool

    def note(self, alive: Tensor) -> None:
        """Notes which rows ran; from now on only those are `alive` bool[B] whose loop goes on."""
        self.flags[:, RAN] = alive
        self.at.remainder_(self.log.shape[0])
        self.log.index_copy_(0, self.at, self.flags[None])
        self.at.add_(1)
        if self.tested:
            alive.logical_and_(self.flags[:, MORE])
        self.slots.masked_fill_(~alive, self.padding_slot)
        self.allowed.logical_and_(alive)


class PassLog:
    """The log of one batch, for stretches of `most` passes. `tested`: a flag can end its loop."""

    def __init__(self, *, bucket: int, most: int, tested: bool, device: torch.device) -> None:
        self.most = most
        self._tested = tested
        self._device = device
        self._is_host = device.type == "cpu"
        self.alive = torch.zeros(bucket, dtype=torch.bool, device=device)
        self._at = torch.zeros(1, dtype=torch.int64, device=device)
        self._flags = torch.zeros((_rows(most), bucket, COLUMNS), dtype=torch.bool, device=device)
        self._values: list[Tensor] = []
        self._half = 0

    # Before the passes of a stretch

    def begin(self, size: int) -> None:
        """The first `size` rows take part."""
        self.alive[:size].fill_(True)
        self.alive[size:].fill_(False)
        self._turn_half()

    def go_on(self, batch: "StepBatch") -> None:
        """Those rows take part that the passes before, which nobody has read yet, have left."""
        for rows, _ in batch.moving():
            move_on(rows, self.alive, 0)
        self._turn_half()

    def _turn_half(self) -> None:
        self._half = (self._half + 1) % HALVES
        self._at.fill_(self._half * self.most)

    # At the end of a pass

    def record(self, batch: "StepBatch") -> None:
        """Notes the pass, and makes padding of rows that have stopped."""
        for log, value in zip(self._logs(batch.effects), _values_of(batch.effects), strict=True):
            log.index_copy_(0, self._at % log.shape[0], value[None])
        batch.next_pass()
        end: PassEnd | None = PassEnd(
            flags=batch.flags,
            log=self._flags,
            at=self._at,
            slots=batch.device_slots,
            allowed=batch.allowed,
            padding_slot=batch.padding_slot,
            tested=self._tested,
        )
        moving: list[tuple[MovingRows | MovingFixed | None, int]] = [*batch.moving()]
        for rows, calls in moving or [(None, 0)]:
            move_on(rows, self.alive, calls, end)
            end = None

    def _logs(self, effects: Sequence[Effect]) -> list[Tensor]:
        if not self._values:
            self._values = [
                torch.zeros((_rows(self.most), *v.shape), dtype=v.dtype, device=self._device)
                for v in _values_of(effects)
            ]
        return self._values

    # Behind the passes of a stretch

    def read_back(self, batch: "StepBatch", passes: int) -> "PassesRead":
        """Asks for what they have left; it is there once `has_come`."""
        first = self._half * self.most
        rows = slice(first, first + passes)
        leaving = list(batch.leaving)
        heard = {id(value) for value in _values_of(leaving)}
        read = PassesRead(
            leaving=leaving,
            slot_list=batch.slot_list,
            flags=self._copied(self._flags[rows]).numpy(),
            values={
                id(value): self._copied(log[rows])
                for value, log in zip(_values_of(batch.effects), self._values, strict=True)
                if id(value) in heard
            },
        )
        if not self._is_host:
            read.event = torch.cuda.Event()
            read.event.record(torch.cuda.current_stream(self._device))
        return read

    def _copied(self, rows: Tensor) -> Tensor:
        if self._is_host:
            return rows.clone()
        # Pinned memory comes from a pool that waits for copies under way before it is used again.
        pinned = torch.empty(rows.shape, dtype=rows.dtype, pin_memory=True)
        return pinned.copy_(rows, non_blocking=True)


@dataclass(slots=True, kw_only=True, eq=False)
class PassesRead:
    """What passes have left, on the host: `flags` [passes, bucket, COLUMNS].

    As long as it stands for one pass (`of`), landing takes it for a batch.
    """

    leaving: list[Effect]
    slot_list: list[int]
    flags: NDArray[np.bool_]
    values: dict[int, Tensor]
    event: Any = field(default=None)
    at: int = 0

    def has_come(self) -> bool:
        return self.event is None or bool(self.event.query())

    def wait(self) -> None:
        if self.event is not None:
            self.event.synchronize()

    def of(self, at: int) -> "PassesRead":
        """The same, standing for pass `at`."""
        self.at = at
        return self

    def on_host(self, value: Tensor) -> Tensor:
        """An effect's value of the pass that it stands for."""
        return self.values[id(value)][self.at]

    def lend(self) -> None:
        """Leaves it to who has it; it is nobody else's anyway."""

    def output_frames(self) -> list[bytes]:
        """The bytes of every emitted value's rows, pass by pass."""
        emitted = [effect.value for effect in self.leaving if type(effect) is Emitted]
        size = len(self.slot_list)
        return [
            as_array(self.on_host(value)[:size]).tobytes()
            for at in range(self.flags.shape[0])
            for value in (emitted if self.of(at) else ())
        ]


def move_on(
    rows: MovingRows | MovingFixed | None, alive: Tensor, by: int, end: PassEnd | None = None
) -> None:
    """On the device: rows that are `alive` bool[B] move on by so many calls, the others become
    padding; before that the `end` of a pass is noted."""
    if alive.device.type != "cpu":
        # Here, because the kernels' compiler comes with torch for GPUs only.
        from mstarc_runtime.kernels.end_pass import end_pass

        if not isinstance(rows, MovingFixed):
            end_pass(end, rows, alive, by)
            return
        if end is not None:
            end_pass(end, None, alive, by)
    elif end is not None:
        end.note(alive)
    if rows is not None:
        rows.go_on(alive, by)


def as_array(rows: Tensor) -> NDArray[Any]:
    """The tensor's memory; of types that numpy does not know, the bits."""
    if rows.dtype == torch.bfloat16:
        rows = rows.view(torch.int16)
    array: NDArray[Any] = rows.detach().numpy()
    return array


def _rows(most: int) -> int:
    """Rows of the log: two stretches, and the runs that warm up before a capture."""
    return max(HALVES * most, most + _WARM_UPS)


def _values_of(effects: Sequence[Effect]) -> list[Tensor]:
    """What must leave the device, in the effects' order."""
    found: list[Tensor] = []
    for effect in effects:
        if isinstance(effect, Emitted):
            found.append(effect.value)
        elif isinstance(effect, (Sent, SentPacked)):
            found += [tensor for tensor in (effect.values, effect.marks) if tensor is not None]
    return found
