"""Layers whose norms a time decides, for few rows, by our own kernels: numbers in, numbers out.

    into → (project → attend → residual → gate → residual) for each layer → back

Where the attention is and how it goes is the caller's: it is given turned queries, with keys and
values in the cache already. A stack is made once for a number of requests and rows, over weights
that stay as they are; its buffers keep their addresses, so that it can be captured.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from mstarc_runtime.attention.backend import Placing
from mstarc_runtime.kernels.timed_rows import (
    back_rows,
    gate_rows,
    into_rows,
    project_heads,
    residual_rows,
)

# Rows that a block takes, those of the norms' moves included.
MOST_ROWS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerMatrices:
    """One layer. `qkv` [(Hq + 2 Hkv) D, W], `out` [W, Hq D], `gate_up` [2 I, W] gate first,
    `down` [W, I]."""

    qkv: Tensor
    out: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class EndMatrices:
    """In front of all layers and behind them: `into` [W, A] and `back` [A, W], with biases."""

    into: Tensor
    into_bias: Tensor
    back: Tensor
    back_bias: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedRows:
    """What times make of a norm, [B, W] each: by how much it scales and moves, and how much counts
    of what follows it."""

    scale: Tensor
    shift: Tensor
    gate: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSizes:
    """Of all layers: heads and their width, and what is added before a root is taken."""

    heads: int
    kv_heads: int
    head_dim: int
    eps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """How a product is cut: rows of the weights a block, columns a pass, blocks along the columns,
    passes under way, warps of a block."""

    rows: int
    columns: int
    split: int = 1
    stages: int = 4
    warps: int = 4

    def suits(self, matrix: Tensor, halves: int = 1) -> bool:
        count, inner = matrix.shape
        span = inner // self.split
        is_even = count % (halves * self.rows) == 0 and inner % (self.split * self.columns) == 0
        return is_even and span & (span - 1) == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts:
    """Of the products of a layer, and of those at both ends. Of `project`, `rows` are pairs of a
    head's numbers; of `into` all columns are taken at once."""

    into: Cut = Cut(rows=32, columns=32)

    project: Cut = Cut(rows=16, columns=256, stages=3)
    out: Cut = Cut(rows=32, columns=128, split=4)
    gate: Cut = Cut(rows=32, columns=128)
    down: Cut = Cut(rows=32, columns=128, split=8)
    back: Cut = Cut(rows=32, columns=128)

    def suit(self, layer: LayerMatrices, ends: EndMatrices, sizes: StackSizes) -> bool:
        """Whether they cut matrices evenly."""
        pairs = sizes.head_dim // 2
        return (
            ends.into.shape[1] == self.into.columns
            and self.into.suits(ends.into)
            and self.back.suits(ends.back)
            and pairs % self.project.rows == 0
            and self.project.suits(layer.qkv)
            and self.out.suits(layer.out)
            and self.gate.suits(layer.gate_up, halves=2)
            and self.down.suits(layer.down)
        )


def is_served(
    layer: LayerMatrices,
    ends: EndMatrices,
    sizes: StackSizes,
    *,
    batch: int,
    each: int,
    cuts: Cuts,
) -> bool:
    """Whether there are kernels for so many rows of matrices of this type and size."""
    is_few = batch * (each + 1) <= MOST_ROWS
    return layer.qkv.dtype == torch.bfloat16 and is_few and cuts.suit(layer, ends, sizes)


