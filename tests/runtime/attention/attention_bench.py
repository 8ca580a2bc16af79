"""A cache and a backend at some sizes, beside dense attention over lists of what they hold."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mstarc_runtime.attention.backend import AttentionBackend
from mstarc_runtime.attention.mask import CAUSAL, FULL, Mask, visible_rows
from mstarc_runtime.attention.torch_reference import TorchAttention
from mstarc_runtime.engine.context import StepContext
from mstarc_runtime.engine.packed_context import PackedContext
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.layout import CacheLayout

LAYERS = 2
SLOTS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A backend on a device, and the sizes that it is tried at."""

    backend: str
    device: str = "cpu"
    dtype: torch.dtype = torch.float32
    heads: int = 6
    kv_heads: int = 2
    head_dim: int = 16
    page_size: int = 4

    @property
    def tolerance(self) -> float:
        return 1e-5 if self.dtype == torch.float32 else 2e-2


def flashinfer_settings(*sizes: tuple[int, int, int]) -> list[Any]:
    """FlashInfer with these (query heads, key-value heads, width of a head), on a GPU."""
    return [
        pytest.param(
            Setting(
                backend="flashinfer",
                device="cuda",
                dtype=torch.bfloat16,
                heads=heads,
                kv_heads=kv_heads,
                head_dim=head_dim,
                page_size=page_size,
            ),
            id=f"flashinfer-{heads}-{kv_heads}-{head_dim}-{page_size}",
            marks=pytest.mark.gpu,
        )
        for heads, kv_heads, head_dim in sizes
        for page_size in (1, 16)
    ]


