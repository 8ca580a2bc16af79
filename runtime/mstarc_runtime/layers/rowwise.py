"""Residuals with norms, and gated activations: one kernel each on a GPU, plain torch elsewhere."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor
from torch.nn import functional

from mstarc_runtime.layers.norm import RMSNorm

Activation = Literal["silu", "gelu_tanh"]
Kind = Literal["rms", "layer", "timed"]
_KINDS: tuple[Kind, ...] = ("rms", "layer", "timed")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowNorm:
    """A norm of rows: root-mean-square, of a layer, or one whose scale and shift a time decides.

    `scale` and `shift` are [D], for a time [B, D], each for rows that follow one another. `plus` is
    added to `scale`.
    """

    kind: Kind
    scale: Tensor
    shift: Tensor | None = None
    plus: float = 0.0
    eps: float


def row_norm(norm: RMSNorm) -> RowNorm:
    return RowNorm(kind="rms", scale=norm.weight, eps=norm.eps)


def added_normed(
    x: Tensor, y: Tensor | None, norm: RowNorm, *, gate: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """`x` + `y` [R, D] and its norm [R, D]; `gate` [B, D] says how much of `y` counts."""
    given = norm.scale if norm.kind == "timed" else gate
    each = 1 if given is None else x.shape[0] // given.shape[0]
    if _has_kernels(x):
        from mstarc_runtime.kernels import rowwise

        return rowwise.added_normed(
            x,
            y,
            kind=_KINDS.index(norm.kind),
            scale=norm.scale,
            shift=norm.shift,
            gate=gate,
            plus=norm.plus,
            eps=norm.eps,
            each=each,
        )
    if y is not None:
        x = x + (y if gate is None else y * gate.repeat_interleave(each, dim=0))
    return x, _normed(x, norm, each)


def gated(joined: Tensor, activation: Activation) -> Tensor:
    """`act(gate) * up` [R, D] of `joined` [R, 2 D], gate first."""
    if _has_kernels(joined):
        from mstarc_runtime.kernels import rowwise

        return rowwise.gated(joined, tanh=activation == "gelu_tanh")
    gate, up = joined.chunk(2, dim=-1)
    if activation == "silu":
        return functional.silu(gate) * up
    return functional.gelu(gate, approximate="tanh") * up


def _has_kernels(x: Tensor) -> bool:
    return x.device.type == "cuda" and x.dtype.itemsize == 2 and x.dim() == 2


def _normed(x: Tensor, norm: RowNorm, each: int) -> Tensor:
    width = (x.shape[-1],)
    if norm.kind == "layer":
        return functional.layer_norm(x, width, norm.scale, norm.shift, norm.eps)
    if norm.kind == "rms" and not norm.plus:
        return functional.rms_norm(x, width, norm.scale, norm.eps)
    rows = functional.rms_norm(x.float(), width, eps=norm.eps)
    if norm.kind == "rms":
        return (rows * (norm.plus + norm.scale.float())).to(x.dtype)
    assert norm.shift is not None, "a time moves rows, too"
    scale, shift = (
        part.float().repeat_interleave(each, dim=0) for part in (norm.scale, norm.shift)
    )
    made: Tensor = (rows * (1.0 + scale) + shift).to(x.dtype)
    return made
