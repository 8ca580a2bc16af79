"""One decoding step of a decoder whose heads are normed, by our own kernels: rows → logits.

    embed → (project → attend → residual → feed-forward) for each layer → logits, or normed rows

As `decode_stack`, with three more freedoms: behind the attention is one gated block (two kernels)
or a mixture of experts (three); what comes in are ids of a table or rows; and the weights may be
one part of a group's, of which each adds up what all have made before it goes on. The residual is
kept in float32. A stack is made once for a bucket, over weights that stay as they are, and its
buffers keep their addresses, so that it can be captured.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mstarc_runtime.attention.backend import JoinedAttention
from mstarc_runtime.kernels.embedding import embed, embedding_parts
from mstarc_runtime.kernels.joined_rows import join_rows, pieces
from mstarc_runtime.kernels.kinds import GATE, PROJECT, RESIDUAL
from mstarc_runtime.kernels.mixture import ExpertWeights, Mixture
from mstarc_runtime.kernels.normed_rows import normed_rows, rejoin_rows
from mstarc_runtime.kernels.shapes import shape_of
from mstarc_runtime.kernels.skinny import Product
from mstarc_runtime.transport.inboxes import NUMBERS

if TYPE_CHECKING:
    from mstarc_runtime.layers.shard import Collectives

CHAINED = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedWeights:
    """One feed-forward block: `gate_up` [2 I, W] gate first, `down` [W, I]."""

    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class NormedLayer:
    """One layer. `qkv` [(Hq + 2 Hkv) D, W], `out` [W, Hq D]; norms [W]."""

    attention_norm: Tensor
    qkv: Tensor
    out: Tensor
    mlp_norm: Tensor
    mlp: GatedWeights | ExpertWeights


@dataclass(frozen=True, slots=True, kw_only=True)
class NormedWeights:
    """A decoder's layers and the norm [W] behind them."""

    layers: Sequence[NormedLayer]
    norm: Tensor
    eps: float

    def are_served(self) -> bool:
        """Whether there are kernels for matrices of these types and sizes."""
        layer = self.layers[0]
        matrices = [(PROJECT, layer.qkv), (RESIDUAL, layer.out)]
        if isinstance(layer.mlp, GatedWeights):
            matrices += [(GATE, layer.mlp.gate_up), (RESIDUAL, layer.mlp.down)]
        elif not layer.mlp.are_served():
            return False
        return all(is_product_served(kind, matrix) for kind, matrix in matrices)


def is_product_served(kind: object, matrix: Tensor) -> bool:
    """Whether there is a kernel for a matrix of this type and size, at any number of rows."""
    return matrix.dtype == torch.bfloat16 and all(
        shape_of(kind, inner=matrix.shape[1], outer=matrix.shape[0], batch=batch) is not None
        for batch in (1, 2)
    )


def product(kind: object, weight: Tensor, *, batch: int) -> Product:
    """The launch of a matrix that is served."""
    shape = shape_of(kind, inner=weight.shape[1], outer=weight.shape[0], batch=batch)
    assert shape is not None, f"no kernel for {tuple(weight.shape)}"
    return Product(weight, kind=kind, batch=batch, shape=shape, chained=CHAINED)


