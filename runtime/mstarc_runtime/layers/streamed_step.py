"""A decoder's step as a chain of our own kernels, where the device, the sizes and the types allow.

Which way a step goes depends on the model and the device alone, never on a request; what a model
runs through is said by `is_streamed`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor

from mstarc_runtime.layers.rope import Rope

if TYPE_CHECKING:
    from mstarc_runtime.engine.context import KVContext
    from mstarc_runtime.kernels.decode_stack import StackWeights


class StreamedStep:
    """Steps of one model: kernels, buffers and attention a context and bucket, made at first use.

    `weights` gives the model's weights, or None for a model that the kernels do not serve.
    """

    def __init__(
        self, weights: "Callable[[], StackWeights | None]", rope: Rope, *, heads: int
    ) -> None:
        self._weights = weights
        self._rope = rope
        self._heads = heads
        self._is_served: bool | None = None
        self._stacks: dict[int, Any] = {}
        self._attention: dict[KVContext, Any] = {}

    def is_streamed(self, ctx: "KVContext") -> bool:
        """Whether `logits` gives any on this context."""
        if self._is_served is None:
            weights = self._weights() if ctx.device.type == "cuda" else None
            is_halved = self._rope.settings.pairing == "halves"
            self._is_served = weights is not None and is_halved and weights.are_served()
        return self._is_served and self._attend(ctx) is not None

    def logits(self, ctx: "KVContext", token: Tensor) -> Tensor | None:
        """f32[B, V] for `token` i64[B], valid until the next step of as many rows; or None."""
        if not self.is_streamed(ctx):
            return None
        stack = self._stacks.get(ctx.batch)
        if stack is None:
            from mstarc_runtime.kernels.decode_stack import DecodeStack

            weights = self._weights()
            assert weights is not None
            stack = self._stacks[ctx.batch] = DecodeStack(weights, batch=ctx.batch)
        logits: Tensor = stack(token, self._attend(ctx))
        return logits

    def _attend(self, ctx: "KVContext") -> Any:
        if ctx not in self._attention:
            width = self._rope.settings.head_dim
            self._attention[ctx] = ctx.joined(
                heads=self._heads, angles=self._rope.table(ctx.device), scale=width**-0.5
            )
        return self._attention[ctx]
