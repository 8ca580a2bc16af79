"""Code2Wav: frames of codes (12.5 a second) → samples at 24 kHz.

A decoder with a sliding window looks back over frames, then convolutions make 1920 samples of each.
The first of these know what comes next: of F frames the last 555 samples are not made.

A stream is cut into chunks that begin with frames that were decoded before (`ctx.old`), since the
attention's layers together look far back. Each layer and each convolution computes what the next
one needs for the new samples and no more, and only samples that were not given before are given.
Whatever the chunks, the samples are those of all frames decoded at once.

On a GPU the convolutions are a chain of our own kernels (`kernels.vocoder_stack`).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parameter import Parameter

from mstarc_runtime.engine.context import ChunkContext, StatelessContext
from mstarc_runtime.layers.config import require_value, required
from mstarc_runtime.layers.rope import Rope, RopeSettings
from mstarc_runtime.models.qwen3_omni.code2wav_parts import (
    Block,
    Causal,
    ConvNeXt,
    Part,
    SnakeBeta,
    Stretch,
)

# Old frames of a call that is fitted, unless there are fewer than the convolutions hear.
_LEAST_OLD = 16


class Code2Wav(nn.Module):
    """Config: `code2wav_config`. Names of weights are the checkpoint's."""

    by_shape = frozenset({"decode"})

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        require_value(config, "hidden_act", "silu", "silu")
        require_value(config, "attention_bias", False, False)
        width = int(required(config, "hidden_size"))
        inner = int(required(config, "decoder_dim"))
        rates = [int(rate) for rate in required(config, "upsample_rates")]
        ratios = [int(ratio) for ratio in required(config, "upsampling_ratios")]
        self.groups = int(required(config, "num_quantizers"))
        self.code_count = int(required(config, "codebook_size"))
        self.samples_per_frame = math.prod(rates) * math.prod(ratios)
        self.code_embedding = nn.Embedding(self.code_count * self.groups, width)
        self.pre_transformer = _Transformer(config, width)
        self.upsample = nn.ModuleList(
            nn.ModuleList([Stretch(width, width, ratio, ratio), ConvNeXt(width)])
            for ratio in ratios
        )
        widths = [inner // 2**step for step in range(len(rates) + 1)]
        blocks = [Block(widths[step], widths[step + 1], rate) for step, rate in enumerate(rates)]
        self.decoder = nn.ModuleList(
            [
                Causal(width, inner, 7),
                *blocks,
                SnakeBeta(widths[-1]),
                Causal(widths[-1], 1, 7),
            ]
        )
        self._stack: Any = None
        # The most new frames that a call had.
        self._most_new = 0

    @classmethod
    def build(cls, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device) -> Self:
        """A vocoder without weights. Fails with MS9109 where `config` can't be served."""
        with torch.device(device):
            made = cls(required(config, "code2wav_config"))
        return made.to(dtype).requires_grad_(False).eval()

    def weight_map(self) -> Mapping[str, str]:
        return {name: name for name, _ in self.named_parameters()}

    def decode(self, ctx: ChunkContext, frames: Tensor, missing: Tensor | None = None) -> Tensor:
        """f32[B, N] in -1 .. 1 of codes i64[B, F, groups], of which `ctx.old` frames were decoded.

        N is 1920 for each new frame, and 555 less if there is no old one. The first `missing`
        i64[B] of the old frames are none: nobody hears them.
        """
        old, count = ctx.old, frames.shape[1]
        assert old < count, "a chunk has something new"
        wanted = self.samples_per_frame * (count - old)
        starts = torch.arange(self.groups, device=frames.device) * self.code_count
        embedded = self.code_embedding(frames + starts).mean(2)
        rows = self.pre_transformer(embedded, self.frames_for(wanted), missing)
        samples = self._convolved(rows, wanted)
        return samples if old == 0 else samples[:, -wanted:]

    def fit_decode(self, ctx: ChunkContext, frames: Tensor) -> "FittedDecode":
        """The same call in one of a few shapes: more old frames in front, which are missing, more
        new ones behind, and more requests."""
        batch, count = frames.shape[:2]
        old, new = ctx.old, count - ctx.old
        self._most_new = max(self._most_new, new)
        made = new if new == self._most_new else min(_power_above(new), self._most_new)
        heard = self.frames_for(self.samples_per_frame * made) - made
        whole = heard + self.pre_transformer.reach
        held = old
        if old >= heard:
            # What is further back than the attention looks is left out.
            frames, old = frames[:, max(0, old - whole) :], min(old, whole)
            held = min(max(_LEAST_OLD, _power_above(old), heard), whole)
        bucket = _power_above(batch)
        fitted = frames.new_zeros((bucket, held + made, self.groups))
        fitted[:batch, held - old : held + new] = frames
        missing = torch.full((bucket,), held - old, device=frames.device)
        return FittedDecode(
            context=StatelessContext(batch=bucket, device=frames.device, old=held),
            arguments=(fitted, missing),
            batch=batch,
            left_out=self.samples_per_frame * (made - new),
        )

    def frames_for(self, samples: int) -> int:
        """How many of the last frames the convolutions hear for as many of the last samples."""
        for part in reversed(list(self.parts())):
            samples = part.needs(samples)
        return samples

    def parts(self) -> "Iterator[Part]":
        """The convolutions and what stands between them, in order."""
        modules: Any = (*self.upsample, *self.decoder)
        for module in modules:
            if isinstance(module, Part):
                yield module
                continue
            parts: Any = module.block if isinstance(module, Block) else module
            yield from parts

    def _convolved(self, rows: Tensor, wanted: int) -> Tensor:
        """f32 samples of rows [B, F, C], `wanted` of them or a few more."""
        if rows.device.type == "cuda" and self._is_stacked(rows.dtype):
            made: Tensor = self._stack(rows, wanted)
            return made
        return self.plain_samples(rows, wanted)

    def _is_stacked(self, dtype: torch.dtype) -> bool:
        """Whether our own kernels serve this vocoder."""
        if self._stack is None:
            # Here, because its compiler comes with torch for GPUs only.
            from mstarc_runtime.kernels.vocoder_stack import VocoderStack, is_served

            self._stack = VocoderStack(self) if is_served(self, dtype) else False
        return self._stack is not False

    def plain_samples(self, rows: Tensor, wanted: int) -> Tensor:
        """As the kernels, by plain torch, whatever the device."""
        parts = list(self.parts())
        needed = [wanted]
        for part in reversed(parts):
            needed.append(part.needs(needed[-1]))
        x = rows.transpose(1, 2)
        for part, need in zip(parts, reversed(needed[1:]), strict=True):
            x = part(x[..., -need:])
        samples: Tensor = x[:, 0].float().clamp(-1, 1)
        return samples


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedDecode:
    """A call of `decode` in another shape, and what of its samples is meant."""

    context: StatelessContext
    arguments: tuple[Tensor, Tensor]
    batch: int
    left_out: int

    def cut(self, samples: Tensor) -> Tensor:
        """The samples of the call that was fitted."""
        return samples[: self.batch, : samples.shape[1] - self.left_out]


def _power_above(count: int) -> int:
    return 1 << (count - 1).bit_length()


class _Transformer(nn.Module):
    """Layers of attention over the last `sliding_window` frames, the present one included."""

    def __init__(self, config: Mapping[str, Any], width: int) -> None:
        super().__init__()
        heads = int(required(config, "num_attention_heads"))
        self.window = int(required(config, "sliding_window"))
        head_dim = int(config.get("head_dim") or width // heads)
        self.rope = Rope(RopeSettings.from_config(config, head_dim=head_dim))
        self.layers = nn.ModuleList(
            _Layer(config, width, head_dim)
            for _ in range(int(required(config, "num_hidden_layers")))
        )
        self.norm = nn.RMSNorm(width, eps=float(config.get("rms_norm_eps", 1e-5)))

    @property
    def reach(self) -> int:
        """How many rows back all layers together look."""
        return len(self.layers) * (self.window - 1)

    def forward(self, x: Tensor, wanted: int, missing: Tensor | None = None) -> Tensor:
        """The last `wanted` rows, or all if there are fewer; the first `missing` of x are none."""
        count = x.shape[1]
        places = torch.arange(count, device=x.device)
        behind = places[:, None] - places[None]
        mask = (behind >= 0) & (behind < self.window)
        if missing is not None:
            # A row that is none hears itself, so that it is a number.
            is_there = (places >= missing[:, None])[:, None, None] | (behind == 0)
            mask = mask & is_there
        cosine, sine = self.rope.angles(places)
        for number, layer in enumerate(self.layers, 1):
            # What the layers above it hear of it.
            made = min(x.shape[1], wanted + (len(self.layers) - number) * (self.window - 1))
            heard = x.shape[1]
            angles = cosine[-heard:], sine[-heard:]
            x = layer(x, made, self.rope, angles, mask[..., -made:, -heard:])
        normed: Tensor = self.norm(x)
        return normed


class _Layer(nn.Module):
    def __init__(self, config: Mapping[str, Any], width: int, head_dim: int) -> None:
        super().__init__()
        eps = float(config.get("rms_norm_eps", 1e-5))
        self.input_layernorm = nn.RMSNorm(width, eps=eps)
        self.self_attn = _Attention(config, width, head_dim)
        self.self_attn_layer_scale = _Scale(width)
        self.post_attention_layernorm = nn.RMSNorm(width, eps=eps)
        self.mlp = _FeedForward(width, int(required(config, "intermediate_size")))
        self.mlp_layer_scale = _Scale(width)

    def forward(
        self, x: Tensor, made: int, rope: Rope, angles: tuple[Tensor, Tensor], mask: Tensor
    ) -> Tensor:
        """The last `made` rows; `mask` [made, rows of x]."""
        attended = self.self_attn(self.input_layernorm(x), made, rope, angles, mask)
        x = x[:, -made:] + self.self_attn_layer_scale(attended)
        fed: Tensor = x + self.mlp_layer_scale(self.mlp(self.post_attention_layernorm(x)))
        return fed


class _Attention(nn.Module):
    def __init__(self, config: Mapping[str, Any], width: int, head_dim: int) -> None:
        super().__init__()
        self.head_dim = head_dim
        heads = int(required(config, "num_attention_heads"))
        kv_heads = int(required(config, "num_key_value_heads"))
        self.q_proj = nn.Linear(width, heads * head_dim, bias=False)
        self.k_proj = nn.Linear(width, kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(width, kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(heads * head_dim, width, bias=False)

    def forward(
        self, x: Tensor, made: int, rope: Rope, angles: tuple[Tensor, Tensor], mask: Tensor
    ) -> Tensor:
        q, k, v = (
            project(rows).unflatten(-1, (-1, self.head_dim))
            for project, rows in (
                (self.q_proj, x[:, -made:]),
                (self.k_proj, x),
                (self.v_proj, x),
            )
        )
        of_made = angles[0][-made:], angles[1][-made:]
        # The library that torch prefers compiles kernels for each shape, in a tenth of a second.
        with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
            attended = functional.scaled_dot_product_attention(
                rope.turn(q, of_made).transpose(1, 2),
                rope.turn(k, angles).transpose(1, 2),
                v.transpose(1, 2),
                attn_mask=mask,
                enable_gqa=q.shape[2] != k.shape[2],
            )
        given: Tensor = self.o_proj(attended.transpose(1, 2).flatten(2))
        return given


class _FeedForward(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return made


class _Scale(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = Parameter(torch.empty(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x