class Bench:
    """A cache and backend beside plain lists of what each context should hold."""

    def __init__(
        self,
        setting: Setting,
        *,
        contexts: tuple[str, ...] = ("main",),
        cross: Mapping[str, int] | None = None,
        max_rows: int = 96,
        shared_chunk: int = 0,
    ) -> None:
        if setting.device == "cuda" and not torch.cuda.is_available():
            pytest.skip("no CUDA device")
        self.setting = setting
        self.device = torch.device(setting.device)
        layout = CacheLayout(
            layers=LAYERS,
            kv_heads=setting.kv_heads,
            head_dim=setting.head_dim,
            pages=SLOTS * len(contexts) * -(-max_rows // setting.page_size),
            page_size=setting.page_size,
            slots=SLOTS,
            max_rows=max_rows,
            contexts=contexts,
            cross=cross or {},
            shared_chunk=shared_chunk,
        )
        self.cache = KVCache(layout, dtype=setting.dtype, device=self.device)
        self.poison()
        self.backend = self._backend()
        self.generator = torch.Generator().manual_seed(5)
        self.rows: dict[tuple[int, str, int], list[tuple[Tensor, Tensor]]] = {}
        self._steps: dict[tuple[int, str], StepContext] = {}

    def _backend(self) -> AttentionBackend:
        if self.setting.backend == "flashinfer":
            from mstarc_runtime.attention.flashinfer import FlashInferAttention

            return FlashInferAttention(self.cache)
        if self.setting.backend == "levels":
            return TorchAttention(self.cache, row_by_row=False, levels=True)
        return TorchAttention(self.cache, row_by_row=self.setting.backend == "row-by-row")

    def poison(self) -> None:
        """What nobody has written must not be seen, whatever it is."""
        if self.setting.backend != "flashinfer":
            self.cache.keys.fill_(float("nan"))
            self.cache.values.fill_(float("nan"))
        else:
            # FlashInfer reads whole pages and multiplies by a zero weight: finite, but loud.
            self.cache.keys.fill_(100.0)
            self.cache.values.fill_(1000.0)

    def random(self, *shape: int) -> Tensor:
        made = torch.randn(*shape, generator=self.generator)
        return made.to(self.device, self.setting.dtype)

    def qkv(self, rows: int) -> tuple[Tensor, Tensor, Tensor]:
        """As a model makes them: cut from one projection, so not contiguous."""
        setting = self.setting
        heads = setting.heads + 2 * setting.kv_heads
        whole = self.random(rows, heads, setting.head_dim)
        keys = setting.heads + setting.kv_heads
        return whole[:, : setting.heads], whole[:, setting.heads : keys], whole[:, keys:]

    def packed(
        self,
        slots: list[int],
        counts: list[int],
        *,
        context: str = "main",
        mask: Mask = CAUSAL,
        keep: bool = True,
    ) -> None:
        """A packed call on all layers, compared."""
        call = PackedContext(
            cache=self.cache,
            backend=self.backend,
            samplers={},
            slots=np.array(slots),
            counts=np.array(counts),
            context=context,
            mask=mask,
            keep=keep,
        )
        assert call.last_rows.tolist() == (np.cumsum(counts) - 1).tolist()
        for layer in range(LAYERS):
            q, k, v = self.qkv(sum(counts))
            made = call.attend(layer, q, k, v)
            start = 0
            for slot, count in zip(slots, counts, strict=True):
                own = slice(start, start + count)
                self.compare(made[own], layer, slot, context, q[own], k[own], v[own], mask, keep)
                start += count

    def step(
        self, slots: np.ndarray, *, bucket: int = 8, context: str = "main", keep: bool = True
    ) -> Tensor:
        """A step on all layers, compared. Returns what the last layer gave."""
        found = self._steps.get((bucket, f"{context}{keep}"))
        if found is None:
            found = StepContext(
                cache=self.cache,
                backend=self.backend,
                samplers={},
                bucket=bucket,
                context=context,
                keep=keep,
            )
            self._steps[bucket, f"{context}{keep}"] = found
        found.prepare(slots)
        for layer in range(LAYERS):
            q, k, v = self.qkv(bucket)
            made = found.attend(layer, q, k, v)
            for row, slot in enumerate(slots.tolist()):
                own = slice(row, row + 1)
                self.compare(made[own], layer, slot, context, q[own], k[own], v[own], FULL, keep)
        return made

    def compare(
        self,
        made: Tensor,
        layer: int,
        slot: int,
        context: str,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Mask,
        keep: bool,
    ) -> None:
        held = self.rows.setdefault((slot, context, layer), [])
        rows = [*held, *zip(k, v, strict=True)]
        indices = np.arange(len(held), len(rows))
        visible = torch.from_numpy(visible_rows(indices, len(rows), mask)).to(self.device)
        keys = torch.stack([row[0] for row in rows]).float()
        values = torch.stack([row[1] for row in rows]).float()
        expected = dense(q.float(), keys, values, visible)
        tolerance = self.setting.tolerance
        torch.testing.assert_close(made.float(), expected, rtol=tolerance, atol=tolerance)
        if keep:
            held += zip(k, v, strict=True)

    def fork(self, slot: int, source: str, target: str) -> None:
        self.cache.fork(slot, source, target)
        for layer in range(LAYERS):
            self.rows[slot, target, layer] = list(self.rows[slot, source, layer])

    def adopt(self, slot: int, source: int, rows: int) -> None:
        """Lets a slot begin with full pages of another one, as prompts that are shared do."""
        pages = self.cache.tables.table[source, : rows // self.setting.page_size].copy()
        self.cache.tables.adopt(slot, pages)
        for layer in range(LAYERS):
            self.rows[slot, "main", layer] = list(self.rows[source, "main", layer][:rows])

    def release(self, slot: int) -> None:
        self.cache.release_slot(slot)
        for key in [key for key in self.rows if key[0] == slot]:
            del self.rows[key]


def dense(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = torch.einsum("thd,shd->hts", q, k) * q.shape[-1] ** -0.5
    weights = scores.masked_fill(~visible, float("-inf")).softmax(-1)
    return torch.einsum("hts,shd->thd", weights, v)
