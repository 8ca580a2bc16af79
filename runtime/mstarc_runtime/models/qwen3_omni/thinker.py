"""The Thinker: rows of text, sound and pictures → the tokens of the reply.

A mixture-of-experts decoder whose positions have three axes. `h`, which the Talker hears, is a text
row's embedding, or an inner layer's state of a row of sound or picture.
"""

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from mstarc_runtime.engine.context import KVContext
from mstarc_runtime.layers.config import bad_config, required
from mstarc_runtime.layers.parallel import HeadLinear, ShardedEmbedding
from mstarc_runtime.layers.shard import WHOLE, Shard
from mstarc_runtime.models.qwen3_omni.decoder import Angles, Config, Names, Stack, rope_of


class Thinker(nn.Module):
    """Config: `thinker_config.text_config`, and `talker_config.accept_hidden_layer`, the layer
    whose rows the Talker hears."""

    by_shape = frozenset({"text", "parts"})

    def __init__(
        self,
        config: Config,
        heard: int,
        *,
        shard: Shard,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__()
        width = int(required(config, "hidden_size"))
        self.vocab_size = int(required(config, "vocab_size"))
        self.heard = heard
        self.rope = rope_of(config)
        more: Any = {"shard": shard, "dtype": dtype, "device": device}
        self.embedding = ShardedEmbedding(self.vocab_size, width, **more)
        self.stack = Stack(config, self.rope, is_mixture=True, **more)
        self.head = HeadLinear(width, self.vocab_size, **more)
        self._streamed = self.stack.streamed(lambda: self.head.weight)
        if not 0 < heard < len(self.stack.layers):
            raise bad_config("accept_hidden_layer", heard, f"1 .. {len(self.stack.layers) - 1}")

    @classmethod
    def build(
        cls,
        config: Mapping[str, Any],
        *,
        dtype: torch.dtype,
        device: torch.device,
        shard: Shard = WHOLE,
    ) -> Self:
        """A Thinker without weights. Fails with MS9109 where `config` can't be served."""
        own = required(required(config, "thinker_config"), "text_config")
        heard = int(required(config.get("talker_config", {}), "accept_hidden_layer"))
        return cls(own, heard, shard=shard, dtype=dtype, device=device)

    def weight_map(self) -> Mapping[str, Names]:
        """Own parameter → tensors of the checkpoint, several being concatenated on dim 0."""
        stack = self.stack.weight_map("model.")
        return {
            "embedding.weight": "model.embed_tokens.weight",
            "head.weight": "lm_head.weight",
            **{f"stack.{own}": names for own, names in stack.items()},
        }

    def text(self, ctx: KVContext, ids: Tensor) -> tuple[Tensor, Tensor]:
        """`ids` i64[R] → the token i64[B] that follows, and [R, D] to hear."""
        rows = self.embedding(ids)
        made, _ = self._run(ctx, rows, self.rope.angles(ctx.positions))
        return self._next(ctx, made.index_select(0, ctx.last_rows)), rows

    def parts(
        self,
        ctx: KVContext,
        ids: Tensor,
        emb: Tensor,
        deep: Tensor,
        media: Tensor,
        places: Tensor,
        span: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """As `text`, of rows that are `emb` [R, D] where `media` bool[R] holds.

        `deep` [R, taps, D] is added behind the first layers. `places` i64[R, 3] are the rows'
        places in time and picture, from where the call begins, and `span` i64[B] those behind them.
        """
        rows = torch.where(media[:, None], emb, self.embedding(ids))
        angles = self.rope.angles_of(ctx.positions[:, None] + places)
        made, states = self._run(ctx, rows, angles, deep)
        heard = torch.where(media[:, None], states, rows)
        return self._next(ctx, made.index_select(0, ctx.last_rows)), heard

    def step(self, ctx: KVContext, token: Tensor, speak: Tensor | bool) -> tuple[Tensor, Tensor]:
        """The token i64[B] after `token` i64[B], and [B, D] to hear of `token`."""
        rows = self.embedding(token)
        streamed = self._streamed.begin(ctx)
        if streamed is None:
            made, _ = self._run(ctx, rows, self.rope.angles(ctx.positions))
            return self._next(ctx, made), rows
        streamed.take(rows)
        streamed.run()
        logits = self.head.gathered(streamed.logits(self.head.weight))
        return ctx.sample(logits), rows

    def embed(self, ctx: KVContext, token: Tensor) -> Tensor:
        """[B, D] of `token` i64[B], which is not read."""
        return self.embedding(token)

    def _run(
        self, ctx: KVContext, x: Tensor, angles: Angles, deep: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The normed rows of the last layer, and those that the Talker hears."""
        heard = x
        taps = 0 if deep is None else deep.shape[1]
        for number in range(len(self.stack.layers)):
            x = self.stack.layer(ctx, number, x, angles)
            if number + 1 == self.heard:
                heard = x
            if deep is not None and number < taps:
                x = x + deep[:, number].to(x.dtype)
        return self.stack.norm(x), heard

    def _next(self, ctx: KVContext, rows: Tensor) -> Tensor:
        return ctx.sample(self.head(rows))
