"""The vision tower: SigLIP, in float32 whatever the rest is in, and a projection behind it.

The policy was trained with a tower in float32, and what it does depends on the tower's rounding.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from mstarc_runtime.engine.context import OpContext
from mstarc_runtime.layers.config import bad_config, required
from mstarc_runtime.layers.embedding import Embedding
from mstarc_runtime.layers.linear import Linear
from mstarc_runtime.models.pi05.sizes import vision_sizes

if TYPE_CHECKING:
    from mstarc_runtime.models.pi05.tower_passes import TowerPasses

_EPS = 1e-6
# What products of float32 are on a GPU: those, three of float16 or six of bfloat16 that say the
# same but for the last bits, or some of fewer bits.
_PRECISIONS = ("ieee", "fp16x3", "bf16x6", "tf32", "fp16")


@contextmanager
def _products(*, tf32: bool) -> Iterator[None]:
    """On a GPU, products of float32 of which 10 bits of each factor count (`tf32`), or all."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


class _Layer(nn.Module):
    """Attention of all patches of an image to all, and feed-forward."""

    def __init__(self, width: int, heads: int, inner: int, *, device: torch.device) -> None:
        super().__init__()
        kind: dict[str, Any] = {"dtype": torch.float32, "device": device}
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, eps=_EPS, **kind)
        self.qkv = Linear(width, 3 * width, bias=True, **kind)
        self.out = Linear(width, width, bias=True, **kind)
        self.norm2 = nn.LayerNorm(width, eps=_EPS, **kind)
        self.fc1 = Linear(width, inner, bias=True, **kind)
        self.fc2 = Linear(inner, width, bias=True, **kind)

    def forward(self, x: Tensor) -> Tensor:
        """[N, P, D] → [N, P, D]"""
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        )
        attended = functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        inner = functional.gelu(self.fc1(self.norm2(x)), approximate="tanh")
        return x + self.fc2(inner)


class VisionTower(nn.Module):
    """The node. `config`: vision_config, or the public sizes without it; `float32_matmul`: what
    products of float32 are on a GPU, `ieee`, `fp16x3` or `bf16x6` (faster, with errors of float32's
    size), `tf32` or `fp16` (of 11 bits)."""

    def __init__(self, config: Mapping[str, Any], *, device: torch.device) -> None:
        super().__init__()
        sizes = vision_sizes(config)
        kind: dict[str, Any] = {"dtype": torch.float32, "device": device}
        width = int(required(sizes, "hidden_size"))
        self._patch = int(required(sizes, "patch_size"))
        side = int(required(sizes, "image_size")) // self._patch
        self.patches = nn.Parameter(
            torch.empty(width, 3, self._patch, self._patch, **kind), requires_grad=False
        )
        self.patch_bias = nn.Parameter(torch.empty(width, **kind), requires_grad=False)
        self.places = Embedding(side**2, width, **kind)
        self.layers = nn.ModuleList(
            _Layer(
                width,
                int(required(sizes, "num_attention_heads")),
                int(required(sizes, "intermediate_size")),
                device=device,
            )
            for _ in range(int(required(sizes, "num_hidden_layers")))
        )
        self.norm = nn.LayerNorm(width, eps=_EPS, **kind)
        self.project = Linear(width, int(required(sizes, "projection_dim")), bias=True, **kind)
        self.out_dtype = torch.float32
        precision = config.get("float32_matmul", "ieee")
        if precision not in _PRECISIONS:
            raise bad_config(
                "float32_matmul", precision, "`ieee`, `fp16x3`, `bf16x6`, `tf32` or `fp16`"
            )
        self.precision = precision
        self._passes: dict[str, TowerPasses] = {}

    by_shape = frozenset({"encode"})

    @classmethod
    def build(cls, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device) -> Self:
        """A tower without weights, which gives rows of `dtype`."""
        made = cls(config, device=device).requires_grad_(False).eval()
        made.out_dtype = dtype
        return made

    def weight_map(self) -> Mapping[str, str | tuple[str, ...]]:
        """Own parameter → tensors of the checkpoint, several being concatenated on dim 0."""
        return {name: _checkpoint_names(name) for name, _ in self.named_parameters()}

    def encode(self, ctx: OpContext, px: Tensor) -> Tensor:
        """Rows [B, C * patches, D] of images `px` f32[B, C, 3, S, S] in -1 .. 1."""
        images = px.flatten(0, 1).to(self.patches.dtype)
        parts = images.unflatten(3, (-1, self._patch)).unflatten(2, (-1, self._patch))
        # [N, 3, rows, high, columns, wide] → a row of numbers a patch.
        rows = parts.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
        x = functional.linear(rows, self.patches.flatten(1), self.patch_bias) + self.places.weight
        with _products(tf32=self.precision == "tf32"):
            if x.device.type == "cuda" and self.precision != "ieee":
                seen = self._by_kernels()(x)
            else:
                for layer in self.layers:
                    x = layer(x)
                seen = self.project(self.norm(x))
        return seen.to(self.out_dtype).view(*px.shape[:2], *seen.shape[1:]).flatten(1, 2)

    def _by_kernels(self) -> "TowerPasses":
        """What goes through all layers; made at the first call."""
        made = self._passes.get(self.precision)
        if made is None:
            from mstarc_runtime.models.pi05.tower_passes import PARTS, TowerPasses

            layers = [layer for layer in self.layers if isinstance(layer, _Layer)]
            made = TowerPasses(layers, self.norm, self.project, parts=PARTS[self.precision])
            self._passes[self.precision] = made
        return made


_TOWER = "vision_tower.vision_model"
_WHOLE: Mapping[str, str] = {
    "patches": f"{_TOWER}.embeddings.patch_embedding.weight",
    "patch_bias": f"{_TOWER}.embeddings.patch_embedding.bias",
    "places.weight": f"{_TOWER}.embeddings.position_embedding.weight",
    "norm.weight": f"{_TOWER}.post_layernorm.weight",
    "norm.bias": f"{_TOWER}.post_layernorm.bias",
    "project.weight": "multi_modal_projector.linear.weight",
    "project.bias": "multi_modal_projector.linear.bias",
}
_PARTS: Mapping[str, tuple[str, ...]] = {
    "norm1": ("layer_norm1",),
    "norm2": ("layer_norm2",),
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "out": ("self_attn.out_proj",),
    "fc1": ("mlp.fc1",),
    "fc2": ("mlp.fc2",),
}


def _checkpoint_names(name: str) -> str | tuple[str, ...]:
    if name in _WHOLE:
        return _WHOLE[name]
    _, number, part, kind = name.split(".")
    names = tuple(f"{_TOWER}.encoder.layers.{number}.{piece}.{kind}" for piece in _PARTS[part])
    return names[0] if len(names) == 1 else names
