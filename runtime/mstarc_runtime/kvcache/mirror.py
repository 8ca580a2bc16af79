"""The arrays of a step or call as tensors on the device.

On a CPU they are the arrays' own memory, unless they are to be apart: a step that moves on by
itself changes them. On a GPU they keep their addresses, so that a captured region may read them,
and are refreshed from pinned memory without waiting. Several pinned buffers take turns: the copy of
one step may still be under way while the next is prepared.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mstarc_runtime.kvcache.fixed import FixedRows
from mstarc_runtime.kvcache.layout import CacheLayout
from mstarc_runtime.kvcache.packed import PackedRows
from mstarc_runtime.kvcache.step import StepRows

_PINNED_BUFFERS = 4


class MirroredArray:
    """A host array and the tensor that follows it: `tensor` after `update` has its content."""

    def __init__(
        self,
        array: NDArray[np.int32] | NDArray[np.int64] | NDArray[np.uint8],
        device: torch.device,
        *,
        apart: bool = False,
    ) -> None:
        self._array = array
        source = torch.from_numpy(array)
        self._pinned: list[Tensor] = []
        self._turn = 0
        self._source = source if apart and device.type == "cpu" else None
        if device.type == "cpu":
            self.tensor = source.clone() if apart else source
            return
        self.tensor = source.to(device)
        self._pinned = [torch.empty_like(source, pin_memory=True) for _ in range(_PINNED_BUFFERS)]

    def update(self, count: int | None = None) -> None:
        """Copies the array, or its first `count` numbers if it is one-dimensional."""
        if self._source is not None:
            self.tensor[:count] = self._source[:count]
        if not self._pinned:
            return
        pinned = self._pinned[self._turn][:count]
        self._turn = (self._turn + 1) % _PINNED_BUFFERS
        pinned.numpy()[...] = self._array[:count]
        self.tensor[:count].copy_(pinned, non_blocking=True)


class MirroredTable:
    """A host table of which the first columns are followed: `tensor` has the table's shape."""

    def __init__(self, table: NDArray[np.int32], device: torch.device) -> None:
        self._table = table
        source = torch.from_numpy(table)
        self._pinned: list[Tensor] = []
        self._turn = 0
        if device.type == "cpu":
            self.tensor = source
            return
        self.tensor = source.to(device)
        self._pinned = [torch.empty_like(source, pin_memory=True) for _ in range(_PINNED_BUFFERS)]

    def update(self, columns: int) -> None:
        """Copies the first columns without waiting."""
        if not self._pinned:
            return
        pinned = self._pinned[self._turn][:, :columns]
        self._turn = (self._turn + 1) % _PINNED_BUFFERS
        pinned.numpy()[...] = self._table[:, :columns]
        self.tensor[:, :columns].copy_(pinned, non_blocking=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class MovingRows:
    """The tensors of a step's rows as `StepMirror` has them, and their page table on the device.

    `pages` i32[R, max_pages]
    """

    slots: Tensor
    positions: Tensor
    write_rows: Tensor
    kv_lengths: Tensor
    last_page_lengths: Tensor
    write_offsets: Tensor
    pages: Tensor
    page_size: int
    dummy_page: int
    padding_slot: int

    def go_on(self, alive: Tensor, rows: int) -> None:
        """On the device: rows that are not `alive` become padding, the others move on by `rows`."""
        dead, size = ~alive, self.page_size
        self.slots.masked_fill_(dead, self.padding_slot)
        self.pages[:, 0].masked_fill_(dead, self.dummy_page)
        for numbers, padded in (
            (self.positions, 0),
            (self.kv_lengths, 1),
            (self.write_offsets, 0),
        ):
            numbers.add_(rows).masked_fill_(dead, padded)
        column = (self.write_offsets // size).clamp(max=self.pages.shape[1] - 1).long()
        page = self.pages.gather(1, column[:, None])[:, 0]
        within = self.write_offsets % size
        self.write_rows.copy_(page.long() * size + within)
        self.last_page_lengths.copy_(within + 1)


class StepMirror:
    """The tensors of a `StepRows`: names and shapes as there. Made once, updated every step."""

    def __init__(self, rows: StepRows, device: torch.device, *, apart: bool = False) -> None:
        self._rows = rows
        self._block = MirroredArray(rows.block, device, apart=apart)
        self._slots = MirroredArray(rows.slots, device, apart=apart)
        self._batch_version = -1
        wide = rows.block64.nbytes
        block64 = self._block.tensor[:wide].view(torch.int64).view(4, -1)
        block32 = self._block.tensor[wide:].view(torch.int32).view(3, -1)
        self.positions, self.write_rows = block64[2], block64[3]
        self.kv_lengths, self.last_page_lengths, self.write_offsets = block32
        self.slots = self._slots.tensor

    def update(self) -> None:
        """Brings the tensors up to what `StepRows.prepare` has set."""
        self._block.update()
        if self._batch_version != self._rows.batch_version:
            self._batch_version = self._rows.batch_version
            self._slots.update()

    def moving(self, pages: Tensor, layout: CacheLayout) -> MovingRows:
        """What changes as rows move on on the device."""
        return MovingRows(
            slots=self.slots,
            positions=self.positions,
            write_rows=self.write_rows,
            kv_lengths=self.kv_lengths,
            last_page_lengths=self.last_page_lengths,
            write_offsets=self.write_offsets,
            pages=pages,
            page_size=layout.page_size,
            dummy_page=layout.dummy_page,
            padding_slot=layout.slots,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MovingFixed:
    """The tensors of calls of `each` rows a request, as `FixedMirror` has them."""

    slots: Tensor
    starts: Tensor
    kv_lengths: Tensor
    firsts: Tensor
    pages: Tensor
    each: int
    dummy_page: int
    padding_slot: int

    def go_on(self, alive: Tensor, calls: int) -> None:
        """On the device: requests that are not `alive` become padding, the others move on."""
        dead = ~alive
        self.slots.masked_fill_(dead, self.padding_slot)
        self.pages.masked_fill_(dead[:, None], self.dummy_page)
        self.starts.add_(calls * self.each).masked_fill_(dead, 0)
        self.kv_lengths.add_(calls * self.each).masked_fill_(dead, self.each)
        self.firsts.add_(calls * self.each).masked_fill_(dead, 0)


class FixedMirror:
    """The tensors of a `FixedRows`. Made once, updated before every step that changes any."""

    def __init__(self, rows: FixedRows, device: torch.device, layout: CacheLayout) -> None:
        self._rows = rows
        self._layout = layout
        self._starts = MirroredArray(rows.starts, device)
        self._lengths = MirroredArray(rows.kv_lengths, device)
        self._firsts = MirroredArray(rows.firsts, device)
        self._slots = MirroredArray(rows.slots, device)
        self._pages = MirroredTable(rows.page_table, device)
        self._seen = (-1, -1, -1)
        self.starts = self._starts.tensor
        self.kv_lengths = self._lengths.tensor
        self.firsts = self._firsts.tensor
        self.slots = self._slots.tensor
        self.pages = self._pages.tensor

    def update(self) -> None:
        """Brings the tensors up to what `FixedRows.prepare` has set."""
        rows = self._rows
        versions = (rows.version, rows.batch_version, rows.pages_version)
        if self._seen[0] != rows.version:
            self._starts.update()
            self._lengths.update()
            self._firsts.update()
        if self._seen[1] != rows.batch_version:
            self._slots.update()
        # Where rows stay, requests that have stopped on the device have lost their pages there.
        if self._seen[2] != rows.pages_version or rows.keep:
            self._pages.update(rows.width)
        self._seen = versions

    @property
    def moving(self) -> MovingFixed:
        """What changes on the device as requests move on there."""
        return MovingFixed(
            slots=self.slots,
            starts=self.starts,
            kv_lengths=self.kv_lengths,
            firsts=self.firsts,
            pages=self.pages,
            each=self._rows.each,
            dummy_page=self._layout.dummy_page,
            padding_slot=self._layout.slots,
        )


class PackedMirror:
    """The tensors of a `PackedRows` that models and samplers read."""

    def __init__(self, rows: PackedRows, device: torch.device) -> None:
        def to_device(array: NDArray[np.int64]) -> Tensor:
            return torch.from_numpy(array).to(device)

        self.positions = to_device(rows.positions)
        self.write_rows = to_device(rows.write_rows)
        self.row_slots = to_device(rows.row_slots)
        self.slots = to_device(rows.slots)
        self.last_rows = to_device(rows.row_indptr[1:].astype(np.int64) - 1)
