"""Contexts whose pages are in host memory, so that others may have the device's.

A slot's contexts go and come back together, each page once however many of them share it. On a GPU
the memory is pinned, and nobody waits for the copy that fills it until the rows are wanted again:
the device reads a page before whoever has it next writes it.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from mstarc_runtime.kvcache.tables import PageTables, TakenOut


@dataclass(slots=True, kw_only=True)
class Aside:
    """One slot's contexts: `rows` [2, layers, pages, page_size, kv_heads, head_dim] on the host,
    once `copied` has come."""

    taken: TakenOut
    rows: Tensor
    copied: torch.cuda.Event | None = None

    def wait(self) -> None:
        """Until the rows are there."""
        if self.copied is not None:
            self.copied.synchronize()

    @property
    def pages(self) -> int:
        """Pages of the pool that they take when they come back."""
        places = self.taken.places.values()
        return len({page for place in places for page in place.tolist()})

    def length(self, key: int) -> int:
        """Rows of a context, 0 for one that is not here."""
        return self.taken.states.get(key, (0, 0, 0))[0] if key in self.taken.places else 0

    def position(self, key: int) -> int:
        return self.taken.states[key][1]

    def rows_of(self, key: int) -> Tensor:
        """[2, layers, rows, kv_heads, head_dim]"""
        self.wait()
        pages = self.rows.index_select(2, torch.from_numpy(self.taken.places[key]))
        return pages.flatten(2, 3)[:, :, : self.length(key)]

    def drop(self, key: int) -> None:
        """A context that is emptied where it is."""
        places = {other: place for other, place in self.taken.places.items() if other != key}
        self.taken = replace(self.taken, places=places)


def set_aside(tables: PageTables, slot: int, keys: Tensor, values: Tensor) -> Aside:
    """Copies a slot's pages to the host and frees them. `keys`, `values`: the pool's tensors."""
    taken = tables.held_by(_keys_of(tables, slot))
    pages = torch.from_numpy(taken.pages.astype(np.int64)).to(keys.device)
    rows = torch.stack([keys.index_select(1, pages), values.index_select(1, pages)])
    copied = None
    if rows.device.type != "cpu":
        pinned = torch.empty(rows.shape, dtype=rows.dtype, pin_memory=True)
        rows = pinned.copy_(rows, non_blocking=True)
        copied = torch.cuda.Event()
        copied.record(torch.cuda.current_stream(keys.device))
    tables.release(_keys_of(tables, slot))
    return Aside(taken=taken, rows=rows, copied=copied)


def bring_back(tables: PageTables, aside: Aside, keys: Tensor, values: Tensor) -> None:
    """Puts them on pages again. Raises OutOfPages, and then nothing was changed."""
    pages = tables.put_back(aside.taken)
    aside.wait()
    wanted = np.flatnonzero(pages != tables.layout.dummy_page)
    targets = torch.from_numpy(pages[wanted].astype(np.int64)).to(keys.device)
    rows = aside.rows
    if wanted.size != pages.size:
        rows = rows.index_select(2, torch.from_numpy(wanted))
    rows = rows.to(keys.device, non_blocking=True)
    keys.index_copy_(1, targets, rows[0])
    values.index_copy_(1, targets, rows[1])


def _keys_of(tables: PageTables, slot: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    count = len(tables.layout.contexts)
    return np.arange(slot * count, (slot + 1) * count, dtype=np.int64)
