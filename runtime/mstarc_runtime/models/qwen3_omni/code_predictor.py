"""The code predictor: the first code of a frame → its other codes, one codebook after the other.

A decoder over depth: its first row is the Talker's, then comes a row for each code. Every codebook
has a table and a head of its own.
"""

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from mstarc_runtime.engine.context import KVContext
from mstarc_runtime.layers.config import bad_config, required
from mstarc_runtime.layers.embedding import Embedding
from mstarc_runtime.layers.rope import Rope, RopeSettings
from mstarc_runtime.models.qwen3_omni.decoder import Config, Names, Stack


class CodePredictor(nn.Module):
    """Config: `talker_config.code_predictor_config`."""

    def __init__(
        self, config: Config, talker: Config, *, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__()
        width = int(required(config, "hidden_size"))
        if width != int(required(talker, "hidden_size")):
            raise bad_config("hidden_size", width, "the Talker's, whose rows it reads")
        self.vocab_size = int(required(config, "vocab_size"))
        self.groups = int(required(config, "num_code_groups"))
        self.first_count = int(required(talker, "vocab_size"))
        self.rope = Rope(
            RopeSettings.from_config(config, head_dim=int(required(config, "head_dim")))
        )
        self.stack = Stack(config, self.rope, is_mixture=False, dtype=dtype, device=device)
        rest = (self.groups - 1) * self.vocab_size
        # The first codebook's table is the Talker's; the others follow.
        self.embedding = Embedding(self.first_count + rest, width, dtype=dtype, device=device)
        self.heads = nn.Parameter(
            torch.empty(rest, width, dtype=dtype, device=device), requires_grad=False
        )
        self._streamed = self.stack.streamed(lambda: self.heads)

    @classmethod
    def build(cls, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device) -> Self:
        """A predictor without weights. Fails with MS9109 where `config` can't be served."""
        talker = required(config, "talker_config")
        own = required(talker, "code_predictor_config")
        return cls(own, required(talker, "text_config"), dtype=dtype, device=device)

    def weight_map(self) -> Mapping[str, Names]:
        """Own parameter → tensors of the checkpoint, several being concatenated on dim 0."""
        stack = self.stack.weight_map("model.")
        rest = range(self.groups - 1)
        return {
            **{f"stack.{own}": names for own, names in stack.items()},
            "embedding.weight": (
                "/talker.model.codec_embedding.weight",
                *(f"model.codec_embedding.{group}.weight" for group in rest),
            ),
            "heads": tuple(f"lm_head.{group}.weight" for group in rest),
        }

    def prime(self, ctx: KVContext, past: Tensor) -> None:
        """Begins a frame with the Talker's row [B, D]."""
        streamed = self._streamed.begin(ctx)
        if streamed is None:
            self.stack.forward(ctx, past, self.rope.angles(ctx.positions))
            return
        streamed.take(past)
        streamed.run(is_kept_only=True)

    def step(self, ctx: KVContext, code: Tensor, depth: int) -> Tensor:
        """The code i64[B] of codebook `depth + 1` behind `code` i64[B] of codebook `depth`."""
        start = 0 if depth == 0 else self.first_count + (depth - 1) * self.vocab_size
        head = self.heads[depth * self.vocab_size : (depth + 1) * self.vocab_size]
        streamed = self._streamed.begin(ctx)
        if streamed is None:
            rows = self.embedding(code + start)
            made = self.stack.forward(ctx, rows, self.rope.angles(ctx.positions))
            return ctx.sample(functional.linear(made, head))
        streamed.embed(code, self.embedding.weight[start:])
        streamed.run()
        return ctx.sample(streamed.logits(head))
