"""Who chooses the attention of a cache."""

from typing import Protocol

from mstarc_runtime.attention.backend import AttentionBackend
from mstarc_runtime.attention.torch_reference import TorchAttention
from mstarc_runtime.kvcache.cache import KVCache


class BackendMaker(Protocol):
    """Chooses the attention of a cache."""

    def __call__(self, cache: KVCache) -> AttentionBackend: ...


def reference_attention(cache: KVCache) -> AttentionBackend:
    """Plain torch: row by row on a CPU, all at once elsewhere."""
    return TorchAttention(cache, row_by_row=cache.device.type == "cpu")
