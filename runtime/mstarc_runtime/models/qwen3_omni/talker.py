"""The Talker: what the Thinker has read and writes → the first code of each frame of speech.

A frame is `groups` codes, one of each codebook; the code predictor draws the others. The Talker
hears the user's turns and the beginning of the answer (`prefill`), then voice and marks of the
codec beside the answer's first word (`begin`), then a frame beside the next word (`step`).
"""

from collections.abc import Mapping
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from mstarc_runtime.engine.context import KVContext
from mstarc_runtime.layers.config import required
from mstarc_runtime.layers.embedding import Embedding
from mstarc_runtime.layers.linear import Linear
from mstarc_runtime.layers.parallel import HeadLinear
from mstarc_runtime.layers.shard import WHOLE, Shard
from mstarc_runtime.models.qwen3_omni.decoder import Angles, Config, Names, Stack, rope_of
from mstarc_runtime.models.qwen3_omni.marks import TABLE, Words
from mstarc_runtime.plan_api import Maybe

# Ids at the end of the vocabulary that are marks, of which only the end of speech is ever drawn.
_MARKS = 1024
_MARK_KEYS = (
    "codec_nothink_id",
    "codec_think_bos_id",
    "codec_think_eos_id",
    "codec_pad_id",
    "codec_bos_id",
)
# Rows of `words`: what is heard when there is no word, and before the first one.
_PAD, _BOS = 0, 1
_OPENING = 6


