"""Attention over plain tensors, what every reference path ends in."""

from torch import Tensor
from torch.nn import functional


def attend_dense(q: Tensor, k: Tensor, v: Tensor, visible: Tensor | None, scale: float) -> Tensor:
    """`q` [B, T, Hq, D] over `k`, `v` [B, S, Hkv, D]: [B, T, Hq, D].

    `visible` is bool, broadcast to [B, Hq, T, S]; None sees all.
    """
    out = functional.scaled_dot_product_attention(
        q.transpose(1, 2),
        k.transpose(1, 2),
        v.transpose(1, 2),
        attn_mask=visible,
        scale=scale,
        enable_gqa=q.shape[2] != k.shape[2],
    )
    return out.transpose(1, 2)


def attend_row(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """One row `q` [Hq, D] over all of `k`, `v` [S, Hkv, D]: [Hq, D].

    The query heads of a key-value head stand as rows of it, which needs no mask and no copies.
    """
    heads, width = q.shape
    kv_heads = k.shape[1]
    out = functional.scaled_dot_product_attention(
        q.reshape(1, kv_heads, heads // kv_heads, width),
        k.transpose(0, 1).unsqueeze(0),
        v.transpose(0, 1).unsqueeze(0),
        scale=scale,
    )
    return out.reshape(heads, width)
