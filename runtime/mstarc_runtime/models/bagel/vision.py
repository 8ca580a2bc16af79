"""The vision tower: patches of an image become rows of the decoder.

A SigLIP encoder over patches of any number (their places say where they stand), whose rows a
connector of two layers makes as wide as the decoder's; each gets its place added once more. The
tower's last layer is left out, as the model was trained.
"""

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from mstarc_runtime.engine.context import OpContext
from mstarc_runtime.layers.config import require_value, required
from mstarc_runtime.layers.embedding import Embedding
from mstarc_runtime.layers.linear import Linear
from mstarc_runtime.models.bagel.embeddings import setting

_GELU = "gelu_pytorch_tanh"
_UNUSED_LAYERS = 1


class _TwoLayers(nn.Module):
    """`fc2(gelu(fc1(x)))`."""

    def __init__(
        self, width: int, inner: int, out: int, *, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__()
        self.fc1 = Linear(width, inner, bias=True, dtype=dtype, device=device)
        self.fc2 = Linear(inner, out, bias=True, dtype=dtype, device=device)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(functional.gelu(self.fc1(x), approximate="tanh"))


class _Layer(nn.Module):
    """Attention of all patches of an image to all, and feed-forward."""

    def __init__(
        self, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__()
        width = int(required(config, "hidden_size"))
        eps = float(config.get("layer_norm_eps", 1e-6))
        self._heads = int(required(config, "num_attention_heads"))
        self.norm1 = nn.LayerNorm(width, eps=eps, dtype=dtype, device=device)
        self.qkv = Linear(width, 3 * width, bias=True, dtype=dtype, device=device)
        self.out = Linear(width, width, bias=True, dtype=dtype, device=device)
        self.norm2 = nn.LayerNorm(width, eps=eps, dtype=dtype, device=device)
        self.mlp = _TwoLayers(
            width, int(required(config, "intermediate_size")), width, dtype=dtype, device=device
        )

    def forward(self, x: Tensor) -> Tensor:
        """[B, P, D] → [B, P, D]"""
        q, k, v = (
            part.unflatten(-1, (self._heads, -1)).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        )
        attended = functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.mlp.forward(self.norm2(x))


class VisionTower(nn.Module):
    """The node. `config`: vit_config, llm_config.hidden_size, vit_max_num_patch_per_side."""

    def __init__(
        self, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__()
        vision = required(config, "vit_config")
        require_value(vision, "hidden_act", _GELU, _GELU)
        require_value(config, "connector_act", _GELU, _GELU)
        require_value(config, "interpolate_pos", False, False)
        width = int(required(vision, "hidden_size"))
        out = int(required(required(config, "llm_config"), "hidden_size"))
        patch = int(required(vision, "patch_size"))
        own_side = int(required(vision, "image_size")) // patch
        side = int(setting(config, "vit_max_num_patch_per_side"))
        colours = int(vision.get("num_channels", 3))
        self.patches = Linear(patch**2 * colours, width, bias=True, dtype=dtype, device=device)
        self.own_places = Embedding(own_side**2, width, dtype=dtype, device=device)
        self.layers = nn.ModuleList(
            _Layer(vision, dtype=dtype, device=device)
            for _ in range(int(required(vision, "num_hidden_layers")) - _UNUSED_LAYERS)
        )
        eps = float(vision.get("layer_norm_eps", 1e-6))
        self.norm = nn.LayerNorm(width, eps=eps, dtype=dtype, device=device)
        self.connector = _TwoLayers(width, out, out, dtype=dtype, device=device)
        self.places = Embedding(side**2, out, dtype=dtype, device=device)

    by_shape = frozenset({"encode"})

    @classmethod
    def build(cls, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device) -> Self:
        """A tower without weights. Fails with MS9109 where `config` can't be served."""
        return cls(config, dtype=dtype, device=device)

    def weight_map(self) -> Mapping[str, str | tuple[str, ...]]:
        """Own parameter → tensors of the checkpoint, several being concatenated on dim 0."""
        return {name: _checkpoint_names(name) for name, _ in self.named_parameters()}

    def encode(self, ctx: OpContext, patches: Tensor, places: Tensor) -> Tensor:
        """Rows [B, P + 2, D] of `patches` f32[B, P, 588] at `places` i64[B, P].

        The first and the last row are 0: there is room for the marks around an image.
        """
        x = self.patches(patches.to(self.patches.weight.dtype)) + self.own_places(places)
        for layer in self.layers:
            x = layer(x)
        rows = self.connector.forward(self.norm(x)) + self.places(places)
        return functional.pad(rows, (0, 0, 1, 1))


_TOWER = "vit_model.vision_model"
_WHOLE: Mapping[str, str] = {
    "patches": f"{_TOWER}.embeddings.patch_embedding",
    "own_places": f"{_TOWER}.embeddings.position_embedding",
    "norm": f"{_TOWER}.post_layernorm",
    "connector.fc1": "connector.fc1",
    "connector.fc2": "connector.fc2",
}
_PARTS: Mapping[str, tuple[str, ...]] = {
    "norm1": ("layer_norm1",),
    "norm2": ("layer_norm2",),
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "out": ("self_attn.out_proj",),
    "mlp.fc1": ("mlp.fc1",),
    "mlp.fc2": ("mlp.fc2",),
}


def _checkpoint_names(name: str) -> str | tuple[str, ...]:
    if name == "places.weight":
        return "vit_pos_embed.pos_embed"
    part, _, kind = name.rpartition(".")
    if part in _WHOLE:
        return f"{_WHOLE[part]}.{kind}"
    _, layer, inner = part.split(".", 2)
    names = tuple(f"{_TOWER}.encoder.layers.{layer}.{piece}.{kind}" for piece in _PARTS[inner])
    return names[0] if len(names) == 1 else names
