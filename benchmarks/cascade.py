"""What it saves to read rows of prompts that requests share once, measured on the GPU at hand.

A layer's decode attention at the sizes of Llama 3.2 3B, for requests that begin with the same rows
and have some of their own: attended one by one, then in two levels; so too where nobody shares
anything, which is what idle blocks for tasks cost. Then a packed call of a few rows each by
FlashInfer, where it is there. A layer's pages are one of several copies, so that no cache holds
them from layer to layer.

    python benchmarks/cascade.py [--prefixes 1024 4096 16384] [--batches 8 32] [--json FILE]
"""

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mstarc_runtime.attention.flashinfer import FlashInferAttention
from mstarc_runtime.attention.levels import MirroredLevel
from mstarc_runtime.engine.packed_context import PackedContext
from mstarc_runtime.kernels.decode_attention import DecodeAttention, cut_of
from mstarc_runtime.kernels.level_attention import LevelAttention, levels_cut_of, members_of
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.layout import CacheLayout
from mstarc_runtime.kvcache.levels import SharedLevel, chunk_of, most_chunks

HEADS, KV_HEADS, HEAD_DIM, PAGE = 24, 8, 128, 16
OWN_ROWS = 256
LAYERS = 4
DEVICE = torch.device("cuda")


class Requests:
    """`batch` requests of `prefix` rows, the same pages or pages of their own, and `OWN_ROWS`."""

    def __init__(self, batch: int, prefix: int, *, are_shared: bool) -> None:
        self.batch, self.prefix = batch, prefix
        most = prefix + OWN_ROWS + 64
        held = (1 if are_shared else batch) * prefix + batch * (OWN_ROWS + 64)
        self.cache = KVCache(
            CacheLayout(
                layers=LAYERS,
                kv_heads=KV_HEADS,
                head_dim=HEAD_DIM,
                pages=held // PAGE + 2 * batch,
                page_size=PAGE,
                slots=batch,
                max_rows=most,
                shared_chunk=chunk_of(most, PAGE, "on"),
            ),
            dtype=torch.bfloat16,
            device=DEVICE,
        )
        self.cache.keys.normal_()
        self.cache.values.normal_()
        tables = self.cache.tables
        for slot in range(batch):
            key, rows = np.array([slot]), prefix
            if slot and are_shared:
                tables.adopt(slot, tables.table[0, : prefix // PAGE].copy())
                rows = 0
            self.cache.ensure(key, rows + OWN_ROWS)
            self.cache.advance(key, rows + OWN_ROWS)
            tables.prompts[slot] = prefix

    def step_us(self, *, in_levels: bool) -> float:
        """µs of a layer."""
        cache, layout = self.cache, self.cache.layout
        rows = cache.step_rows(self.batch, "main", ordinal=int(in_levels))
        rows.prepare(np.arange(self.batch))
        cut = cut_of(batch=self.batch, kv_heads=KV_HEADS, most_rows=layout.max_rows)
        sizes: dict[str, Any] = {
            "batch": self.batch,
            "heads": HEADS,
            "kv_heads": KV_HEADS,
            "head_dim": HEAD_DIM,
            "page_size": PAGE,
            "chained": True,
            "device": DEVICE,
        }
        kernel: Callable[..., None] = DecodeAttention(**sizes, **cut)
        more = {}
        if in_levels:
            members = members_of(HEADS, KV_HEADS)
            level = MirroredLevel(
                SharedLevel(cache.tables, rows, cache.levels, members=members), DEVICE
            )
            level.update()
            kernel = LevelAttention(
                chunk=layout.shared_chunk,
                most_chunks=most_chunks(layout),
                **sizes,
                **levels_cut_of(cut),
            )
            more = {"chunks": level.chunks, "task_count": level.task_count, "tasks": level.tasks}
        qkv = torch.randn(self.batch, (HEADS + 2 * KV_HEADS) * HEAD_DIM, device=DEVICE).bfloat16()
        out = torch.empty(self.batch, HEADS * HEAD_DIM, device=DEVICE, dtype=torch.bfloat16)
        given = {
            "angles": tuple(
                torch.randn(layout.max_rows, HEAD_DIM // 2, device=DEVICE) for _ in range(2)
            ),
            "positions": torch.from_numpy(rows.positions).to(DEVICE),
            "lengths": torch.from_numpy(rows.kv_lengths).to(DEVICE),
            "pages": torch.from_numpy(rows.page_table).to(DEVICE),
            "scale": HEAD_DIM**-0.5,
            **more,
        }

        def run() -> None:
            for layer in range(LAYERS):
                kernel(qkv, out, keys=cache.keys[layer], values=cache.values[layer], **given)

        return graph_us(run) / LAYERS

    def prompts_us(self, count: int, *, in_levels: bool) -> float:
        """µs of a layer of a packed call of `count` further rows a request."""
        call = PackedContext(
            cache=self.cache,
            backend=FlashInferAttention(self.cache, levels=in_levels),
            samplers={},
            slots=np.arange(self.batch),
            counts=np.full(self.batch, count),
            keep=False,
        )
        heads = (HEADS, KV_HEADS, KV_HEADS)
        q, k, v = (
            torch.randn(self.batch * count, n, HEAD_DIM, device=DEVICE).bfloat16() for n in heads
        )

        def run() -> None:
            for layer in range(LAYERS):
                call.attend(layer, q, k, v)

        return eager_us(run) / LAYERS


def graph_us(run: Callable[[], None]) -> float:
    """µs of `run`, captured once and replayed: the median."""
    stream = torch.cuda.Stream()
    # What `run` reads may still be in the making on the stream that is left here.
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        run()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            run()
        return _median_us(graph.replay, stream)


def eager_us(run: Callable[[], None]) -> float:
    run()
    torch.cuda.synchronize()
    return _median_us(run, torch.cuda.current_stream())


def _median_us(run: Callable[[], None], stream: torch.cuda.Stream) -> float:
    times = []
    for _ in range(9):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record(stream)
        run()
        end.record(stream)
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times[2:]) * 1e3


def measured(prefixes: list[int], batches: list[int]) -> Iterator[dict[str, Any]]:
    """A row of the table each."""
    for prefix in prefixes:
        for batch in batches:
            for are_shared in (True, False):
                if not are_shared and batch * prefix > 1 << 18:
                    continue  # more than the GPU holds beside the others
                requests = Requests(batch, prefix, are_shared=are_shared)
                for what, us in (
                    ("step", requests.step_us),
                    (
                        "prompts",
                        lambda in_levels, r=requests: r.prompts_us(16, in_levels=in_levels),
                    ),
                ):
                    apart, together = us(in_levels=False), us(in_levels=True)
                    yield {
                        "what": what,
                        "prefix": prefix,
                        "batch": batch,
                        "shared": are_shared,
                        "apart_us": round(apart, 2),
                        "together_us": round(together, 2),
                        "ratio": round(apart / together, 2),
                    }
                del requests
                torch.cuda.empty_cache()


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures attention in two levels.")
    parser.add_argument("--prefixes", type=int, nargs="+", default=[1024, 4096, 16384])
    parser.add_argument("--batches", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for row in measured(options.prefixes, options.batches):
        rows.append(row)
        print(
            f"{row['what']:8} prefix {row['prefix']:6} batch {row['batch']:3} "
            f"{'shared' if row['shared'] else 'apart ':6}: one by one {row['apart_us']:9.2f} µs, "
            f"in levels {row['together_us']:9.2f} µs, ratio {row['ratio']:.2f}",
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