class TimedStack:
    """The layers for `each` rows of each of `batch` requests."""

    def __init__(
        self,
        layers: Sequence[LayerMatrices],
        ends: EndMatrices,
        sizes: StackSizes,
        *,
        batch: int,
        each: int,
        chained: bool = True,
        cuts: Cuts | None = None,
    ) -> None:
        self._layers, self._ends, self._sizes, self._cuts = layers, ends, sizes, cuts or Cuts()
        self._batch, self._each, self._chained = batch, each, chained
        self._count = batch * each
        self._rows = max(16, triton.next_power_of_2(batch * (each + 1)))
        first = layers[0]
        device, dtype = first.qkv.device, first.qkv.dtype
        width, inner = first.down.shape
        self._x = torch.empty(self._count, width, dtype=dtype, device=device)
        self._h = torch.zeros(self._rows, width, dtype=dtype, device=device)
        self._act = torch.empty(self._rows, inner, dtype=dtype, device=device)
        self._q = torch.empty(self._count, sizes.heads, sizes.head_dim, dtype=dtype, device=device)
        tiles = [width // cut.rows for cut in (self._cuts.into, self._cuts.out, self._cuts.down)]
        self._squares = torch.zeros(max(tiles), self._rows, dtype=torch.float32, device=device)
        self._tiles = tiles
        splits = max(self._cuts.out.split, self._cuts.down.split)
        self._partial = torch.empty(
            splits * width * self._rows if splits > 1 else 1, dtype=torch.float32, device=device
        )
        self._arrived = torch.zeros(max(tiles), dtype=torch.int32, device=device)

    def run(
        self,
        given: Tensor,
        times: Sequence[TimedRows],
        turns: tuple[Tensor, Tensor],
        placing: Callable[[int], Placing],
        attend: Callable[[int, Tensor], Tensor],
    ) -> Tensor:
        """What becomes of `given` f32[B * each, A] behind all layers, of that shape.

        `times` are those of each layer's two norms and of the norm behind them; `turns` cosines and
        sines f32[R, D]; `placing` says where a layer's keys and values go, `attend` gives what
        queries [R, Hq, D] of a layer see, [R, Hq D].
        """
        self._into(given, times[0])
        before_layers, behind_out, behind_down = self._tiles
        parts = before_layers
        for number, layer in enumerate(self._layers):
            first, second, third = times[2 * number : 2 * number + 3]
            self._project(layer, placing(number), turns, parts)
            attended = attend(number, self._q)
            self._residual(attended, layer.out, first, second, self._cuts.out)
            self._gate(layer, behind_out)
            self._residual(self._act, layer.down, second, third, self._cuts.down)
            parts = behind_down
        return self._back(parts)

    def _into(self, given: Tensor, time: TimedRows) -> None:
        ends, cut = self._ends, self._cuts.into
        into_rows[(ends.into.shape[0] // cut.rows,)](
            given,
            ends.into,
            ends.into_bias,
            self._x,
            time.scale,
            time.shift,
            self._h,
            self._squares,
            time.scale.stride(0),
            ends.into.shape[0],
            R=self._count,
            B=self._batch,
            EACH=self._each,
            K=cut.columns,
            M=self._rows,
            ROWS=cut.rows,
            CHAINED=self._chained,
            **self._launch(cut.warps),
        )

    def _back(self, parts: int) -> Tensor:
        ends, cut = self._ends, self._cuts.back
        count = ends.back.shape[0]
        made = torch.empty(self._count, count, dtype=torch.float32, device=self._x.device)
        back_rows[(count // cut.rows,)](
            self._h,
            self._squares,
            ends.back,
            ends.back_bias,
            made,
            parts,
            count,
            self._sizes.eps,
            ROWS=cut.rows,
            PARTS=triton.next_power_of_2(parts),
            **self._shape(ends.back, cut),
        )
        return made

    def _project(
        self, layer: LayerMatrices, place: Placing, turns: tuple[Tensor, Tensor], parts: int
    ) -> None:
        sizes, cut = self._sizes, self._cuts.project
        heads = sizes.heads + 2 * sizes.kv_heads
        project_heads[(heads * sizes.head_dim // 2 // cut.rows,)](
            self._h,
            self._squares,
            layer.qkv,
            *turns,
            place.pages,
            place.lengths,
            self._q,
            place.keys,
            place.values,
            parts,
            place.pages.stride(0),
            sizes.eps,
            HEADS=sizes.heads,
            KV_HEADS=sizes.kv_heads,
            D=sizes.head_dim,
            PAGE=place.keys.shape[1],
            PAIRS=cut.rows,
            PARTS=triton.next_power_of_2(parts),
            **self._shape(layer.qkv, cut),
        )

    def _gate(self, layer: LayerMatrices, parts: int) -> None:
        cut, inner = self._cuts.gate, layer.down.shape[1]
        gate_rows[(inner // cut.rows,)](
            self._h,
            self._squares,
            layer.gate_up,
            self._act,
            parts,
            inner,
            self._sizes.eps,
            ROWS=cut.rows,
            PARTS=triton.next_power_of_2(parts),
            **self._shape(layer.gate_up, cut),
        )

    def _residual(
        self, a: Tensor, weight: Tensor, own: TimedRows, then: TimedRows, cut: Cut
    ) -> None:
        residual_rows[(weight.shape[0] // cut.rows, cut.split)](
            a,
            weight,
            self._x,
            own.gate,
            then.scale,
            then.shift,
            self._h,
            self._squares,
            self._partial,
            self._arrived,
            own.gate.stride(0),
            then.scale.stride(0),
            weight.shape[0],
            SPLIT=cut.split,
            ROWS=cut.rows,
            # A product that is added may not stay unrounded, as fused it would.
            enable_fp_fusion=False,
            **self._shape(weight, cut),
        )

    def _shape(self, weight: Tensor, cut: Cut) -> dict[str, int | bool]:
        return {
            "R": self._count,
            "B": self._batch,
            "EACH": self._each,
            "K": weight.shape[1],
            "M": self._rows,
            "COLUMNS": cut.columns,
            "STAGES": cut.stages,
            "CHAINED": self._chained,
            **self._launch(cut.warps),
        }

    def _launch(self, warps: int) -> dict[str, int | bool]:
        return {"num_warps": warps, "launch_pdl": self._chained}
