"""One decoding step of a Llama-like decoder as a chain of our own kernels: tokens → logits.

    embed → (project → attend → residual → gate → residual) for each layer → logits

Five kernels a layer; norms, rotary positions, appends, activations and residuals are parts of
them. The residual is kept in float32. A stack is made once for a bucket, over the weights of a
model that stays as it is, and its buffers keep their addresses, so that it can be captured.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mstarc_runtime.attention.backend import JoinedAttention
from mstarc_runtime.kernels.embedding import embed, embedding_parts
from mstarc_runtime.kernels.kinds import GATE, LOGITS, PROJECT, RESIDUAL
from mstarc_runtime.kernels.shapes import shape_of
from mstarc_runtime.kernels.skinny import Product

CHAINED = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWeights:
    """One layer. `qkv` [(Hq + 2 Hkv) D, W], `out` [W, Hq D], `gate_up` [2 I, W] gate first,
    `down` [W, I]; norms [W]."""

    attention_norm: Tensor
    qkv: Tensor
    out: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class StackWeights:
    """A decoder's weights: `embedding` and `head` [V, W], `norm` [W]."""

    embedding: Tensor
    layers: Sequence[LayerWeights]
    norm: Tensor
    head: Tensor
    eps: float

    def are_served(self) -> bool:
        """Whether there are kernels for matrices of these types and sizes."""
        layer = self.layers[0]
        matrices = (
            (PROJECT, layer.qkv),
            (RESIDUAL, layer.out),
            (GATE, layer.gate_up),
            (RESIDUAL, layer.down),
            (LOGITS, self.head),
        )
        is_bf16 = all(matrix.dtype == torch.bfloat16 for _, matrix in matrices)
        return is_bf16 and all(
            shape_of(kind, inner=matrix.shape[1], outer=matrix.shape[0], batch=batch) is not None
            for kind, matrix in matrices
            for batch in (1, 2)
        )


class DecodeStack:
    """The step for `batch` rows."""

    def __init__(self, weights: StackWeights, *, batch: int) -> None:
        self.weights = weights
        head, first = weights.head, weights.layers[0]
        device, dtype, width = head.device, head.dtype, head.shape[1]

        def rows(count: int, of: torch.dtype = dtype) -> Tensor:
            return torch.empty(batch, count, dtype=of, device=device)

        def parts(count: int) -> Tensor:
            return torch.empty(count, batch, dtype=torch.float32, device=device)

        def product(kind: object, weight: Tensor) -> Product:
            shape = shape_of(kind, inner=weight.shape[1], outer=weight.shape[0], batch=batch)
            assert shape is not None, f"no kernel for {tuple(weight.shape)}"
            return Product(
                weight,
                kind=kind,
                batch=batch,
                shape=shape,
                chained=CHAINED,
            )

        self._layers = [
            (
                product(PROJECT, layer.qkv),
                product(RESIDUAL, layer.out),
                product(GATE, layer.gate_up),
                product(RESIDUAL, layer.down),
            )
            for layer in weights.layers
        ]
        self._head = product(LOGITS, head)
        self._residual = rows(width, torch.float32)
        self._h = rows(width)
        self._qkv = rows(first.qkv.shape[0])
        self._attended = rows(first.out.shape[1])
        self._gated = rows(first.down.shape[1])
        self._logits = rows(head.shape[0], torch.float32)
        _, out, _, down = self._layers[0]
        self._embedded = parts(embedding_parts(width))
        self._after_out = parts(out.tiles)
        self._after_down = parts(down.tiles)

    def __call__(self, tokens: Tensor, attend: JoinedAttention) -> Tensor:
        """Logits f32[B, V] of `tokens` i64[B]; they are valid until the next call."""
        weights, eps = self.weights, self.weights.eps
        residual, h = self._residual, self._h
        norms = [layer.attention_norm for layer in weights.layers[1:]] + [weights.norm]
        embed(
            tokens,
            weights.embedding,
            weights.layers[0].attention_norm,
            residual=residual,
            h=h,
            squares=self._embedded,
            chained=CHAINED,
        )
        squares = self._embedded
        for number, (project, out, gate, down) in enumerate(self._layers):
            layer = weights.layers[number]
            project(h, self._qkv, squares=squares, eps=eps)
            attend(number, self._qkv, self._attended)
            out(
                self._attended,
                h,
                residual=residual,
                gain=layer.mlp_norm,
                squares_out=self._after_out,
            )
            gate(h, self._gated, squares=self._after_out, eps=eps)
            down(
                self._gated,
                h,
                residual=residual,
                gain=norms[number],
                squares_out=self._after_down,
            )
            squares = self._after_down
        self._head(h, self._logits, squares=squares, eps=eps)
        return self._logits
