"""Weights of a reference model in one of ours, and caches to run it on."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from mstarc_runtime.attention.torch_reference import TorchAttention
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.layout import CacheLayout

CPU = torch.device("cpu")


@torch.no_grad()
def fill(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Every parameter of `module` from `state`, by the module's own weight map."""
    names_of = module.weight_map()  # type: ignore[operator]
    parameters = dict(module.named_parameters())
    assert set(names_of) == set(parameters)
    for own, names in names_of.items():
        parts = [state[name] for name in ((names,) if isinstance(names, str) else names)]
        value = torch.cat(parts) if len(parts) > 1 else parts[0]
        assert value.shape == parameters[own].shape, own
        parameters[own].copy_(value)


def cache_for(
    *,
    layers: int,
    kv_heads: int,
    head_dim: int,
    slots: int = 8,
    page_size: int = 4,
    max_rows: int = 128,
    row_by_row: bool = True,
    contexts: tuple[str, ...] = ("main",),
    cross: Mapping[str, int] | None = None,
) -> tuple[KVCache, TorchAttention]:
    """A float32 cache on the CPU with room for all slots, and reference attention over it."""
    layout = CacheLayout(
        layers=layers,
        kv_heads=kv_heads,
        head_dim=head_dim,
        pages=slots * len(contexts) * -(-max_rows // page_size),
        page_size=page_size,
        slots=slots,
        max_rows=max_rows,
        contexts=contexts,
        cross=cross or {},
    )
    cache = KVCache(layout, dtype=torch.float32, device=CPU)
    return cache, TorchAttention(cache, row_by_row=row_by_row)


def relative_error(found: Tensor, wanted: Tensor) -> float:
    """The length of the difference over the length of what is wanted."""
    assert found.shape == wanted.shape, f"{list(found.shape)} is not {list(wanted.shape)}"
    difference = (found.double() - wanted.double()).norm()
    return float(difference / wanted.double().norm())
