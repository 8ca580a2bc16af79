"""The decoder: two experts a layer, one attention.

Words and seen images pass the first expert, cells of drawings the second; all rows attend to one
another's keys and values. The marks around a drawing are words. An image's rows stand at one
position and see all of one another.

`text`, `see` and `recall` write what was read into a context; `step` writes a token and gives the
next; `denoise` gives the velocity of a drawing and leaves nothing behind.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from mstarc_runtime.engine.context import KVContext
from mstarc_runtime.layers.config import require_value, required
from mstarc_runtime.layers.linear import Linear
from mstarc_runtime.layers.norm import RMSNorm
from mstarc_runtime.layers.parallel import HeadLinear, ShardedEmbedding
from mstarc_runtime.layers.rope import Rope, RopeSettings
from mstarc_runtime.layers.shard import WHOLE, Shard
from mstarc_runtime.models.bagel.embeddings import LATENT_NAMES, LatentEmbedding
from mstarc_runtime.models.bagel.expert import Angles, Expert, expert_names

_VISION_START = 151652
_VISION_END = 151653


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRows:
    """Which rows of a call are what, each request's being a mark, its cells, and a mark.

    `owners` i64[R] is the request of a row, `cells` i64[R] the number of its cell (a mark has
    that of the cell beside it), `opening` and `closing` i64[B] are the marks' rows.
    """

    owners: Tensor
    cells: Tensor
    opening: Tensor
    closing: Tensor

    @classmethod
    def of(cls, ctx: KVContext, count: int) -> Self:
        closing = ctx.last_rows
        opening = torch.cat((torch.zeros_like(closing[:1]), closing[:-1] + 1))
        numbers = torch.arange(count, device=closing.device)
        owners = torch.searchsorted(closing, numbers)
        within = numbers - opening.index_select(0, owners) - 1
        most = (closing - opening - 2).index_select(0, owners)
        cells = torch.minimum(within, most).clamp(min=0)
        return cls(owners=owners, cells=cells, opening=opening, closing=closing)

    @property
    def marks(self) -> Tensor:
        """i64[2B]"""
        return torch.cat((self.opening, self.closing))


class Layer(nn.Module):
    """One attention between two experts."""

    def __init__(
        self,
        config: Mapping[str, Any],
        rope: Rope,
        *,
        shard: Shard,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__()
        self.words = Expert(config, rope, shard=shard, dtype=dtype, device=device)
        self.cells = Expert(config, rope, shard=shard, dtype=dtype, device=device)

    def read(self, ctx: KVContext, layer: int, x: Tensor, angles: Angles) -> Tensor:
        """Rows [R, D] of words and seen images."""
        q, k, v = self.words.heads(x, angles)
        return self.words.finish(x, ctx.attend(layer, q, k, v))

    def draw(self, ctx: KVContext, layer: int, x: Tensor, angles: Angles, marks: Tensor) -> Tensor:
        """Rows [R, D] of drawings, those of `marks` i64[2B] being words."""
        marked = x.index_select(0, marks)
        at_marks = (angles[0].index_select(0, marks), angles[1].index_select(0, marks))
        heads = self.cells.heads(x, angles)
        for all_rows, own in zip(heads, self.words.heads(marked, at_marks), strict=True):
            all_rows.index_copy_(0, marks, own)
        attended = ctx.attend(layer, *heads)
        out = self.cells.finish(x, attended)
        words = self.words.finish(marked, attended.index_select(0, marks))
        return out.index_copy_(0, marks, words)


class MixtureOfTransformers(nn.Module):
    """The decoder of one node, or a part of it. `config`: llm_config, max_latent_size, … of
    config.json; `special_tokens` gives ids of marks that a checkpoint's vocabulary has
    elsewhere."""

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        dtype: torch.dtype,
        device: torch.device,
        shard: Shard = WHOLE,
    ) -> None:
        super().__init__()
        language = required(config, "llm_config")
        require_value(language, "hidden_act", "silu", "silu")
        require_value(language, "tie_word_embeddings", False, False)
        width = int(required(language, "hidden_size"))
        heads = int(required(language, "num_attention_heads"))
        eps = float(language.get("rms_norm_eps", 1e-6))
        self.vocab_size = int(required(language, "vocab_size"))
        special = config.get("special_tokens", {})
        self._marks = (
            int(special.get("vision_start", _VISION_START)),
            int(special.get("vision_end", _VISION_END)),
        )
        self.rope = Rope(
            RopeSettings.from_config(
                language, head_dim=int(language.get("head_dim") or width // heads)
            )
        )
        self.embedding = ShardedEmbedding(
            self.vocab_size, width, shard=shard, dtype=dtype, device=device
        )
        self.layers = nn.ModuleList(
            Layer(language, self.rope, shard=shard, dtype=dtype, device=device)
            for _ in range(int(required(language, "num_hidden_layers")))
        )
        self.word_norm = RMSNorm(width, eps=eps, dtype=dtype, device=device)
        self.cell_norm = RMSNorm(width, eps=eps, dtype=dtype, device=device)
        self.head = HeadLinear(width, self.vocab_size, shard=shard, dtype=dtype, device=device)
        self.latents = LatentEmbedding(config, dtype=dtype, device=device)
        self.velocity = Linear(width, self.latents.depth, bias=True, dtype=dtype, device=device)

    @classmethod
    def build(
        cls,
        config: Mapping[str, Any],
        *,
        dtype: torch.dtype,
        device: torch.device,
        shard: Shard = WHOLE,
    ) -> Self:
        """A decoder without weights. Fails with MS9109 or MS9012 where it can't be served."""
        return cls(config, dtype=dtype, device=device, shard=shard)

    def weight_map(self) -> Mapping[str, str | tuple[str, ...]]:
        """Own parameter → tensors of the checkpoint, several being concatenated on dim 0."""
        return {name: _checkpoint_names(name) for name, _ in self.named_parameters()}

    def text(self, ctx: KVContext, ids: Tensor) -> None:
        """Reads `ids` i64[R]."""
        ctx.observe(ids)
        self._read(ctx, self.embedding(ids))

    def see(self, ctx: KVContext, emb: Tensor) -> None:
        """Reads what the vision tower saw: `emb` [R, D], a row for each mark around it."""
        rows = ImageRows.of(ctx, emb.shape[0])
        self._read(ctx, self._with_marks(emb, rows))

    def recall(self, ctx: KVContext, emb: Tensor) -> None:
        """Reads an image as a finished drawing: `emb` [R, D], a row for each mark around it."""
        rows = ImageRows.of(ctx, emb.shape[0])
        self._draw(ctx, self._with_marks(emb, rows), rows.marks)

    def step(self, ctx: KVContext, token: Tensor) -> Tensor:
        """The token i64[B] that follows `token` i64[B]."""
        hidden = self._read(ctx, self.embedding(token))
        return ctx.sample(self.head(self.word_norm(hidden)))

    def denoise(self, ctx: KVContext, x: Tensor, t: Tensor, columns: Tensor) -> Tensor:
        """The velocity [R, depth] of drawings `x` f32[R, depth] at times `t` f32[B].

        `columns` i64[B] is how many cells a drawing is wide. Rows of marks are not read, and 0.
        """
        rows = ImageRows.of(ctx, x.shape[0])
        wide = columns.index_select(0, rows.owners)
        down = torch.div(rows.cells, wide, rounding_mode="floor")
        places = down * self.latents.side + rows.cells - down * wide
        emb = self._with_marks(self.latents.forward(x, t, rows.owners, places), rows)
        hidden = self._draw(ctx, emb, rows.marks)
        return self.velocity(self.cell_norm(hidden)).index_fill_(0, rows.marks, 0.0)

    def _with_marks(self, emb: Tensor, rows: ImageRows) -> Tensor:
        """`emb` with the words of its marks where they stand."""
        x = emb.to(self.embedding.weight.dtype, copy=True)
        for mark, where in zip(self._marks, (rows.opening, rows.closing), strict=True):
            x.index_copy_(0, where, self.embedding(torch.full_like(where, mark)))
        return x

    def _read(self, ctx: KVContext, x: Tensor) -> Tensor:
        angles = self.rope.angles(ctx.positions)
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            x = layer.read(ctx, number, x, angles)
        return x

    def _draw(self, ctx: KVContext, x: Tensor, marks: Tensor) -> Tensor:
        angles = self.rope.angles(ctx.positions)
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            x = layer.draw(ctx, number, x, angles, marks)
        return x


_WHOLE: Mapping[str, str] = {
    "embedding": "language_model.model.embed_tokens",
    "word_norm": "language_model.model.norm",
    "cell_norm": "language_model.model.norm_moe_gen",
    "head": "language_model.lm_head",
    "velocity": "llm2vae",
}


def _checkpoint_names(name: str) -> str | tuple[str, ...]:
    part, _, kind = name.rpartition(".")
    if part in _WHOLE:
        return f"{_WHOLE[part]}.{kind}"
    if part.startswith("latents."):
        return LATENT_NAMES[name.removeprefix("latents.")]
    _, layer, expert, inner = part.split(".", 3)
    names = tuple(
        f"language_model.model.layers.{layer}.{piece}.{kind}"
        for piece in expert_names(inner, draws=expert == "cells")
    )
    return names[0] if len(names) == 1 else names
