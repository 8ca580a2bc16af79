"""Whisper: a log-mel spectrogram becomes states, and states become the tokens of what was said.

`Encoder.encode`: f32[B, 80, 3000] → [B, 1500, D], bidirectional attention over half a minute.
`Decoder.start`: states → cross keys and values; a prompt (start, language, task, no time stamps) →
the written context; both → the first token. `Decoder.step`: token → next token.

Names of weights are those of `WhisperForConditionalGeneration`. Not here: making the spectrogram
and reading tokens (voice_chat), choosing when to stop (the spec).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mstarc_runtime.engine.context import KVContext, OpContext

_CONTEXT: Final = "sound"
_MASKED: Final = -float("inf")


class Encoder(nn.Module):
    """The half that hears. Config: d_model, encoder_layers, encoder_attention_heads, …"""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        width = int(config["d_model"])
        self.conv1 = nn.Conv1d(int(config["num_mel_bins"]), width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.embed_positions = nn.Embedding(int(config["max_source_positions"]), width)
        self.layers = nn.ModuleList(
            _EncoderLayer(
                width, int(config["encoder_attention_heads"]), int(config["encoder_ffn_dim"])
            )
            for _ in range(int(config["encoder_layers"]))
        )
        self.layer_norm = nn.LayerNorm(width)

    @classmethod
    def build(cls, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device) -> Self:
        with torch.device(device):
            return cls(config).to(dtype).requires_grad_(False).eval()

    def weight_map(self) -> Mapping[str, str]:
        return {name: f"model.encoder.{name}" for name, _ in self.named_parameters()}

    def encode(self, ctx: OpContext, mel: Tensor) -> Tensor:
        """States [B, N, D] of log-mel features f32[B, 80, 2 N]."""
        hidden = F.gelu(self.conv1(mel.to(self.conv1.weight.dtype)))
        hidden = F.gelu(self.conv2(hidden)).transpose(1, 2)
        hidden = hidden + self.embed_positions.weight[: hidden.shape[1]]
        for layer in self.layers:
            hidden = layer(hidden)
        states: Tensor = self.layer_norm(hidden)
        return states


class Decoder(nn.Module):
    """The half that writes. Config: d_model, decoder_layers, suppress_tokens, …"""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        width = int(config["d_model"])
        heads = int(config["decoder_attention_heads"])
        self.vocabulary = int(config["vocab_size"])
        self.embed_tokens = nn.Embedding(self.vocabulary, width)
        self.embed_positions = nn.Embedding(int(config["max_target_positions"]), width)
        self.layers = nn.ModuleList(
            _DecoderLayer(width, heads, int(config["decoder_ffn_dim"]), index)
            for index in range(int(config["decoder_layers"]))
        )
        self.layer_norm = nn.LayerNorm(width)
        self.suppress: Tensor
        self.suppress_first: Tensor
        self._set_masks(config)

    @classmethod
    def build(cls, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device) -> Self:
        with torch.device(device):
            module = cls(config).to(dtype).requires_grad_(False).eval()
        if device.type == "meta":
            # The masks are no weights: nobody would fill them.
            module._set_masks(config)
        return module

    def weight_map(self) -> Mapping[str, str]:
        return {name: f"model.decoder.{name}" for name, _ in self.named_parameters()}

    def start(self, ctx: KVContext, states: Tensor, prompt: Tensor) -> Tensor:
        """The first token i64[B] of states [B, N, D] and the packed rows of prompts i64[R]."""
        for layer in self.layers:
            assert isinstance(layer, _DecoderLayer)
            key, value = layer.encoder_attn.keys_and_values(states)
            ctx.write_cross(layer.index, key, value, context=_CONTEXT)
        hidden = self._run(ctx, prompt)
        logits = self._logits(hidden[ctx.last_rows])
        return ctx.sample(logits + self.suppress_first)

    def step(self, ctx: KVContext, token: Tensor) -> Tensor:
        """The token i64[B] after `token` i64[B]."""
        return ctx.sample(self._logits(self._run(ctx, token)) + self.suppress)

    def _set_masks(self, config: Mapping[str, Any]) -> None:
        never = config.get("suppress_tokens") or []
        never_first = [*never, *(config.get("begin_suppress_tokens") or [])]
        self.register_buffer("suppress", _mask(never, self.vocabulary), persistent=False)
        self.register_buffer(
            "suppress_first", _mask(never_first, self.vocabulary), persistent=False
        )

    def _run(self, ctx: KVContext, ids: Tensor) -> Tensor:
        hidden: Tensor = self.embed_tokens(ids) + self.embed_positions(ctx.positions)
        for layer in self.layers:
            hidden = layer(ctx, hidden)
        return hidden

    def _logits(self, hidden: Tensor) -> Tensor:
        return F.linear(self.layer_norm(hidden), self.embed_tokens.weight).float()


def _mask(tokens: Sequence[int], vocabulary: int) -> Tensor:
    """What to add to logits f32[V] so that `tokens` are never chosen."""
    mask = torch.zeros(vocabulary, dtype=torch.float32)
    mask[torch.tensor(tokens, dtype=torch.int64)] = _MASKED
    return mask


class _Attention(nn.Module):
    """The projections of one attention; q, k, v are [..., heads, D / heads]. k has no bias."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)

    def query(self, hidden: Tensor) -> Tensor:
        query: Tensor = self.q_proj(hidden).unflatten(-1, (self.heads, -1))
        return query

    def keys_and_values(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        key: Tensor = self.k_proj(hidden).unflatten(-1, (self.heads, -1))
        value: Tensor = self.v_proj(hidden).unflatten(-1, (self.heads, -1))
        return key, value

    def output(self, attended: Tensor) -> Tensor:
        output: Tensor = self.out_proj(attended.flatten(-2))
        return output


class _EncoderLayer(nn.Module):
    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.self_attn = _Attention(width, heads)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, inner)
        self.fc2 = nn.Linear(inner, width)
        self.final_layer_norm = nn.LayerNorm(width)

    def forward(self, hidden: Tensor) -> Tensor:
        """[B, N, D] → [B, N, D]; every row sees every row."""
        normed = self.self_attn_layer_norm(hidden)
        key, value = self.self_attn.keys_and_values(normed)
        query = self.self_attn.query(normed).transpose(1, 2)
        attended = F.scaled_dot_product_attention(query, key.transpose(1, 2), value.transpose(1, 2))
        hidden = hidden + self.self_attn.output(attended.transpose(1, 2))
        inner = F.gelu(self.fc1(self.final_layer_norm(hidden)))
        result: Tensor = hidden + self.fc2(inner)
        return result


class _DecoderLayer(nn.Module):
    def __init__(self, width: int, heads: int, inner: int, index: int) -> None:
        super().__init__()
        self.index = index
        self.self_attn = _Attention(width, heads)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        self.encoder_attn = _Attention(width, heads)
        self.encoder_attn_layer_norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, inner)
        self.fc2 = nn.Linear(inner, width)
        self.final_layer_norm = nn.LayerNorm(width)

    def forward(self, ctx: KVContext, hidden: Tensor) -> Tensor:
        """Rows [R, D] → [R, D]: own context, then the sound, then the feed-forward net."""
        normed = self.self_attn_layer_norm(hidden)
        key, value = self.self_attn.keys_and_values(normed)
        attended = ctx.attend(self.index, self.self_attn.query(normed), key, value)
        hidden = hidden + self.self_attn.output(attended)
        query = self.encoder_attn.query(self.encoder_attn_layer_norm(hidden))
        attended = ctx.attend_cross(self.index, query, context=_CONTEXT)
        hidden = hidden + self.encoder_attn.output(attended)
        inner = F.gelu(self.fc1(self.final_layer_norm(hidden)))
        result: Tensor = hidden + self.fc2(inner)
        return result
