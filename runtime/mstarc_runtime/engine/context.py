"""What an op is handed besides its parameters: `OpContext`, and `KVContext` with a cache.

The protocols are what model code may use. Behind them:

- `StatelessContext`: a batch on a device.
- `StepContext`: one row a request, at one bucket. Made once, prepared before every step; its
  tensors keep their addresses, so a region that was captured with it can be replayed.
- `FixedContext`: as many rows a request in every call, at one bucket; as a step's otherwise.
- `PackedContext` (`packed_context`): many rows a request, made for one call.

Model code runs no control flow of a request and sees neither pages nor slots.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mstarc_runtime.attention.backend import (
    AttendsPlaced,
    Attention,
    AttentionBackend,
    JoinedAttention,
    JoinedHeads,
    JoinsHeads,
    MovesOn,
    PlacesHeads,
    Placing,
)
from mstarc_runtime.attention.cross import attend_cross
from mstarc_runtime.attention.mask import Mask
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.fixed import FixedRows
from mstarc_runtime.kvcache.mirror import FixedMirror, MovingRows, StepMirror
from mstarc_runtime.kvcache.step import StepRows
from mstarc_runtime.layers.sampler import SamplerState

Slots = NDArray[np.int64]


class OpContext(Protocol):
    """A call on a batch of `batch` rows, padding included."""

    @property
    def batch(self) -> int: ...

    @property
    def device(self) -> torch.device: ...


class ChunkContext(OpContext, Protocol):
    """A call of a stateless node, whose rows may be chunks of a stream."""

    @property
    def old(self) -> int:
        """Items at the beginning of each row's chunk that a chunk before it held; 0 without one."""
        ...


class KVContext(OpContext, Protocol):
    """A call that attends. R is the number of rows of the call, B of its requests; Hq, Hkv, D are
    query heads, key-value heads and the width of a head."""

    @property
    def positions(self) -> Tensor:
        """i64[R]: position of every row in the written context."""
        ...

    @property
    def last_rows(self) -> Tensor:
        """i64[B]: index of each request's last row."""
        ...

    def attend(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, *, scale: float | None = None
    ) -> Tensor:
        """Appends `k`, `v` [R, Hkv, D] to the op's context and attends with `q` [R, Hq, D].

        Positions are already in q and k. The op's mask decides what a row sees. `scale` is
        D ** -0.5 unless given. Returns [R, Hq, D].
        """
        ...

    def joined(
        self,
        *,
        heads: int,
        angles: tuple[Tensor, Tensor],
        scale: float,
        norms: Sequence[tuple[Tensor, Tensor]] | None = None,
        eps: float = 0.0,
    ) -> JoinedAttention | None:
        """Attention for products that are still joined, or None where the backend has none.

        A model that asks makes its step of `kernels`; one that does not ask uses `attend`.
        """
        ...

    def attend_joined(self, layer: int, parts: Sequence[JoinedHeads]) -> Tensor | None:
        """As `attend`, of joined products whose heads are not ready yet: [R, Hq D].

        None where the backend has no kernel for it; `layers.joined` knows what then.
        """
        ...

    def placing(self, layer: int) -> Placing | None:
        """Where a kernel of the model puts the keys and values of this call's rows itself.

        None where the backend does not attend rows that are placed so.
        """
        ...

    def attend_placed(self, layer: int, q: Tensor, *, scale: float) -> Tensor:
        """As `attend`, where that was done: [R, Hq, D]."""
        ...

    def write_cross(self, layer: int, k: Tensor, v: Tensor, *, context: str) -> None:
        """Writes [B, N, Hkv, D] into a cross context; once a layer and request."""
        ...

    def attend_cross(
        self, layer: int, q: Tensor, *, context: str, scale: float | None = None
    ) -> Tensor:
        """What `q` [R, Hq, D] sees in a cross context, all of it: [R, Hq, D]."""
        ...

    def observe(self, ids: Tensor, *, sampler: str = "default") -> None:
        """Lets the repetition penalty of each row's request know its `ids` i64[R] (a prompt's).

        A sampled token is known without it.
        """
        ...

    def sample(self, logits: Tensor, *, sampler: str = "default") -> Tensor:
        """One token a request, i64[B], of `logits` [B, V]."""
        ...


