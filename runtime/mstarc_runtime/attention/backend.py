"""The interface that an attention implementation fills."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from mstarc_runtime.attention.mask import Mask
from mstarc_runtime.kvcache.fixed import FixedRows
from mstarc_runtime.kvcache.mirror import FixedMirror, PackedMirror, StepMirror
from mstarc_runtime.kvcache.packed import PackedRows
from mstarc_runtime.kvcache.step import StepRows


class JoinedAttention(Protocol):
    """Attends one row a request, given as the product with the joined matrix of q, k and v."""

    def __call__(
        self, layer: int, qkv: Tensor, out: Tensor, *, turns: Tensor | None = None
    ) -> None:
        """`qkv` [B, (Hq + 2 Hkv) D] without positions → `out` [B, Hq D]; k and v are appended.

        `turns` i64[B] are the positions by which heads turn, where they are not the rows' own.
        """
        ...


@runtime_checkable
class JoinsHeads(Protocol):
    """A step's attention that takes a joined product."""

    def joined(
        self,
        *,
        heads: int,
        angles: tuple[Tensor, Tensor],
        scale: float,
        norms: Sequence[tuple[Tensor, Tensor]] | None = None,
        eps: float = 0.0,
    ) -> JoinedAttention:
        """For `heads` query heads; `angles`: cosines and sines f32[positions, D / 2] by halves.

        `norms` are each layer's weights [D] of the norms of queries and keys.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedHeads:
    """A joined product of q, k and v, of all rows of a call or some, and how its heads are made
    ready.

    `qkv` is [r, (Hq + 2 Hkv) D] with `count` query heads, `at` i64[r] the rows of the call that it
    has; without it these are all, in order. `turns` are cosines and sines f32[r, D]; a number is
    turned with the one D / 2 away (`halves`), or with its neighbour. `norms` are weights [D] of
    queries' and keys' root-mean-square norms before that.
    """

    qkv: Tensor
    count: int
    turns: tuple[Tensor, Tensor]
    halves: bool
    scale: float
    norms: tuple[Tensor, Tensor] | None = None
    eps: float = 1e-6
    at: Tensor | None = None


@runtime_checkable
class PlacesHeads(Protocol):
    """Attention of which a kernel makes heads ready and appends them."""

    def attend_joined(self, layer: int, parts: Sequence[JoinedHeads]) -> Tensor | None:
        """[R, Hq D] of parts that are all rows of a call; None where no kernel serves it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """Where a kernel puts the keys and values of a call's rows: `keys`, `values` of one layer
    [pages, page, Hkv, D], behind the rows that a request has in its `pages` i32[B, n]; `lengths`
    i32[B] are those with the call's."""

    keys: Tensor
    values: Tensor
    pages: Tensor
    lengths: Tensor


@runtime_checkable
class AttendsPlaced(Protocol):
    """Attention of rows whose keys and values a model's own kernel has put into the cache."""

    def placing(self, layer: int) -> Placing | None:
        """Where they go; None where no kernel serves it."""
        ...

    def attend_placed(self, layer: int, q: Tensor, *, scale: float) -> Tensor:
        """What turned queries [R, Hq, D] see, [R, Hq, D]."""
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

    def plan_fixed(self, rows: FixedRows, mirror: FixedMirror, mask: Mask) -> Attention:
        """The plan of calls of as many rows a request at a bucket; made once."""
        ...
