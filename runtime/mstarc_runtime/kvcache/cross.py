"""A cross-attention context: rows that are written once a request and then only read.

They are dense, one run of rows a slot: all of them are attended in every step and none is ever
appended, so pages would only cost a gather.
"""

import torch
from torch import Tensor

from mstarc_runtime.kvcache.layout import CacheLayout


class CrossContext:
    """`keys` and `values` are [layers, slots + 1, rows, kv_heads, head_dim]; padding has the last
    slot. `lengths` i64[slots + 1] is on the device, so that a captured region may read it."""

    def __init__(
        self, layout: CacheLayout, *, rows: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        shape = (layout.layers, layout.slots + 1, rows, layout.kv_heads, layout.head_dim)
        self.rows = rows
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        self.lengths = torch.ones(layout.slots + 1, dtype=torch.int64, device=device)
        # The same on the host, for code that isn't captured.
        self.host_lengths = [1] * (layout.slots + 1)
        self._written: set[tuple[int, int]] = set()

    def write(self, layer: int, slots: Tensor, host_slots: list[int], k: Tensor, v: Tensor) -> None:
        """Writes [B, N, kv_heads, head_dim] for `slots` i64[B] (the same as `host_slots`)."""
        count = k.shape[1]
        assert count <= self.rows, f"{count} rows in a cross context of {self.rows}"
        padding = len(self.host_lengths) - 1
        for slot in host_slots:
            assert slot == padding or (layer, slot) not in self._written, (
                f"layer {layer} of a cross context was written twice for slot {slot}"
            )
            if slot != padding:
                self._written.add((layer, slot))
                self.host_lengths[slot] = count
        self.keys[layer, :, :count].index_copy_(0, slots, k)
        self.values[layer, :, :count].index_copy_(0, slots, v)
        self.lengths.index_fill_(0, slots, count)

    def holds(self, slot: int) -> bool:
        """Whether anything is written for a slot."""
        return any(written[1] == slot for written in self._written)

    def rows_of(self, slot: int) -> Tensor:
        """A copy of what is written for a slot: [2, layers, rows, kv_heads, head_dim]."""
        count = self.host_lengths[slot]
        return torch.stack([self.keys[:, slot, :count], self.values[:, slot, :count]])

    def fill(self, slot: int, rows: Tensor) -> None:
        """Writes all layers of a slot, as `rows_of` gives them."""
        index = torch.tensor([slot], device=rows.device)
        for layer in range(rows.shape[1]):
            self.write(layer, index, [slot], rows[0, layer][None], rows[1, layer][None])

    def release(self, slot: int) -> None:
        """Lets the rows of a slot be written again."""
        self._written = {written for written in self._written if written[1] != slot}
