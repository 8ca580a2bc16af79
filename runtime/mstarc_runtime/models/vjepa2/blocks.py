"""A layer whose rows attend to all others and know their place: frame, row and column.

A head's numbers are cut in three equal parts, one an axis (what is left over is not turned). In a
part, neighbouring numbers are turned together, but by angles of their own: a number's frequency is
that of its place in its half of the part. So the public model was trained.
"""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from mstarc_runtime.layers.linear import Linear
from mstarc_runtime.layers.rowwise import RowNorm, added_normed

Turns = tuple[Tensor, Tensor]
"""Cosines and sines [..., N, head_dim]."""

_SLOWEST = 10000.0
_AXES = 3


def places(ids: Tensor, side: int) -> Tensor:
    """f32[..., 3]: frame, row and column of rows `ids` i64[...], with side * side to a frame."""
    frame = torch.div(ids, side * side, rounding_mode="floor")
    within = ids - frame * side * side
    row = torch.div(within, side, rounding_mode="floor")
    return torch.stack((frame, row, within - row * side), dim=-1).float()


def turns(at: Tensor, head_dim: int) -> Turns:
    """How much each number of a head is turned at places `at` f32[..., 3]."""
    width = 2 * (head_dim // _AXES // 2)
    exponents = torch.arange(width // 2, dtype=torch.float32, device=at.device) / (width / 2)
    angles = at[..., None] * (1.0 / _SLOWEST**exponents)
    parts = torch.cat((angles, angles), dim=-1).flatten(-2)
    padded = functional.pad(parts, (0, head_dim - _AXES * width))
    return padded.cos(), padded.sin()


def turned(x: Tensor, by: Turns) -> Tensor:
    """`x` [..., N, head_dim] in its dtype."""
    first, second = x[..., 0::2], x[..., 1::2]
    across = torch.stack((-second, first), dim=-1).flatten(-2)
    return (x * by[0] + across * by[1]).to(x.dtype)


class Block(nn.Module):
    """Attention and feed-forward, each after a norm and beside a residual."""

    def __init__(
        self,
        width: int,
        heads: int,
        inner: int,
        *,
        bias: bool,
        eps: float,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, eps=eps, dtype=dtype, device=device)
        self.qkv = Linear(width, 3 * width, bias=bias, dtype=dtype, device=device)
        self.proj = Linear(width, width, bias=True, dtype=dtype, device=device)
        self.norm2 = nn.LayerNorm(width, eps=eps, dtype=dtype, device=device)
        self.fc1 = Linear(width, inner, bias=True, dtype=dtype, device=device)
        self.fc2 = Linear(inner, width, bias=True, dtype=dtype, device=device)

    def forward(self, x: Tensor, by: Turns) -> Tensor:
        """[B, N, D] → [B, N, D]; `by` broadcasts to [B, heads, N, head_dim]."""
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        )
        attended = functional.scaled_dot_product_attention(turned(q, by), turned(k, by), v)
        x = x + self.proj(attended.transpose(1, 2).flatten(2))
        return x + self.fc2(functional.gelu(self.fc1(self.norm2(x))))

    def pass_rows(
        self, x: Tensor, more: Tensor | None, by: Turns, films: int
    ) -> tuple[Tensor, Tensor]:
        """Rows [B * N, D] of B `films`, and what comes to them; of such from the block before. `by`
        is [N, head_dim]."""
        x, normed = added_normed(x, more, row_norm(self.norm1))
        qkv = self.qkv(normed)
        q, k = _turned_heads(qkv, by, self.heads)
        v = qkv.unflatten(-1, (3, self.heads, -1))[:, 2]
        q, k, v = (part.unflatten(0, (films, -1)).transpose(1, 2) for part in (q, k, v))
        attended = functional.scaled_dot_product_attention(q, k, v)
        attended = self.proj(attended.transpose(1, 2).flatten(2).flatten(0, 1))
        x, normed = added_normed(x, attended, row_norm(self.norm2))
        return x, self.fc2(functional.gelu(self.fc1(normed)))

    def __call__(self, x: Tensor, by: Turns) -> Tensor:
        return cast(Tensor, super().__call__(x, by))


def row_norm(norm: nn.LayerNorm) -> RowNorm:
    return RowNorm(kind="layer", scale=norm.weight, shift=norm.bias, eps=norm.eps)


def _turned_heads(qkv: Tensor, by: Turns, heads: int) -> tuple[Tensor, Tensor]:
    """Queries and keys [B * N, H, D] of joined products, turned."""
    width = by[0].shape[-1]
    is_served = width & (width - 1) == 0 and qkv.dtype.itemsize == 2
    if qkv.device.type == "cuda" and is_served:
        from mstarc_runtime.kernels.turn_heads import turn_heads

        ready = turn_heads(qkv, by, heads=heads)
        return ready[:, 0], ready[:, 1]
    parts = qkv.unflatten(-1, (3, heads, width))
    films = len(qkv) // len(by[0])
    cosines, sines = (part.repeat(films, 1)[:, None] for part in by)
    return turned(parts[:, 0], (cosines, sines)), turned(parts[:, 1], (cosines, sines))


_PARTS = {
    "norm1": ("norm1",),
    "qkv": ("attention.query", "attention.key", "attention.value"),
    "proj": ("attention.proj",),
    "norm2": ("norm2",),
    "fc1": ("mlp.fc1",),
    "fc2": ("mlp.fc2",),
}


def block_names(name: str) -> str | tuple[str, ...]:
    """The checkpoint's names of `layer.3.qkv.weight` and its like."""
    _, number, part, kind = name.split(".")
    names = tuple(f"layer.{number}.{piece}.{kind}" for piece in _PARTS[part])
    return names[0] if len(names) == 1 else names