class StatelessContext:
    """The context of a stateless node's call."""

    __slots__ = ("batch", "device", "old")

    def __init__(self, *, batch: int, device: torch.device, old: int = 0) -> None:
        self.batch = batch
        self.device = device
        self.old = old


class CacheContext:
    """What step and packed contexts share: everything after the rows are known."""

    def __init__(
        self,
        *,
        cache: KVCache,
        backend: AttentionBackend,
        samplers: Mapping[str, SamplerState],
        batch: int,
    ) -> None:
        self.batch = batch
        self.device = cache.device
        self._cache = cache
        self._backend = backend
        self._samplers = samplers
        self._attention: Attention
        self.positions: Tensor
        self.last_rows: Tensor
        self._slots: Tensor
        self._row_slots: Tensor

    def attend(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, *, scale: float | None = None
    ) -> Tensor:
        return self._attention.attend(
            layer, q, k, v, scale=q.shape[-1] ** -0.5 if scale is None else scale
        )

    def joined(
        self,
        *,
        heads: int,
        angles: tuple[Tensor, Tensor],
        scale: float,
        norms: Sequence[tuple[Tensor, Tensor]] | None = None,
        eps: float = 0.0,
    ) -> JoinedAttention | None:
        if not isinstance(self._attention, JoinsHeads):
            return None
        return self._attention.joined(heads=heads, angles=angles, scale=scale, norms=norms, eps=eps)

    def attend_joined(self, layer: int, parts: Sequence[JoinedHeads]) -> Tensor | None:
        if not isinstance(self._attention, PlacesHeads):
            return None
        return self._attention.attend_joined(layer, parts)

    def placing(self, layer: int) -> Placing | None:
        attention = self._attention
        return attention.placing(layer) if isinstance(attention, AttendsPlaced) else None

    def attend_placed(self, layer: int, q: Tensor, *, scale: float) -> Tensor:
        assert isinstance(self._attention, AttendsPlaced), "`placing` says where it is"
        return self._attention.attend_placed(layer, q, scale=scale)

    def write_cross(self, layer: int, k: Tensor, v: Tensor, *, context: str) -> None:
        self._cache.cross[context].write(layer, self._slots, self._host_slots(), k, v)

    def attend_cross(
        self, layer: int, q: Tensor, *, context: str, scale: float | None = None
    ) -> Tensor:
        return attend_cross(
            self._cache.cross[context],
            layer,
            q,
            slots=self._slots_by_row(),
            host_slots=self._host_row_slots() if self._backend.row_by_row else None,
            scale=q.shape[-1] ** -0.5 if scale is None else scale,
        )

    def observe(self, ids: Tensor, *, sampler: str = "default") -> None:
        self._samplers[sampler].observe(self._slots_by_row(), ids)

    def sample(self, logits: Tensor, *, sampler: str = "default") -> Tensor:
        return self._samplers[sampler].sample(logits, self._slots, self._host_slots())

    def _slots_by_row(self) -> Tensor:
        """i64[R]"""
        return self._row_slots

    def _host_slots(self) -> list[int]:
        raise NotImplementedError

    def _host_row_slots(self) -> list[int]:
        raise NotImplementedError


