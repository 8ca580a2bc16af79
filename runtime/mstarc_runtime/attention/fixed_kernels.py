"""Attention of calls with as many rows a request by our own kernels; GPUs only.

No plan is made: lengths and pages are read on the device, so that a captured call is replayed as it
is. What the kernels do not serve (float32, heads of odd widths) plain torch does.
"""

from collections.abc import Sequence

from torch import Tensor

from mstarc_runtime.attention.backend import JoinedHeads, Placing
from mstarc_runtime.attention.fixed_rows import FixedAttention
from mstarc_runtime.attention.mask import Mask
from mstarc_runtime.kernels.fixed_attention import FixedRowsAttention
from mstarc_runtime.kernels.place_heads import Behind, place
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.fixed import FixedRows
from mstarc_runtime.kvcache.mirror import FixedMirror

_WIDTHS = (32, 64, 128, 256)


class FixedKernels:
    """The plan of one bucket."""

    def __init__(self, cache: KVCache, rows: FixedRows, mirror: FixedMirror, mask: Mask) -> None:
        self._cache = cache
        self._rows = rows
        self._mirror = mirror
        self._mask = mask
        self._plain = FixedAttention(cache, rows, mirror, mask, row_by_row=False)
        self._is_served = is_served(cache)
        self._kernels: dict[tuple[int, bool], FixedRowsAttention] = {}

    def update(self) -> None:
        """The mirror is all that changes."""

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, *, scale: float) -> Tensor:
        if not self._is_served:
            return self._plain.attend(layer, q, k, v, scale=scale)
        self._plain.append(layer, k, v)
        return self._attended(layer, q.contiguous(), scale)

    def attend_joined(self, layer: int, parts: Sequence[JoinedHeads]) -> Tensor | None:
        if not self._is_served:
            return None
        q = place(
            parts,
            keys=self._cache.keys[layer],
            values=self._cache.values[layer],
            to=Behind(
                pages=self._mirror.pages,
                lengths=self._mirror.kv_lengths,
                firsts=self._mirror.firsts,
                each=self._rows.each,
                dummy_page=self._cache.layout.dummy_page,
            ),
        )
        return self._attended(layer, q, parts[0].scale).flatten(1)

    def placing(self, layer: int) -> Placing | None:
        if not self._is_served:
            return None
        return Placing(
            keys=self._cache.keys[layer],
            values=self._cache.values[layer],
            pages=self._mirror.pages,
            lengths=self._mirror.kv_lengths,
        )

    def attend_placed(self, layer: int, q: Tensor, *, scale: float) -> Tensor:
        return self._attended(layer, q, scale, chained=True)

    def _attended(self, layer: int, q: Tensor, scale: float, *, chained: bool = False) -> Tensor:
        attend = self._kernels.get((q.shape[1], chained))
        if attend is None:
            attend = self._kernels[(q.shape[1], chained)] = kernel_of(
                self._cache,
                batch=self._rows.bucket,
                each=self._rows.each,
                heads=q.shape[1],
                mask=self._mask,
                chained=chained,
            )
        return attend(
            q,
            lengths=self._mirror.kv_lengths,
            firsts=self._mirror.firsts,
            pages=self._mirror.pages,
            keys=self._cache.keys[layer],
            values=self._cache.values[layer],
            scale=scale,
        )


def is_served(cache: KVCache) -> bool:
    """Whether the kernels take heads of a cache."""
    return cache.dtype.itemsize == 2 and cache.layout.head_dim in _WIDTHS


def kernel_of(
    cache: KVCache, *, batch: int, each: int, heads: int, mask: Mask, chained: bool = False
) -> FixedRowsAttention:
    """The launch of `each` rows of `heads` query heads for each of `batch` requests."""
    layout = cache.layout
    return FixedRowsAttention(
        batch=batch,
        each=each,
        heads=heads,
        kv_heads=layout.kv_heads,
        head_dim=layout.head_dim,
        page_size=layout.page_size,
        mask=mask,
        device=cache.device,
        chained=chained,
    )
