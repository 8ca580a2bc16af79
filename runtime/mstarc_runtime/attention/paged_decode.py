"""Attention by our own kernel where a step has one row a request, and by another backend elsewhere.

The kernel takes a layer's joined product of queries, keys and values before positions are in it. A
step needs no plan: lengths, positions and the page table are read on the device, so that all the
host does is refresh them. Where contexts are long and prompts are shared (`shared_chunk` of the
cache's layout) the kernel attends in two levels.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mstarc_runtime.attention.backend import (
    Attention,
    AttentionBackend,
    JoinedAttention,
    JoinedHeads,
)
from mstarc_runtime.attention.fixed_kernels import FixedKernels, is_served, kernel_of
from mstarc_runtime.attention.levels import MirroredLevel
from mstarc_runtime.attention.mask import FULL, Mask
from mstarc_runtime.kernels.decode_attention import DecodeAttention, cut_of
from mstarc_runtime.kernels.fixed_attention import FixedRowsAttention
from mstarc_runtime.kernels.level_attention import (
    LEAST_BATCH,
    LevelAttention,
    levels_cut_of,
    members_of,
)
from mstarc_runtime.kernels.one_row_attention import OneRowAttention, one_row_cut_of
from mstarc_runtime.kernels.place_heads import place
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.fixed import FixedRows
from mstarc_runtime.kvcache.levels import SharedLevel, most_chunks
from mstarc_runtime.kvcache.mirror import FixedMirror, MirroredTable, PackedMirror, StepMirror
from mstarc_runtime.kvcache.packed import PackedRows
from mstarc_runtime.kvcache.step import StepRows


class PagedDecodeAttention:
    """The backend of one node's cache; `others` does what the kernel does not."""

    row_by_row = False

    def __init__(self, cache: KVCache, others: AttentionBackend) -> None:
        assert cache.device.type == "cuda", "the kernel runs on CUDA devices"
        self.cache = cache
        self.others = others

    def plan_step(self, rows: StepRows, mirror: StepMirror) -> Attention:
        return _Step(self, rows, mirror)

    def plan_packed(self, rows: PackedRows, mirror: PackedMirror, mask: Mask) -> Attention:
        return self.others.plan_packed(rows, mirror, mask)

    def plan_fixed(self, rows: FixedRows, mirror: FixedMirror, mask: Mask) -> Attention:
        return FixedKernels(self.cache, rows, mirror, mask)


class _Step:
    """One bucket."""

    def __init__(self, backend: PagedDecodeAttention, rows: StepRows, mirror: StepMirror) -> None:
        self._backend, self._rows, self._mirror = backend, rows, mirror
        self._pages = MirroredTable(rows.page_table, backend.cache.device)
        self._pages_version = -1
        self._plain: Attention | None = None
        self._kernels: dict[int, FixedRowsAttention] = {}
        self._levels: list[MirroredLevel] = []

    @property
    def pages(self) -> Tensor | None:
        return self._pages.tensor if self._plain is None else None

    def update(self) -> None:
        if self._pages_version != self._rows.pages_version:
            self._pages_version = self._rows.pages_version
            self._pages.update(int(self._rows.page_counts.max()))
        for level in self._levels:
            level.update()
        if self._plain is not None:
            self._plain.update()

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, *, scale: float) -> Tensor:
        if self._plain is None:
            self._plain = self._backend.others.plan_step(self._rows, self._mirror)
            self._plain.update()
        return self._plain.attend(layer, q, k, v, scale=scale)

    def attend_joined(self, layer: int, parts: Sequence[JoinedHeads]) -> Tensor | None:
        cache, heads = self._backend.cache, parts[0]
        if not is_served(cache):
            return None
        attend = self._kernels.get(heads.count)
        if attend is None:
            attend = self._kernels[heads.count] = kernel_of(
                cache, batch=self._rows.bucket, each=1, heads=heads.count, mask=FULL
            )
        q = place(
            parts,
            keys=cache.keys[layer],
            values=cache.values[layer],
            to=self._mirror.write_rows,
        )
        return attend(
            q,
            lengths=self._mirror.kv_lengths,
            firsts=self._mirror.kv_lengths,  # nothing is masked by them
            pages=self._pages.tensor,
            keys=cache.keys[layer],
            values=cache.values[layer],
            scale=heads.scale,
        ).flatten(1)

    def joined(
        self,
        *,
        heads: int,
        angles: tuple[Tensor, Tensor],
        scale: float,
        norms: Sequence[tuple[Tensor, Tensor]] | None = None,
        eps: float = 0.0,
    ) -> JoinedAttention:
        cache, mirror = self._backend.cache, self._mirror
        kernel, more = self._kernel_of(heads)

        def attend(layer: int, qkv: Tensor, out: Tensor, *, turns: Tensor | None = None) -> None:
            kernel(
                qkv,
                out,
                angles=angles,
                positions=mirror.positions if turns is None else turns,
                lengths=mirror.kv_lengths,
                pages=self._pages.tensor,
                keys=cache.keys[layer],
                values=cache.values[layer],
                scale=scale,
                norms=None if norms is None else norms[layer],
                eps=eps,
                are_positions_new=turns is not None,
                **more,
            )

        return attend

    def _kernel_of(
        self, heads: int
    ) -> tuple[DecodeAttention | LevelAttention | OneRowAttention, dict[str, Tensor]]:
        """The launch for so many query heads, and what it is given beside the step's rows."""
        cache, bucket = self._backend.cache, self._rows.bucket
        layout = cache.layout
        sizes: dict[str, Any] = {
            "heads": heads,
            "kv_heads": layout.kv_heads,
            "head_dim": layout.head_dim,
            "page_size": layout.page_size,
            "chained": True,
            "device": torch.device(cache.device),
        }
        if bucket == 1:
            one = one_row_cut_of(
                heads=heads,
                kv_heads=layout.kv_heads,
                head_dim=layout.head_dim,
                page_size=layout.page_size,
                most_rows=layout.max_rows,
            )
            return OneRowAttention(**sizes, cut=one), {}
        sizes["batch"] = bucket
        cut = cut_of(batch=bucket, kv_heads=layout.kv_heads, most_rows=layout.max_rows)
        if not layout.shared_chunk or bucket < LEAST_BATCH:
            return DecodeAttention(**sizes | cut), {}
        members = members_of(heads, layout.kv_heads)
        level = SharedLevel(cache.tables, self._rows, cache.levels, members=members)
        mirrored = MirroredLevel(level, cache.device)
        mirrored.update()
        self._levels.append(mirrored)
        kernel = LevelAttention(
            chunk=layout.shared_chunk,
            most_chunks=most_chunks(layout),
            **sizes | levels_cut_of(cut),
        )
        return kernel, {
            "chunks": mirrored.chunks,
            "task_count": mirrored.task_count,
            "tasks": mirrored.tasks,
        }
