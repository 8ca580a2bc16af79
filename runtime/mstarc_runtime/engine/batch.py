"""The rows of a step: what generated code sees as `Batch`, and what it leaves behind.

A `StepBatch` belongs to one step and one padded size, and is bound to the slots of a group of
requests before it runs. Its tensors keep their addresses, so a captured region may read and write
them. While `run` goes through, sends, emits and appends are noted as *effects*; each mask among
their arguments gets a column of `flags`. The worker reads all flags back at once and lands the
effects; when every flag is as `expected` it need not look at any single row.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mstarc_runtime.engine.effects import (
    Collected,
    CountTarget,
    Effect,
    Emitted,
    HandedOver,
    Reset,
    SendTarget,
    Sent,
    SentPacked,
    heard,
)
from mstarc_runtime.engine.flag_columns import COLUMNS, MORE, RAN
from mstarc_runtime.engine.pass_log import PassLog
from mstarc_runtime.engine.read_back import ReadBack
from mstarc_runtime.plan_api import DeviceStep
from mstarc_runtime.streaming.chunks import Chunk
from mstarc_runtime.streaming.counts import Slots

if TYPE_CHECKING:
    from mstarc_runtime.engine.context import StepContext
    from mstarc_runtime.engine.options import OptionTable
    from mstarc_runtime.engine.storage import Values
    from mstarc_runtime.kvcache.mirror import FixedMirror, MovingFixed, MovingRows
    from mstarc_runtime.streaming.ring import Ring


class StepBatch(ReadBack):
    """The rows of `step`, padded to `bucket`."""

    def __init__(
        self,
        step: DeviceStep,
        bucket: int,
        *,
        padding_slot: int,
        device: torch.device,
        options: "OptionTable",
        computed: torch.dtype = torch.bfloat16,
        log: PassLog | None = None,
    ) -> None:
        super().__init__(
            bucket, padding_slot=padding_slot, device=device, options=options, computed=computed
        )
        self.step = step
        self.log = log
        # For how many passes it is made ready, and its calls of one row a request.
        self.passes = 1
        # Passes that are not launched yet, and the ranks that hold parts of its nodes know of them.
        self.told = 0
        self.step_contexts: dict[tuple[str, str, int], StepContext | FixedMirror] = {}
        # Contexts that each pass of a stretch empties and fills again: they stay where they are.
        self.renewed: set[tuple[str, str]] = set()
        self.allowed = torch.zeros(bucket, dtype=torch.bool, device=device)
        self.effects: list[Effect] = []
        self.chunks: dict[str, list[Chunk]] = {}
        # Items at the beginning of each row's chunk of `left_context` that are not new.
        self.old = 0
        # Which of the rank's batches this is, since it was prepared: for those who follow it.
        self.number = 0
        self.growth: dict[tuple[str, str], list[int]] = {}
        self.contexts: dict[Any, Any] = {}
        # Whether preparing the step forks or empties contexts, once it was prepared.
        self.moves_contexts = False
        self.stacked_from: set[str] = set()
        self.packed_from: set[str] = set()
        self.tests_loop = False
        self.padding_slot = padding_slot
        self._masks: list[Tensor] = []
        self._columns: dict[int, int] = {}
        self._pattern = self._no_masks()
        self._indices: dict[tuple[str, int], Tensor] = {}
        self._passes = {
            loop: torch.zeros(bucket, dtype=torch.int64, device=device) for loop in step.passes
        }
        self._presence: dict[str, Tensor] = {}
        # Of streams that a pass pulls from: which item is next, and how many are there.
        self._pulls: dict[str, tuple[Tensor, Tensor]] = {}
        self._asked_pulls: set[str] = set()
        self._lengths: dict[str, int] = {}
        self._all_allowed = 0

    # Before a run

    def bind(self, slots: Slots) -> None:
        """Makes these the rows. The array stands for the group and is never changed in place."""
        if slots is self.slots:
            return
        assert 1 <= slots.size <= self.bucket, f"{slots.size} rows in a bucket of {self.bucket}"
        self.slots = slots
        self.size = slots.size
        self._views = None
        self.slot_list = slots.tolist()
        self.leaving = heard(self.effects, self._options, self.slot_list)
        self._upload(self.device_slots[: self.size], slots)
        if self.size < self.bucket:
            self.device_slots[self.size :] = self.padding_slot
        self._all_allowed = 0
        self._expect()

    def rest(self) -> None:
        """Keeps nothing of the run before, and is as it was made: for a step whose runs differ."""
        self.begin()
        self.leaving = []
        self.chunks.clear()
        self.windows.clear()
        self.is_partial = False
        self.old = 0
        for kept in (self.growth, self.contexts, self.step_contexts):
            kept.clear()
        for names in (self.renewed, self.stacked_from, self.packed_from):
            names.clear()
        self.moves_contexts = False

    def forget_rows(self) -> None:
        """Belongs to nobody: the next `bind` sets every row anew."""
        self.slots = np.zeros(0, dtype=np.int64)
        self._all_allowed = 0

    def allow_all(self) -> None:
        """Every row may pass the loop once more; padding may not."""
        if self._all_allowed == self.size:
            return
        self.allowed[: self.size] = True
        self.allowed[self.size :] = False
        self._all_allowed = self.size

    def allow(self, rows: NDArray[np.bool_]) -> None:
        """Which rows may pass the loop once more."""
        if rows.all():
            self.allow_all()
            return
        self._upload(self.allowed[: self.size], rows)
        self.allowed[self.size :] = False
        self._all_allowed = 0

    def set_passes(self, loop: str, numbers: NDArray[np.int64]) -> None:
        """Which pass of a loop each row is in, for a step that asks."""
        self._upload(self._passes[loop][: self.size], numbers)
        # Padding is counted on with the others, and would ask for entries behind any table's end.
        self._passes[loop][self.size :].fill_(0)

    def set_pulled(self, ring: "Ring", pulled: list[Chunk | None]) -> None:
        """The item that each row pulls from a stream, or none."""
        if self.log is not None:
            first = np.array([0 if chunk is None else chunk.offset for chunk in pulled])
            self.pull_from(ring, first, first + [chunk is not None for chunk in pulled])
            return
        nothing = Chunk(offset=0, context=0, fresh=1)
        self.set_chunks(ring, [nothing if chunk is None else chunk for chunk in pulled])
        there = self._presence.get(ring.name)
        if there is None:
            there = torch.zeros(self.bucket, dtype=torch.bool, device=self.device)
            self._presence[ring.name] = there
        self._upload(there[: self.size], np.array([chunk is not None for chunk in pulled]))

    def pull_from(self, ring: "Ring", first: NDArray[np.int64], sent: NDArray[np.int64]) -> None:
        """Each pass pulls an item, row i its item `first[i]` in the first one, of `sent[i]`."""
        made = self._pulls.get(ring.name)
        if made is None:
            made = (torch.zeros_like(self.device_slots), torch.zeros_like(self.device_slots))
            self._pulls[ring.name] = made
        elif ring.name not in self._asked_pulls:
            return
        self._upload(made[0][: self.size], first)
        self.pull_up_to(ring, sent)

    def pull_up_to(self, ring: "Ring", sent: NDArray[np.int64]) -> None:
        """The passes behind those under way pull on, of `sent[i]` items of row i."""
        self._upload(self._pulls[ring.name][1][: self.size], sent)

    def asks_for(self, ring: "Ring") -> bool:
        """Whether what the step pulls from a stream is of use to it."""
        return ring.name in self._asked_pulls or ring.name not in self._pulls

    def set_chunks(self, ring: "Ring", chunks: list[Chunk]) -> None:
        """What this run reads of a stream: one chunk a row."""
        self.chunks[ring.name] = chunks
        if ring.policy.kind == "left_context":
            self.old = chunks[0].context
        length = chunks[0].length
        self._lengths[ring.name] = length
        if any(chunk.length != length for chunk in chunks):
            self._lengths[ring.name] = -1
            return
        wanted = (ring.name, length)
        index = self._indices.get(wanted)
        if index is None:
            index = torch.zeros((self.bucket, length), dtype=torch.int64, device=self.device)
            self._indices[wanted] = index
        starts = np.array([chunk.offset for chunk in chunks], dtype=np.int64)
        positions = (starts[:, None] + np.arange(length)) % ring.capacity
        self._upload(index[: self.size], positions)

    def begin(self) -> None:
        """Forgets the effects of the run before, for one that notes them anew."""
        self.effects.clear()
        self.lend()
        self._masks.clear()
        self._columns.clear()
        self.entries.clear()
        self._pattern = self._no_masks()
        self.packed_lengths = None
        self.tests_loop = False

    def end(self) -> None:
        """The run has noted its effects: from them follows what is expected of the flags."""
        self.leaving = heard(self.effects, self._options, self.slot_list)
        if self.log is not None:
            self.log.record(self)
        self._expect()

    # What generated code calls

    def more(self, condition: Tensor | bool) -> Tensor:
        mask = self.allowed.clone() if condition is True else condition & self.allowed
        self.flags[:, MORE] = mask
        self.tests_loop = True
        self._remember(mask, MORE)
        self._pattern[MORE] = 1
        return mask

    def emit(self, output: str, value: Any, where: Tensor | None = None) -> None:
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"`{output}` is one tensor, and the op has returned {_kind(value)}")
        counts = self.rows_of(value, None)
        self.effects.append(
            Emitted(
                output=output,
                value=value,
                where=self._column(where, expected=True),
                counts=None if counts is None else tuple(counts),
            )
        )

    def hand_over(self, output: str, values: "Values", where: Tensor | None = None) -> None:
        self.effects.append(
            HandedOver(
                output=output,
                values=tuple(values.read(slot) for slot in self.slot_list),
                where=self._column(where, expected=True),
            )
        )

    # What storage, rings and engines call

    def record_send(
        self,
        target: SendTarget,
        count: int,
        where: Tensor | None,
        ends: Tensor | None,
        values: Tensor | None = None,
    ) -> None:
        self.effects.append(
            Sent(
                target=target,
                count=count,
                where=self._column(where, expected=True),
                ends=self._end_column(ends, count),
                marks=ends if ends is not None and ends.dim() > 1 else None,
                values=values,
            )
        )

    def record_packed_send(
        self,
        target: SendTarget,
        counts: Sequence[int],
        values: Tensor | None = None,
        ends: Tensor | None = None,
    ) -> None:
        self.effects.append(
            SentPacked(target=target, counts=tuple(counts), values=values, marks=ends)
        )

    def record_append(self, target: CountTarget, where: Tensor | None) -> None:
        self.effects.append(Collected(target=target, where=self._column(where, expected=True)))

    def record_reset(self, target: CountTarget) -> None:
        self.effects.append(Reset(target=target))

    def rows_of(self, value: Tensor, item_dims: int | None) -> list[int] | None:
        """Rows of each request if `value` is packed, None if it has one row a request."""
        if self.step.rows != "packed" or value.shape[0] == self.bucket:
            assert value.shape[0] == self.bucket, (
                f"step {self.step.name}: {value.shape[0]} rows for a batch of {self.bucket}"
            )
            return None
        lengths = self.packed_lengths
        assert lengths is not None and sum(lengths) == value.shape[0], (
            f"step {self.step.name}: {value.shape[0]} packed rows, {lengths} were expected"
        )
        return lengths

    def pass_numbers(self, loop: str) -> Tensor:
        """i64[bucket]"""
        return self._passes[loop]

    def ring_index(self, ring: "Ring") -> Tensor:
        """Where the rows' chunks stand in the ring: i64[bucket, k]."""
        pulled = self._pulls.get(ring.name)
        if pulled is not None:
            self._asked_pulls.add(ring.name)
            return (pulled[0] % ring.capacity)[:, None]
        length = self._lengths[ring.name]
        assert length >= 0, f"step {self.step.name} reads chunks of several lengths as one"
        return self._indices[(ring.name, length)]

    def ring_presence(self, ring: "Ring") -> Tensor:
        """For which rows the stream has an item that the step pulls: bool[bucket]."""
        pulled = self._pulls.get(ring.name)
        return self._presence[ring.name] if pulled is None else pulled[0] < pulled[1]

    # Behind a run

    def next_pass(self) -> None:
        """On the device: every loop that the step asks about is in its next pass, which pulls the
        next items."""
        self.entries.clear()
        for numbers in self._passes.values():
            numbers.add_(1)
        for stream in sorted(self._asked_pulls):
            self._pulls[stream][0].add_(1)

    def moving(self) -> "Iterator[tuple[MovingRows | MovingFixed, int]]":
        """What changes on the device behind a pass, and by how many calls it moves on.

        Calls on a context that is renewed share their slots, so the first stands for all.
        """
        for (node, context, ordinal), made in self.step_contexts.items():
            is_renewed = (node, context) in self.renewed
            if made.moving is not None and not (is_renewed and ordinal):
                yield made.moving, 0 if is_renewed else 1

    @property
    def has_masks(self) -> bool:
        """Whether the last run set flags, which only it knows."""
        return bool(self._masks) or self.tests_loop

    def _no_masks(self) -> bytearray:
        pattern = bytearray(COLUMNS)
        pattern[RAN] = self.log is not None
        return pattern

    def _expect(self) -> None:
        self.expected = bytes(self._pattern) * self.size

    def _end_column(self, ends: Tensor | None, count: int) -> int | None:
        """The column that says whether one of a row's items ends a chunk, if any may."""
        if ends is None:
            return None
        sizes = ends.shape[1] if ends.dim() > 1 else 1
        assert sizes == count, f"{sizes} end flags for {count} items"
        return self._column(ends.any(dim=1) if ends.dim() > 1 else ends, expected=False)

    def _remember(self, mask: Tensor, column: int) -> None:
        self._masks.append(mask)
        self._columns[id(mask)] = column

    def _column(self, mask: Tensor | None, *, expected: bool) -> int | None:
        if mask is None:
            return None
        known = self._columns.get(id(mask))
        if known is not None:
            return known
        column = max(self._columns.values(), default=MORE) + 1
        assert column < RAN, f"step {self.step.name} has too many masks"
        self.flags[:, column] = mask
        self._pattern[column] = expected
        self._remember(mask, column)
        return column


def _kind(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"{len(value)} values"
    return f"`{type(value).__name__}`"