class Talker(nn.Module):
    """Config: `talker_config`, and the ids `tts_pad_token_id` and `tts_bos_token_id`, whose rows
    of the Thinker's embedding it has a copy of."""

    by_shape = frozenset({"prefill"})

    def __init__(
        self,
        config: Config,
        words: Words,
        *,
        shard: Shard,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__()
        own = required(config, "text_config")
        codes = required(config, "code_predictor_config")
        width, inner = int(required(own, "hidden_size")), int(required(own, "intermediate_size"))
        heard = int(required(config, "thinker_hidden_size"))
        self.vocab_size = int(required(own, "vocab_size"))
        self.groups = int(required(config, "num_code_groups"))
        self.code_count = int(required(codes, "vocab_size"))
        self.end = int(required(config, "codec_eos_token_id"))
        self.rope = rope_of(own)
        self.stack = Stack(own, self.rope, is_mixture=True, shard=shard, dtype=dtype, device=device)
        self.text_projection = Projection(heard, inner, width, dtype=dtype, device=device)
        self.hidden_projection = Projection(heard, inner, width, dtype=dtype, device=device)
        self.words_embedding = words
        self.code_embedding = Embedding(self.vocab_size, width, dtype=dtype, device=device)
        # The tables of all other codebooks, one behind the other.
        self.rest_embedding = Embedding(
            (self.groups - 1) * self.code_count, width, dtype=dtype, device=device
        )
        self.head = HeadLinear(width, self.vocab_size, shard=shard, dtype=dtype, device=device)
        self._streamed = self.stack.streamed(lambda: self.head.weight)
        # Rows of words that are the same for every request, made of the weights at first use.
        self._words: dict[int, Tensor] = {}
        self.marks: Tensor
        self.never: Tensor
        self.starts: Tensor
        self._set_constants(config, torch.device("cpu") if device.type == "meta" else device)

    @classmethod
    def build(
        cls,
        config: Mapping[str, Any],
        *,
        dtype: torch.dtype,
        device: torch.device,
        shard: Shard = WHOLE,
    ) -> Self:
        """A Talker without weights. Fails with MS9109 where `config` can't be served."""
        own = required(config, "talker_config")
        ids = [int(required(config, key)) for key in ("tts_pad_token_id", "tts_bos_token_id")]
        words = Words(config, ids, dtype=dtype, device=device)
        return cls(own, words, shard=shard, dtype=dtype, device=device)

    def weight_map(self) -> Mapping[str, Names]:
        """Own parameter → tensors of the checkpoint, several being concatenated on dim 0."""
        projections = {
            name: name
            for name, _ in self.named_parameters()
            if name.startswith(("text_projection.", "hidden_projection."))
        }
        stack = self.stack.weight_map("model.")
        return {
            **projections,
            **{f"stack.{own}": names for own, names in stack.items()},
            "words_embedding.weight": TABLE,
            "code_embedding.weight": "model.codec_embedding.weight",
            "rest_embedding.weight": tuple(
                f"code_predictor.model.codec_embedding.{group}.weight"
                for group in range(self.groups - 1)
            ),
            "head.weight": "codec_head.weight",
        }

    def prefill(self, ctx: KVContext, h: Tensor, media: Tensor, place: Tensor) -> Tensor:
        """Hears rows [R, H]: text's embeddings, and states where `media` bool[R] holds.

        `place` i64[R, 3] are their positions. Gives the position i64[B] behind each request's rows.
        """
        rows = torch.where(media[:, None], self.hidden_projection(h), self.text_projection(h))
        self.stack.forward(ctx, rows, self.rope.angles_of(place))
        return place.index_select(0, ctx.last_rows).amax(1) + 1

    def begin(
        self, ctx: KVContext, h: Maybe, speaker: Tensor, at: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Six rows a request from position `at` i64[B]: the voice among marks, then the first word.

        Gives the first code i64[B], the row [B, D] that it was drawn of, and by how much the
        request's positions are ahead of its rows, i64[B].
        """
        batch = speaker.shape[0]
        pad, bos = self._word(_PAD), self._word(_BOS)
        said = torch.stack([pad, pad, pad, pad, bos]).expand(batch, -1, -1)
        word = self._heard(h, pad)
        text = torch.cat([said, word[:, None]], dim=1)
        marks = self.marks.expand(batch, -1).clone()
        codes = torch.cat([marks[:, :3], speaker[:, None], marks[:, 3:]], dim=1)
        rows = (text + self.code_embedding(codes)).flatten(0, 1)
        steps = torch.arange(_OPENING, device=rows.device)
        angles = self.rope.angles((at[:, None] + steps).flatten())
        code, past = self._next(ctx, rows, angles)
        first = ctx.positions.index_select(0, ctx.last_rows) - (_OPENING - 1)
        return code, past, at - first

    def step(self, ctx: KVContext, frame: Tensor, h: Maybe, ahead: Tensor) -> tuple[Tensor, Tensor]:
        """A frame i64[B, groups] and the next word → the next frame's first code i64[B] and the
        row [B, D] that it was drawn of. `ahead` as `begin` gave it."""
        rest = self.rest_embedding(frame[:, 1:] + self.starts).sum(1)
        rows = self.code_embedding(frame[:, 0]) + rest + self._heard(h, self._word(_PAD))
        turns = ctx.positions + ahead
        streamed = self._streamed.begin(ctx)
        if streamed is None:
            return self._next(ctx, rows, self.rope.angles(turns))
        streamed.take(rows)
        streamed.run(turns=turns)
        past = streamed.rows()
        logits = self.head.gathered(streamed.logits(self.head.weight))
        return ctx.sample(logits + self.never), past

    def _next(self, ctx: KVContext, rows: Tensor, angles: Angles) -> tuple[Tensor, Tensor]:
        past = self.stack.forward(ctx, rows, angles).index_select(0, ctx.last_rows)
        logits = self.head(past).float() + self.never
        return ctx.sample(logits), past

    def _word(self, number: int) -> Tensor:
        if number not in self._words:
            self._words[number] = self.text_projection(self.words_embedding.weight[number])
        return self._words[number]

    def _heard(self, h: Maybe, otherwise: Tensor) -> Tensor:
        return torch.where(h.there[:, None], self.text_projection(h.value), otherwise)

    def _set_constants(self, config: Config, device: torch.device) -> None:
        marks = torch.tensor([int(required(config, key)) for key in _MARK_KEYS], device=device)
        never = torch.zeros(self.vocab_size, dtype=torch.float32, device=device)
        never[self.vocab_size - _MARKS :] = -float("inf")
        never[self.end] = 0.0
        starts = torch.arange(self.groups - 1, device=device) * self.code_count
        for name, value in (("marks", marks), ("never", never), ("starts", starts)):
            self.register_buffer(name, value, persistent=False)


class Projection(nn.Module):
    """Rows of the Thinker's width → rows of the Talker's."""

    def __init__(
        self, width: int, inner: int, out: int, *, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__()
        self.linear_fc1 = Linear(width, inner, bias=True, dtype=dtype, device=device)
        self.linear_fc2 = Linear(inner, out, bias=True, dtype=dtype, device=device)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear_fc2(functional.silu(self.linear_fc1(x)))

    def __call__(self, x: Tensor) -> Tensor:
        return cast(Tensor, super().__call__(x))
