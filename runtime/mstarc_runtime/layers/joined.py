"""Attention of joined products of queries, keys and values: by one kernel, or part by part."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from mstarc_runtime.attention.backend import JoinedHeads
from mstarc_runtime.engine.context import KVContext


def attend_joined(ctx: KVContext, layer: int, parts: Sequence[JoinedHeads]) -> Tensor:
    """What the rows of a call attend, keys and values being appended: [R, Hq D].

    `parts` are joined products that are together all its rows.
    """
    attended = ctx.attend_joined(layer, parts)
    if attended is not None:
        return attended
    ready = [_ready(part) for part in parts]
    if len(parts) > 1:
        at = torch.cat([part.at for part in parts if part.at is not None])
        joined = (torch.cat(same) for same in zip(*ready, strict=True))
        q, k, v = (torch.empty_like(rows).index_copy_(0, at, rows) for rows in joined)
    else:
        ((q, k, v),) = ready
    return ctx.attend(layer, q, k, v, scale=parts[0].scale).flatten(1)


def _ready(part: JoinedHeads) -> tuple[Tensor, Tensor, Tensor]:
    """Queries [r, Hq, D], keys and values [r, Hkv, D]."""
    width = part.turns[0].shape[-1]
    heads = part.qkv.unflatten(-1, (-1, width))
    kv_heads = (heads.shape[1] - part.count) // 2
    q, k, v = heads.split((part.count, kv_heads, kv_heads), dim=1)
    if part.norms is not None:
        q, k = (
            functional.rms_norm(rows, (width,), weight, part.eps)
            for rows, weight in zip((q, k), part.norms, strict=True)
        )
    return _turned(q, part), _turned(k, part), v.contiguous()


def _turned(x: Tensor, part: JoinedHeads) -> Tensor:
    """`x` [r, H, D] in its dtype, turned by the rows' angles."""
    cosines, sines = (by.unsqueeze(1) for by in part.turns)
    if part.halves:
        first, second = x.chunk(2, dim=-1)
        across = torch.cat((-second, first), dim=-1)
    else:
        across = torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)
    return (x * cosines + across * sines).to(x.dtype)
