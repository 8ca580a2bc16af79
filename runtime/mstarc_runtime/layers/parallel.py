"""Matrices of which each process of a group holds a part.

`ColumnLinear` holds rows of the weight and gives its part of the outputs; `RowLinear` takes that
part as its input and adds up what all parts make of theirs. A table of ids is cut by ids. With a
whole `Shard` each is the plain layer, to the bit.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from mstarc_runtime.layers.linear import Linear, Matrix
from mstarc_runtime.layers.shard import WHOLE, Portion, Range, Shard, rows_of


class ColumnLinear(Linear):
    """`x` whole → this part of the outputs. `pieces`: (size, range held) of matrices one behind
    the other, as query, key and value are."""

    def __init__(
        self,
        in_features: int,
        pieces: Sequence[tuple[int, Range]],
        *,
        bias: bool = False,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        total, ranges = rows_of(pieces)
        held = sum(stop - start for start, stop in ranges)
        super().__init__(in_features, held, bias=bias, dtype=dtype, device=device)
        self.portions: dict[str, Portion] = {}
        if held < total:
            self.portions["weight"] = Portion(whole=(total, in_features), dim=0, ranges=ranges)
            if bias:
                self.portions["bias"] = Portion(whole=(total,), dim=0, ranges=ranges)


class RowLinear(Linear):
    """`held` of the inputs → outputs whole, added up over the group."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        held: Range,
        shard: Shard = WHOLE,
        bias: bool = False,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        size = held[1] - held[0]
        super().__init__(size, out_features, bias=bias, dtype=dtype, device=device)
        self.portions: dict[str, Portion] = {}
        self._shard = shard
        if size < in_features:
            self.portions["weight"] = Portion(
                whole=(out_features, in_features), dim=1, ranges=(held,)
            )

    def forward(self, x: Tensor) -> Tensor:
        if self._shard.group is None:
            return super().forward(x)
        product = self._shard.sum(self._matrix.multiply(x, self.weight, None))
        return product if self.bias is None else product + self.bias


class HeadLinear(ColumnLinear):
    """An output head [count, width], cut by ids: `x` → the products with all rows."""

    def __init__(
        self,
        width: int,
        count: int,
        *,
        shard: Shard = WHOLE,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__(width, [(count, shard.part(count))], dtype=dtype, device=device)
        self._count = count
        self._shard = shard

    def forward(self, x: Tensor) -> Tensor:
        return self.gathered(super().forward(x))

    def gathered(self, part: Tensor) -> Tensor:
        """The products with all rows, of this part's."""
        return self._shard.gather(part, self._count)


class ShardedEmbedding(nn.Module):
    """The table [count, width] of ids, and the same table as an output head, cut by ids."""

    def __init__(
        self,
        count: int,
        width: int,
        *,
        shard: Shard = WHOLE,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__()
        self._count = count
        self._shard = shard
        self._held = shard.part(count)
        rows = self._held[1] - self._held[0]
        self.weight = nn.Parameter(
            torch.empty(rows, width, dtype=dtype, device=device), requires_grad=False
        )
        self.portions: dict[str, Portion] = {}
        if rows < count:
            self.portions["weight"] = Portion(whole=(count, width), dim=0, ranges=(self._held,))
        self._head: Matrix | None = None

    def forward(self, ids: Tensor) -> Tensor:
        if self._shard.group is None:
            return functional.embedding(ids, self.weight)
        start, stop = self._held
        is_here = (ids >= start) & (ids < stop)
        rows = functional.embedding((ids - start).clamp(0, stop - start - 1), self.weight)
        # Every id is one part's: the others add zeros, which changes no bit.
        return self._shard.sum(rows.masked_fill(~is_here.unsqueeze(-1), 0.0))

    def __call__(self, ids: Tensor) -> Tensor:
        return cast(Tensor, super().__call__(ids))

    def use_as_head(self) -> None:
        """Lets `project` be called: the table is a model's output matrix too."""
        self._head = Matrix()

    def project(self, x: Tensor) -> Tensor:
        """Products of `x` [..., width] with every row of the whole table: [..., count]."""
        assert self._head is not None, "this table is not a head"
        return self.gathered(self._head.multiply(x, self.weight, None))

    def gathered(self, part: Tensor) -> Tensor:
        """The products with all rows, of this part's."""
        return self._shard.gather(part, self._count)

    def pack(self, rows: int) -> None:
        if self._head is not None:
            self._head.pack(self.weight, rows)