class StepContext(CacheContext):
    """Calls of one row a request on `context`, padded to `bucket` rows.

    `keep`: whether the rows stay (an op that `writes`) or are attended once (one that `reads`).
    """

    def __init__(
        self,
        *,
        cache: KVCache,
        backend: AttentionBackend,
        samplers: Mapping[str, SamplerState],
        bucket: int,
        context: str = "main",
        keep: bool = True,
        ordinal: int = 0,
    ) -> None:
        super().__init__(cache=cache, backend=backend, samplers=samplers, batch=bucket)
        self.rows: StepRows = cache.step_rows(bucket, context, keep=keep, ordinal=ordinal)
        # Attention row by row looks at the arrays on the host, which nothing else may change.
        self._mirror = StepMirror(self.rows, cache.device, apart=not backend.row_by_row)
        self._attention = backend.plan_step(self.rows, self._mirror)
        self.positions = self._mirror.positions
        self.last_rows = torch.arange(bucket, device=cache.device)
        self._slots = self._row_slots = self._mirror.slots
        self._batch_version = -1
        self._slot_list: list[int] = []
        self._moves_on = self._attention if isinstance(self._attention, MovesOn) else None
        self._moving: MovingRows | None = None

    def prepare(self, slots: Slots, passes: int = 1) -> None:
        """Makes the context that of the next row of each of `slots`, which is counted as written.

        `slots` i64[n], n <= bucket, stands for its batch by identity: never change it in place.
        Raises OutOfPages or ContextFull, and then nothing was changed. Call before every step,
        then run the op (or replay the region that was captured with it). With several `passes` the
        op runs so often, `go_on` between, and a row of each is counted.
        """
        self.rows.prepare(slots, passes)
        self._mirror.update()
        self._attention.update()
        if passes > 1:
            self.rows.skip(passes - 1)

    def is_of(self, slots: Slots) -> bool:
        """Whether it is the context of this very batch's rows."""
        return self.rows.is_of(slots)

    def share_slots(self, first: "StepContext") -> None:
        """From now on its slots are those of the first call on the same rows."""
        self._slots = self._row_slots = first._slots

    @property
    def moving(self) -> MovingRows | None:
        """What changes on the device as rows move on there; None where that is not enough."""
        if self._moves_on is None or (pages := self._moves_on.pages) is None:
            return None
        if self._moving is None:
            self._moving = self._mirror.moving(pages, self._cache.layout)
        return self._moving

    def _host_slots(self) -> list[int]:
        if self._batch_version != self.rows.batch_version:
            self._batch_version = self.rows.batch_version
            self._slot_list = self.rows.slots.tolist()
        return self._slot_list

    def _host_row_slots(self) -> list[int]:
        return self._host_slots()


class FixedContext(CacheContext):
    """Calls of as many rows a request, padded to a bucket of requests; `rows` says where they are.

    `stands`: all rows of a request have the position at which the call begins. Its tensors follow
    `mirror`, so that a call which was captured with it can be replayed.
    """

    def __init__(
        self,
        *,
        cache: KVCache,
        backend: AttentionBackend,
        samplers: Mapping[str, SamplerState],
        rows: FixedRows,
        mirror: FixedMirror,
        mask: Mask,
        stands: bool = False,
    ) -> None:
        super().__init__(cache=cache, backend=backend, samplers=samplers, batch=rows.bucket)
        self.rows = rows
        self._mirror = mirror
        self._attention = backend.plan_fixed(rows, mirror, mask)
        # What samplers were told of the rows: an id each.
        self.observed: list[tuple[str, Tensor]] = []
        self._within = torch.arange(rows.each, device=cache.device)
        self._steps = torch.zeros_like(self._within) if stands else self._within
        self._ends = torch.arange(rows.bucket, device=cache.device) * rows.each - 1
        self.last_rows = self._ends + rows.each
        self._slots = mirror.slots

    def begin(self) -> "FixedContext":
        """Itself, for one call: what follows from where requests stand is computed anew."""
        self.observed = []
        if self.rows.are_padded:
            self.last_rows = self._ends + self._mirror.kv_lengths - self._mirror.firsts
        self.positions = (self._mirror.starts[:, None] + self._steps).flatten()
        return self

    def observe(self, ids: Tensor, *, sampler: str = "default") -> None:
        self.observed.append((sampler, ids))
        if self.rows.are_padded:
            # Padding has the slot of a request, and no id that it has seen.
            own = self._within < (self._mirror.kv_lengths - self._mirror.firsts)[:, None]
            slots = torch.where(own.flatten(), self._slots_by_row(), self.rows.padding_slot)
            self._samplers[sampler].observe(slots, ids)
            return
        super().observe(ids, sampler=sampler)

    def _slots_by_row(self) -> Tensor:
        # Of use to few: made where it is asked for.
        return self._slots[:, None].expand(-1, self.rows.each).flatten()

    def _host_slots(self) -> list[int]:
        slots: list[int] = self.rows.slots.tolist()
        return slots

    def _host_row_slots(self) -> list[int]:
        slots: list[int] = self.rows.slots.repeat(self.rows.each).tolist()
        return slots
