"""The attention of a decoding step with a Llama 3.2 3B's heads, cut in one way or another.

`decode_kernels.py` measures it: `attention_cuts` are what is in use and what a search tries beside
it, `Attention` runs a cut over pages of its own a layer.
"""

import itertools
import random
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch

from mstarc_runtime.kernels.decode_attention import DecodeAttention, cut_of
from mstarc_runtime.kernels.one_row_attention import OneRowAttention, OneRowCut, one_row_cut_of

HEADS, KV_HEADS, HEAD_DIM = 24, 8, 128
CONTEXT = 768
SHARED_BYTES = 220 << 10


def one_row_cuts(*, search: int) -> list[dict[str, int]]:
    used = one_row_cut_of(
        heads=HEADS, kv_heads=KV_HEADS, head_dim=HEAD_DIM, page_size=16, most_rows=4096
    )
    found = [asdict(used)]
    if search:
        for parts, times, warps in itertools.product((8, 16, 32), (4, 8, 16), (1, 2, 4)):
            rows = {"rows": 2 * warps * times, "far_rows": warps * times}
            found.append(found[0] | rows | {"parts": parts, "warps": warps})
        found[1:] = random.Random(1).sample(found[1:], min(search, len(found) - 1))
    return found


def attention_cuts(batch: int, *, search: int) -> list[dict[str, int]]:
    if batch == 1:
        return one_row_cuts(search=search)
    used = cut_of(batch=batch, kv_heads=KV_HEADS, most_rows=4096)
    found, parts = [used], used["parts"]
    if search:
        for count, rows, warps, stages in itertools.product(
            sorted({max(1, parts // 2), parts, parts * 2}), (32, 64, 128), (2, 4, 8), (2, 3, 4, 5)
        ):
            if rows * HEAD_DIM * 4 * stages <= SHARED_BYTES and rows >= warps * 8:
                found.append({"parts": count, "rows": rows, "warps": warps, "stages": stages})
        found[1:] = random.Random(batch).sample(found[1:], min(search, len(found) - 1))
    return found


class Attention:
    """Pages of `LAYERS` layers, mixed up, for `batch` requests of `CONTEXT` rows."""

    LAYERS = 8

    def __init__(self, batch: int) -> None:
        kind = {"dtype": torch.bfloat16, "device": "cuda"}
        per_request = CONTEXT // 16 + 1
        pages = (self.LAYERS, batch * per_request, 16, KV_HEADS, HEAD_DIM)
        self.batch = batch
        self.keys, self.values = torch.randn(pages, **kind), torch.randn(pages, **kind)
        mixed = torch.randperm(batch * per_request, device="cuda")
        self.pages = mixed.int().view(batch, per_request)
        self.lengths = torch.full((batch,), CONTEXT, dtype=torch.int32, device="cuda")
        self.positions = self.lengths.long() - 1
        self.angles = tuple(torch.randn(4096, HEAD_DIM // 2, device="cuda") for _ in range(2))
        self.qkv = torch.randn(batch, (HEADS + 2 * KV_HEADS) * HEAD_DIM, **kind)
        self.out = torch.empty(batch, HEADS * HEAD_DIM, **kind)

    def through(self, cut: dict[str, int]) -> Callable[[], None]:
        """Runs every layer with kernels cut so; calling what comes back runs them again."""
        sizes: dict[str, Any] = {
            "heads": HEADS,
            "kv_heads": KV_HEADS,
            "head_dim": HEAD_DIM,
            "page_size": 16,
            "chained": True,
            "device": torch.device("cuda"),
        }
        attend: OneRowAttention | DecodeAttention
        if self.batch == 1:
            attend = OneRowAttention(cut=OneRowCut(**cut), **sizes)
        else:
            attend = DecodeAttention(batch=self.batch, **sizes, **cut)

        def run() -> None:
            for keys, values in zip(self.keys, self.values, strict=True):
                attend(
                    self.qkv,
                    self.out,
                    angles=self.angles,
                    positions=self.positions,
                    lengths=self.lengths,
                    pages=self.pages,
                    keys=keys,
                    values=values,
                    scale=HEAD_DIM**-0.5,
                )

        run()
        return run
