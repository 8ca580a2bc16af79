"""Rows that a device goes through by itself: counted at once as they would be one by one."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.layout import CacheLayout

PAGE = 4


def made(lengths: list[int]) -> KVCache:
    """A cache whose slots hold so many rows each."""
    layout = CacheLayout(
        layers=1, kv_heads=1, head_dim=4, pages=200, page_size=PAGE, slots=4, max_rows=120
    )
    cache = KVCache(layout, dtype=torch.float32, device=torch.device("cpu"))
    for slot, length in enumerate(lengths):
        if length:
            key = np.array([cache.key(slot, "main")])
            cache.ensure(key, length)
            cache.advance(key, length)
    return cache


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 19), min_size=3, max_size=3),
    stretches=st.lists(st.integers(1, 7), min_size=1, max_size=10),
)
def test_a_stretch_counts_as_its_passes(lengths: list[int], stretches: list[int]) -> None:
    together, singly = made(lengths), made(lengths)
    slots = np.arange(3)
    rows, each = together.step_rows(4, "main"), singly.step_rows(4, "main")
    for passes in stretches:
        rows.prepare(slots, passes)
        first = [rows.positions.copy(), rows.kv_lengths.copy(), rows.last_page_lengths.copy()]
        if passes > 1:
            rows.skip(passes - 1)
        for number in range(passes):
            each.prepare(slots)
            if number == 0:
                now = [each.positions, each.kv_lengths, each.last_page_lengths]
                assert all(map(np.array_equal, first, now))
        assert np.array_equal(together.tables.state, singly.tables.state)
        for name in ("positions", "kv_lengths", "last_page_lengths", "write_offsets"):
            assert np.array_equal(getattr(rows, name), getattr(each, name)), name
        for slot, offset in enumerate(rows.write_offsets[:3].tolist()):
            held = together.tables.table[together.key(slot, "main"), : offset // PAGE + 1]
            assert np.array_equal(rows.page_table[slot, : held.size], held)
            assert rows.write_rows[slot] == held[-1] * PAGE + offset % PAGE
