"""The tower's layers as the library's products and kernels of our own between them.

What a product takes, and by how much rows are multiplied so that float16 holds them, is decided
once by the weights: a norm bounds its rows, and these what a matrix makes of them; what attention
gives is no larger than its values, and a gate's numbers no larger than those before it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from mstarc_runtime.kernels.tower_attention import attend
from mstarc_runtime.kernels.tower_rows import (
    Split,
    SplitMatrix,
    added_normed,
    gelu,
    scale_below,
    split_matrix,
    split_product,
)
from mstarc_runtime.layers.linear import Linear

# Products that add up to one of float32, by what a config calls it.
PARTS: Mapping[str, int] = {"tf32": 0, "fp16": 1, "fp16x3": 3, "bf16x6": 6}


class TowerLayer(Protocol):
    """What is read of a layer."""

    heads: int
    norm1: nn.LayerNorm
    qkv: Linear
    out: Linear
    norm2: nn.LayerNorm
    fc1: Linear
    fc2: Linear


class TowerPasses:
    """All layers, the norm behind them and a product, of weights that stay as they are."""

    def __init__(
        self, layers: Sequence[TowerLayer], norm: nn.LayerNorm, project: Linear, *, parts: int
    ) -> None:
        self._layers = [_LayerPasses(layer, parts) for layer in layers]
        self._norm = norm
        self._project = _Product.of(project, parts, _bounds(norm)[0])

    def __call__(self, x: Tensor) -> Tensor:
        """f32[N, P, O] of rows `x` f32[N, P, D], on a GPU."""
        carried = _Carried(rows=x.flatten(0, 1))
        for layer in self._layers:
            carried = layer(carried, images=len(x))
        _, rows = carried.normed(self._norm, self._project.split)
        seen = self._project(rows)
        if self._project.unit != 1.0:
            seen *= self._project.unit
        return seen.view(*x.shape[:2], -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Carried:
    """Rows f32[R, D], and what comes to them: `unit` times `more`."""

    rows: Tensor
    more: Tensor | None = None
    unit: float = 1.0

    def normed(self, norm: nn.LayerNorm, split: Split) -> tuple[Tensor, Tensor]:
        return added_normed(
            self.rows,
            self.more,
            norm.weight,
            norm.bias,
            eps=norm.eps,
            unit=self.unit,
            split=split,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Product:
    """A product with rows that are `split`. Times `unit`, and with `bias` behind it, it is what a
    linear layer gives."""

    matrix: Linear | SplitMatrix
    split: Split
    unit: float
    bias: Tensor | None = None

    @classmethod
    def of(cls, matrix: Linear, parts: int, bound: float, *, is_plain: bool = False) -> "_Product":
        """With rows of numbers up to `bound`. Where the library is faster so (`is_plain`), its bias
        is left to who reads it."""
        if not parts:
            bias = matrix.bias if is_plain else None
            return cls(matrix=matrix, split=Split(), unit=1.0, bias=bias)
        assert matrix.bias is not None
        split = Split(parts=parts)
        if split.is_float16:
            split = Split(parts=parts, scale=scale_below(bound))
        made = split_matrix(matrix.weight, matrix.bias, parts)
        return cls(
            matrix=made,
            split=split,
            unit=1.0 / (split.scale * made.scale),
        )

    def __call__(self, rows: Tensor) -> Tensor:
        if isinstance(self.matrix, Linear):
            if self.bias is not None:
                return torch.mm(rows, self.matrix.weight.T)
            return self.matrix(rows)
        return split_product(rows, self.matrix.values, self.split.parts)


class _LayerPasses:
    def __init__(self, layer: TowerLayer, parts: int) -> None:
        self._heads, self._norms = layer.heads, (layer.norm1, layer.norm2)
        most, length = _bounds(layer.norm1)
        self._qkv = _Product.of(layer.qkv, parts, most, is_plain=True)
        self._out = _Product.of(layer.out, parts, _bound_behind(layer.qkv, length))
        most, length = _bounds(layer.norm2)
        self._fc1 = _Product.of(layer.fc1, parts, most)
        self._fc2 = _Product.of(layer.fc2, parts, _bound_behind(layer.fc1, length))

    def __call__(self, carried: _Carried, *, images: int) -> _Carried:
        x, rows = carried.normed(self._norms[0], self._qkv.split)
        rows = attend(
            self._qkv(rows),
            images=images,
            heads=self._heads,
            unit=self._qkv.unit,
            bias=self._qkv.bias,
            split=self._out.split,
        )
        carried = _Carried(rows=x, more=self._out(rows), unit=self._out.unit)
        x, rows = carried.normed(self._norms[1], self._fc1.split)
        rows = gelu(self._fc1(rows), unit=self._fc1.unit, split=self._fc2.split)
        return _Carried(rows=x, more=self._fc2(rows), unit=self._fc2.unit)


def _bounds(norm: nn.LayerNorm) -> tuple[float, float]:
    """How large a number of normed rows can be, and how long a row."""
    weight, bias = norm.weight.abs(), norm.bias.abs()
    root = weight.numel() ** 0.5
    most = float((root * weight + bias).max())
    return most, root * float(weight.max()) + float(bias.norm())


def _bound_behind(matrix: Linear, length: float) -> float:
    """How large a number of rows times `matrix` can be, of rows so long."""
    assert matrix.bias is not None
    return float((matrix.weight.norm(dim=1) * length + matrix.bias.abs()).max())
