"""The decoder: two experts a layer, one attention.

Words and seen images pass the first expert, cells of drawings the second; all rows attend to one
another's keys and values. The marks around a drawing are words. An image's rows stand at one
position and see all of one another.

`text`, `see` and `recall` write what was read into a context; `step` writes a token and gives the
next; `denoise` gives the velocity of a drawing and leaves nothing behind.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from mstarc_runtime.engine.context import KVContext
from mstarc_runtime.layers.config import require_value, required
from mstarc_runtime.layers.joined import attend_joined
from mstarc_runtime.layers.linear import Linear
from mstarc_runtime.layers.norm import RMSNorm
from mstarc_runtime.layers.parallel import HeadLinear, ShardedEmbedding
from mstarc_runtime.layers.rope import Rope, RopeSettings
from mstarc_runtime.layers.shard import WHOLE, Shard
from mstarc_runtime.models.bagel.embeddings import LATENT_NAMES, LatentEmbedding
from mstarc_runtime.models.bagel.expert import Expert, Rows, Turns, expert_names, whole

_VISION_START = 151652
_VISION_END = 151653


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRows:
    """Which rows of a call are what, each request's being a mark, its cells, and a mark.

    `owners` i64[R] is the request of a row, `cells` i64[R] the number of its cell (a mark has
    that of the cell beside it), `opening` and `closing` i64[B] are the marks' rows, `inside` i64[C]
    those of cells.
    """

    owners: Tensor
    cells: Tensor
    opening: Tensor
    closing: Tensor
    inside: Tensor

    @classmethod
    def of(cls, ctx: KVContext, count: int) -> Self:
        closing = ctx.last_rows
        opening = torch.cat((torch.zeros_like(closing[:1]), closing[:-1] + 1))
        numbers = torch.arange(count, device=closing.device)
        owners = torch.searchsorted(closing, numbers)
        within = numbers - opening.index_select(0, owners) - 1
        most = (closing - opening - 2).index_select(0, owners)
        cells = torch.minimum(within, most).clamp(min=0)
        # The rows before a request's first cell: its own opening mark, and two of each before it.
        inside = torch.arange(count - 2 * closing.shape[0], device=closing.device)
        before = torch.arange(closing.shape[0], device=closing.device)
        whose = torch.searchsorted(closing - 2 * before - 1, inside, right=True)
        inside = inside + 2 * whose + 1
        return cls(owners=owners, cells=cells, opening=opening, closing=closing, inside=inside)

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

    def read(self, ctx: KVContext, layer: int, rows: Rows, turns: Turns) -> Rows:
        """Rows of words and seen images."""
        x, heads = self.words.joined(rows, turns)
        return self.words.finish(x, attend_joined(ctx, layer, (heads,)))

    def draw(
        self, ctx: KVContext, layer: int, rows: Sequence[Rows], turns: Turns, at: Sequence[Tensor]
    ) -> list[Rows]:
        """Cells [C, D] and marks [2B, D] of drawings; `at` says which rows of the call they are."""
        experts, count = (self.cells, self.words), len(at[0])
        by = zip(*((part[:count], part[count:]) for part in turns), strict=True)
        ready = [
            expert.joined(part, own, where)
            for expert, part, own, where in zip(experts, rows, by, at, strict=True)
        ]
        attended = attend_joined(ctx, layer, [heads for _, heads in ready])
        return [
            expert.finish(x, attended.index_select(0, where))
            for expert, (x, _), where in zip(experts, ready, at, strict=True)
        ]


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
        self._draw(ctx, self._with_marks(emb, rows), rows)

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
        hidden = self._draw(ctx, emb, rows)
        v = self.velocity(self.cell_norm(hidden))
        return v.new_zeros(x.shape).index_copy_(0, rows.inside, v)

    def _with_marks(self, emb: Tensor, rows: ImageRows) -> Tensor:
        """`emb` with the words of its marks where they stand."""
        x = emb.to(self.embedding.weight.dtype, copy=True)
        for mark, where in zip(self._marks, (rows.opening, rows.closing), strict=True):
            x.index_copy_(0, where, self.embedding(torch.full_like(where, mark)))
        return x

    def _read(self, ctx: KVContext, x: Tensor) -> Tensor:
        turns = self.rope.turns(ctx.positions)
        rows: Rows = (x, None)
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            rows = layer.read(ctx, number, rows, turns)
        return whole(rows)

    def _draw(self, ctx: KVContext, x: Tensor, rows: ImageRows) -> Tensor:
        """The cells [C, D] behind the layers, of rows [R, D]. Each expert's rows lie together."""
        at = (rows.inside, rows.marks)
        parts: list[Rows] = [(x.index_select(0, where), None) for where in at]
        turns = self.rope.turns(ctx.positions.index_select(0, torch.cat(at)))
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            parts = layer.draw(ctx, number, parts, turns, at)
        return whole(parts[0])


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