class NormedStack:
    """The layers for `batch` rows: `take` rows or `embed` ids, `run`, then `logits` or `rows`.

    `group` are those that hold the other parts of the weights; None for whole ones.
    """

    def __init__(
        self,
        weights: NormedWeights,
        *,
        batch: int,
        group: "Collectives | None" = None,
    ) -> None:
        self.weights, self.batch = weights, batch
        self._group = group
        first = weights.layers[0]
        device, dtype = first.qkv.device, first.qkv.dtype
        width = first.qkv.shape[1]

        def rows(count: int, of: torch.dtype = dtype) -> Tensor:
            return torch.empty(batch, count, dtype=of, device=device)

        def parts(count: int) -> Tensor:
            return torch.empty(count, batch, dtype=torch.float32, device=device)

        self._project = [product(PROJECT, layer.qkv, batch=batch) for layer in weights.layers]
        self._out = [product(RESIDUAL, layer.out, batch=batch) for layer in weights.layers]
        self._gated: list[tuple[Product, Product]] = []
        self._mixtures: list[Mixture] = []
        for layer in weights.layers:
            if isinstance(layer.mlp, GatedWeights):
                gate = product(GATE, layer.mlp.gate_up, batch=batch)
                self._gated.append((gate, product(RESIDUAL, layer.mlp.down, batch=batch)))
            else:
                scratch = self._mixtures[0].scratch if self._mixtures else None
                self._mixtures.append(
                    Mixture(layer.mlp, batch=batch, chained=CHAINED, scratch=scratch)
                )
        self._residual = rows(width, torch.float32)
        self._h = rows(width)
        self._qkv = rows(first.qkv.shape[0])
        self._attended = rows(first.out.shape[1])
        self._act = rows(first.mlp.down.shape[1])
        self._normed = rows(width)
        self._numbers = torch.arange(batch, device=device)
        self._embedded = parts(embedding_parts(width))
        self._after_out = parts(self._out[0].tiles)
        self._after_mlp = parts(self._gated[0][1].tiles if self._gated else self._mixtures[0].tiles)
        # What products are added to, and where squares go: the residual, or, of a part, what it
        # makes of it, whose squares nobody needs before all parts are in it.
        self._sums: Tensor = self._residual
        self._own_squares: Tensor | None = None
        self._inboxes = None
        if group is not None:
            self._inboxes = group.inboxes(batch * pieces(width) * NUMBERS)
            self._sums = torch.zeros_like(self._residual)
            self._own_squares = parts(max(self._after_out.shape[0], self._after_mlp.shape[0]))
            count = 1 if self._inboxes is None else pieces(width)
            self._after_out, self._after_mlp = parts(count), parts(count)

    def embed(self, ids: Tensor, table: Tensor) -> None:
        """Begins with rows `ids` i64[B] of `table` [V, W]."""
        embed(
            ids,
            table,
            self.weights.layers[0].attention_norm,
            residual=self._residual,
            h=self._h,
            squares=self._embedded,
            chained=CHAINED,
        )

    def take(self, rows: Tensor) -> None:
        """Begins with `rows` [B, W]."""
        self.embed(self._numbers, rows)

    def run(
        self, attend: JoinedAttention, *, turns: Tensor | None = None, is_kept_only: bool = False
    ) -> None:
        """All layers. `turns` i64[B]: positions for the rotation, where they are not the rows' own.

        With `is_kept_only` nothing is wanted but what the cache keeps: the last layer ends there.
        """
        weights, eps = self.weights, self.weights.eps
        h = self._h
        last = len(weights.layers) - 1
        norms = [layer.attention_norm for layer in weights.layers[1:]] + [weights.norm]
        squares = self._embedded
        for number, layer in enumerate(weights.layers):
            self._project[number](h, self._qkv, squares=squares, eps=eps)
            attend(number, self._qkv, self._attended, turns=turns)
            if is_kept_only and number == last:
                return
            self._out[number](
                self._attended,
                h,
                gain=layer.mlp_norm,
                residual=self._sums,
                squares_out=self._squares_of(self._after_out),
            )
            self._rejoin(layer.mlp_norm, self._after_out)
            squares = self._after_mlp
            self._feed_forward(number, norms[number])

    def logits(self, head: Product, out: Tensor) -> Tensor:
        """The normed rows times `head`, in `out` f32[B, V]."""
        head(self._h, out, squares=self._after_mlp, eps=self.weights.eps)
        return out

    def rows(self) -> Tensor:
        """The normed rows [B, W], valid until the next step."""
        normed_rows(
            self._residual,
            self.weights.norm,
            self._after_mlp,
            self._normed,
            eps=self.weights.eps,
            chained=CHAINED,
        )
        return self._normed

    def _feed_forward(self, number: int, gain: Tensor) -> None:
        eps = self.weights.eps
        if self._mixtures:
            self._mixtures[number](
                self._h,
                squares=self._after_out,
                gain=gain,
                eps=eps,
                residual=self._sums,
                squares_out=self._squares_of(self._after_mlp),
            )
        else:
            gate, down = self._gated[number]
            gate(self._h, self._act, squares=self._after_out, eps=eps)
            down(
                self._act,
                self._h,
                gain=gain,
                residual=self._sums,
                squares_out=self._squares_of(self._after_mlp),
            )
        self._rejoin(gain, self._after_mlp)

    def _squares_of(self, squares: Tensor) -> Tensor:
        return squares if self._own_squares is None else self._own_squares

    def _rejoin(self, gain: Tensor, squares: Tensor) -> None:
        if self._group is None:
            return
        if self._inboxes is None:
            rejoin = partial(rejoin_rows, self._group.sum(self._sums))
        else:
            rejoin = partial(join_rows, self._sums, self._inboxes)
        rejoin(residual=self._residual, gain=gain, h=self._h, squares=squares, chained=CHAINED)
