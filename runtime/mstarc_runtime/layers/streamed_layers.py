"""A decoder's layers as a chain of our own kernels, for models that choose what goes in and out.

As `streamed_step`, for decoders whose heads are normed and whose feed-forward may be a mixture:
`begin` gives the pass of a context, or None where the device, the sizes or the types do not allow
it. That depends on the model and the device alone, never on a request.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mstarc_runtime.layers.rope import Rope
from mstarc_runtime.layers.shard import WHOLE, Shard

if TYPE_CHECKING:
    from mstarc_runtime.engine.context import KVContext
    from mstarc_runtime.kernels.normed_stack import NormedStack, NormedWeights

Norms = Sequence[tuple[Tensor, Tensor]]


class StreamedPass:
    """One step of one context: `embed` or `take`, `run`, then `logits` or `rows`."""

    def __init__(self, stack: "NormedStack", attend: Any) -> None:
        self._stack = stack
        self._attend = attend
        self._heads: dict[int, tuple[Any, Tensor]] = {}

    def embed(self, ids: Tensor, table: Tensor) -> None:
        """Begins with rows `ids` i64[B] of `table` [V, W]."""
        self._stack.embed(ids, table)

    def take(self, rows: Tensor) -> None:
        """Begins with `rows` [B, W]."""
        self._stack.take(rows)

    def run(self, *, turns: Tensor | None = None, is_kept_only: bool = False) -> None:
        """All layers; `turns` i64[B] are positions for the rotation, where they are not the rows'
        own. With `is_kept_only` nothing is wanted but what the cache keeps."""
        self._stack.run(self._attend, turns=turns, is_kept_only=is_kept_only)

    def rows(self) -> Tensor:
        """The normed rows [B, W] of the last layer, valid until the next pass."""
        return self._stack.rows()

    def logits(self, head: Tensor) -> Tensor:
        """f32[B, V] of the last layer's normed rows and `head` [V, W], valid until the next pass
        with this head."""
        found = self._heads.get(head.data_ptr())
        if found is None:
            from mstarc_runtime.kernels.kinds import LOGITS
            from mstarc_runtime.kernels.normed_stack import product

            batch = self._stack.batch
            out = torch.empty(batch, head.shape[0], dtype=torch.float32, device=head.device)
            found = self._heads[head.data_ptr()] = (product(LOGITS, head, batch=batch), out)
        return self._stack.logits(*found)


class StreamedLayers:
    """The layers of one model: kernels and buffers a bucket, attention a context, at first use.

    `weights` gives the layers' weights and the norms of each one's heads (None where these have
    none), or None for a model that the kernels do not serve; `head` is a matrix that the normed
    rows are multiplied with. Of a `shard` all of these are its parts; logits are those of its part
    of `head`.
    """

    def __init__(
        self,
        weights: "Callable[[], tuple[NormedWeights, Norms | None] | None]",
        rope: Rope,
        *,
        heads: int,
        head: Callable[[], Tensor],
        shard: Shard = WHOLE,
    ) -> None:
        self._weights = weights
        self._rope = rope
        self._heads = heads
        self._head = head
        self._shard = shard
        self._is_served: bool | None = None
        self._stacks: dict[int, NormedStack] = {}
        self._passes: dict[KVContext, StreamedPass | None] = {}

    def begin(self, ctx: "KVContext") -> StreamedPass | None:
        """The pass of a context, or None."""
        if ctx.device.type != "cuda":
            return None
        if self._is_served is None:
            self._is_served = self._rope.settings.pairing == "halves" and self._are_served()
        if not self._is_served:
            return None
        if ctx not in self._passes:
            self._passes[ctx] = self._made(ctx)
        return self._passes[ctx]

    def _are_served(self) -> bool:
        # Here, because the kernels' compiler comes with torch for GPUs only.
        from mstarc_runtime.kernels.kinds import LOGITS
        from mstarc_runtime.kernels.normed_stack import is_product_served

        found = self._weights()
        if found is None:
            return False
        return found[0].are_served() and is_product_served(LOGITS, self._head())

    def _made(self, ctx: "KVContext") -> StreamedPass | None:
        from mstarc_runtime.kernels.normed_stack import NormedStack

        found = self._weights()
        assert found is not None
        weights, norms = found
        width = self._rope.settings.head_dim
        attend = ctx.joined(
            heads=self._heads,
            angles=self._rope.table(ctx.device),
            scale=width**-0.5,
            norms=norms,
            eps=weights.eps,
        )
        if attend is None:
            return None
        if ctx.batch not in self._stacks:
            group = self._shard.group
            self._stacks[ctx.batch] = NormedStack(weights, batch=ctx.batch, group=group)
        return StreamedPass(self._stacks[ctx.batch], attend)
