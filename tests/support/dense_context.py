"""The simplest `KVContext`: whole keys and values of each request, greedy choice.

Meaning without pages, slots or samplers, for tests of model code. One object lives as long as its
requests; `rows` begins a call.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from mstarc_runtime.attention.backend import JoinedHeads


class DenseContext:
    """`requests` sequences side by side. Call `rows` before every op."""

    def __init__(self, requests: int, *, device: str = "cpu") -> None:
        self.batch = requests
        self.device = torch.device(device)
        self.positions = torch.zeros(0, dtype=torch.int64)
        self.last_rows = torch.zeros(0, dtype=torch.int64)
        self._lengths = [0] * requests
        self._counts = [0] * requests
        self._own: dict[int, list[tuple[Tensor, Tensor]]] = {}
        self._cross: dict[tuple[str, int], tuple[Tensor, Tensor]] = {}

    def rows(self, counts: Sequence[int]) -> "DenseContext":
        """The next call writes `counts[i]` rows of request i."""
        assert len(counts) == self.batch
        self._lengths = [n + c for n, c in zip(self._lengths, self._counts, strict=True)]
        self._counts = list(counts)
        spans = [torch.arange(n, n + c) for n, c in zip(self._lengths, counts, strict=True)]
        self.positions = torch.cat(spans)
        self.last_rows = torch.tensor(self._counts).cumsum(0) - 1
        return self

    def attend(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, *, scale: float | None = None
    ) -> Tensor:
        empty = k[:0]
        kept = self._own.setdefault(layer, [(empty, empty)] * self.batch)
        results = []
        for request, (rows_q, rows_k, rows_v) in enumerate(
            zip(*(part.split(self._counts) for part in (q, k, v)), strict=True)
        ):
            old_k, old_v = kept[request]
            kept[request] = torch.cat([old_k, rows_k]), torch.cat([old_v, rows_v])
            new, total = len(rows_q), len(kept[request][0])
            mask = torch.ones(new, total, dtype=torch.bool).tril(total - new)
            results.append(_attend(rows_q, *kept[request], mask, scale))
        return torch.cat(results)

    def attend_joined(self, layer: int, parts: Sequence[JoinedHeads]) -> None:
        """No kernel: part by part."""

    def write_cross(self, layer: int, k: Tensor, v: Tensor, *, context: str) -> None:
        assert (context, layer) not in self._cross, "a cross context is written once"
        self._cross[context, layer] = k, v

    def attend_cross(
        self, layer: int, q: Tensor, *, context: str, scale: float | None = None
    ) -> Tensor:
        keys, values = self._cross[context, layer]
        rows = q.split(self._counts)
        return torch.cat([_attend(r, keys[i], values[i], None, scale) for i, r in enumerate(rows)])

    def observe(self, ids: Tensor, *, sampler: str = "default") -> None:
        """Nothing to know: the choice is greedy and without a penalty."""

    def sample(self, logits: Tensor, *, sampler: str = "default") -> Tensor:
        return logits.argmax(-1)


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
    q, k, v = (part.transpose(0, 1) for part in (q, k, v))
    attended = F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, scale=scale, enable_gqa=q.shape[0] != k.shape[0]
    )
    return attended.transpose(0, 1)
