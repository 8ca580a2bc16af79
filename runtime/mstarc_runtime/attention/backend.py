"""The interface that an attention implementation fills."""

from typing import Protocol, runtime_checkable

from torch import Tensor

from mstarc_runtime.attention.mask import Mask
from mstarc_runtime.kvcache.mirror import PackedMirror, StepMirror
from mstarc_runtime.kvcache.packed import PackedRows
from mstarc_runtime.kvcache.step import StepRows


class JoinedAttention(Protocol):
    """Attends one row a request, given as the product with the joined matrix of q, k and v."""

    def __call__(self, layer: int, qkv: Tensor, out: Tensor) -> None:
        """`qkv` [B, (Hq + 2 Hkv) D] without positions → `out` [B, Hq D]; k and v are appended."""
        ...


@runtime_checkable
class JoinsHeads(Protocol):
    """A step's attention that takes a joined product."""

    def joined(self, *, heads: int, angles: tuple[Tensor, Tensor], scale: float) -> JoinedAttention:
        """For `heads` query heads; `angles`: cosines and sines f32[positions, D / 2] by halves."""
        ...


@runtime_checkable
class MovesOn(Protocol):
    """A step's attention that reads on the device how long its rows are, so that they move on there
    from pass to pass."""

    @property
    def pages(self) -> Tensor | None:
        """Its page table i32[R, max_pages] on the device; None where it doesn't do so after all."""
        ...


class Attention(Protocol):
    """Attention planned for the rows of a call, for all layers."""

    def update(self) -> None:
        """Plans for what the rows hold now. For a step: after every `StepRows.prepare`."""
        ...

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, *, scale: float) -> Tensor:
        """Appends `k`, `v` [R, Hkv, D], attends with `q` [R, Hq, D], returns [R, Hq, D].

        Rows of padding return anything finite or not; nobody reads them. For a step it can be
        captured, unless the backend is `row_by_row`.
        """
        ...


class AttentionBackend(Protocol):
    """Makes plans over one cache."""

    @property
    def row_by_row(self) -> bool:
        """Whether a step computes each row alone, so that its bits depend on nobody else."""
        ...

    def plan_step(self, rows: StepRows, mirror: StepMirror) -> Attention:
        """The plan of a bucket; made once. One row sees all that was written, under any mask."""
        ...

    def plan_packed(self, rows: PackedRows, mirror: PackedMirror, mask: Mask) -> Attention:
        """The plan of one packed call."""
        ...
