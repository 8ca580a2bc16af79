"""Chunks of prompts that requests hold together are read once, and nothing else changes."""

import numpy as np
import pytest
import torch
from torch import Tensor

from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.layout import CacheLayout
from mstarc_runtime.kvcache.levels import SharedLevel, most_chunks

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# The interpreter multiplies no bfloat16.
DTYPE = torch.bfloat16 if DEVICE.type == "cuda" else torch.float32
HEADS, KV_HEADS, WIDTH, PAGE, CHUNK, BUCKET = 6, 2, 64, 16, 64, 8
MOST = 384


class Requests:
    """A cache in which slots 1 to 4 begin with pages of slot 0, and 5 and 6 with their own."""

    def __init__(self) -> None:
        generator = torch.Generator(DEVICE).manual_seed(3)
        layout = CacheLayout(
            layers=1,
            kv_heads=KV_HEADS,
            head_dim=WIDTH,
            pages=120,
            page_size=PAGE,
            slots=8,
            max_rows=MOST,
            shared_chunk=CHUNK,
        )
        self.cache = KVCache(layout, dtype=DTYPE, device=DEVICE)
        for pool in (self.cache.keys, self.cache.values):
            pool.copy_(torch.randn(pool.shape, generator=generator, device=DEVICE))
        tables = self.cache.tables
        for slot, shared, rows, prompt in (
            (0, 0, 300, 256), (1, 256, 20, 256), (2, 128, 60, 176), (3, 192, 1, 192),
            (4, 256, 90, 256), (5, 0, 70, 64), (6, 0, 33, 0),
        ):  # fmt: skip
            key = np.array([slot])
            if shared:
                tables.adopt(slot, tables.table[0, : shared // PAGE].copy())
            self.cache.ensure(key, rows)
            self.cache.advance(key, rows)
            tables.prompts[slot] = prompt
        shape = (7, (HEADS + 2 * KV_HEADS) * WIDTH)
        self.qkv = torch.randn(shape, generator=generator, device=DEVICE).to(DTYPE)
        angles = torch.randn(MOST, WIDTH // 2, generator=generator, device=DEVICE)
        self.angles = (angles.cos(), angles.sin())

    def step(self, slots: list[int], parts: int) -> tuple[Tensor, SharedLevel]:
        """What the kernel gives for the slots' next rows, which are taken back."""
        from mstarc_runtime.kernels.level_attention import LevelAttention, members_of

        cache = self.cache
        rows = cache.step_rows(BUCKET, "main")
        level = SharedLevel(
            cache.tables, rows, cache.levels, members=min(3, members_of(HEADS, KV_HEADS))
        )
        given = np.array(slots)
        rows.prepare(given)
        level.update()

        def moved(array: np.ndarray) -> Tensor:
            return torch.from_numpy(array.copy()).to(DEVICE)

        qkv = torch.full((BUCKET, self.qkv.shape[1]), float("nan"), device=DEVICE).to(DTYPE)
        qkv[: len(slots)] = self.qkv[slots]
        attend = LevelAttention(
            batch=BUCKET,
            heads=HEADS,
            kv_heads=KV_HEADS,
            head_dim=WIDTH,
            page_size=PAGE,
            chunk=CHUNK,
            most_chunks=most_chunks(cache.layout),
            parts=parts,
            rows=32,
            warps=4,
            chained=DEVICE.type == "cuda",
            device=DEVICE,
        )
        attend.members = level.members
        out = torch.full((BUCKET, HEADS * WIDTH), float("nan"), device=DEVICE).to(DTYPE)
        for _ in range(2):  # counters are back at zero
            attend(
                qkv,
                out,
                angles=self.angles,
                positions=moved(rows.positions),
                lengths=moved(rows.kv_lengths),
                pages=moved(rows.page_table),
                keys=cache.keys[0],
                values=cache.values[0],
                scale=WIDTH**-0.5,
                chunks=moved(level.chunks),
                task_count=moved(level.task_count),
                tasks=moved(level.tasks),
            )
            assert not attend.arrived.any()
        cache.advance(given, -1)
        return out[: len(slots)], level

    def wanted(self, slot: int) -> Tensor:
        """Plain attention of a slot's next row, whose keys and values the kernel has written."""
        length = int(self.cache.tables.lengths[slot]) + 1
        at = np.arange(length)
        index = self.cache.tables.table[slot, at // PAGE].astype(np.int64) * PAGE + at % PAGE
        keys, values = (
            pool[0, torch.from_numpy(index).to(DEVICE)].float()
            for pool in (self.cache.key_rows, self.cache.value_rows)
        )
        first, second = self.qkv[slot].view(-1, WIDTH)[:HEADS].float().chunk(2, -1)
        cosine, sine = (table[length - 1] for table in self.angles)
        q = torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)
        q = q.to(DTYPE).float().view(KV_HEADS, HEADS // KV_HEADS, WIDTH)
        scores = torch.einsum("hgd,thd->hgt", q, keys) * WIDTH**-0.5
        return torch.einsum("hgt,thd->hgd", scores.softmax(-1), values).reshape(-1)


@pytest.mark.parametrize("parts", [1, 3])
def test_rows_are_those_of_plain_attention(parts: int) -> None:
    requests = Requests()
    slots = [6, 0, 1, 5, 2, 3, 4]
    made, level = requests.step(slots, parts)
    for row, slot in enumerate(slots):
        expected = requests.wanted(slot)
        assert (made[row].float() - expected).norm() / expected.norm() < 1e-2, slot
    assert level.chunks[:7].tolist() == [0, 4, 4, 1, 2, 3, 4]
    counts = requests.cache.levels
    assert (counts.attended_rows, counts.read_rows) == (18 * CHUNK, 5 * CHUNK)


@pytest.mark.parametrize("parts", [1, 3])
def test_a_row_depends_on_its_bucket_alone(parts: int) -> None:
    requests = Requests()
    slots = [1, 0, 4, 5, 3, 2, 6]
    together, _ = requests.step(slots, parts)
    for slot in (1, 5, 6):
        alone, _ = requests.step([slot], parts)
        assert torch.equal(alone[0], together[slots.index(slot)]), slot
    fewer, _ = requests.step([4, 2, 3], parts)
    assert torch.equal(fewer[1], together[5])
