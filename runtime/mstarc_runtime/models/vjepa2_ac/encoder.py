"""The encoder sees each frame by itself: twice, since it takes frames in pairs."""

from collections.abc import Mapping

from torch import Tensor
from torch.nn import functional

from mstarc_runtime.engine.context import OpContext
from mstarc_runtime.models import vjepa2
from mstarc_runtime.models.vjepa2_ac.names import block_names


class Encoder(vjepa2.Encoder):
    """The node. `config`: as for V-JEPA 2's encoder. Features are normed, without weights."""

    by_shape = frozenset({"encode"})

    def weight_map(self) -> Mapping[str, str]:
        """Own parameter → the tensor of the checkpoint below `encoder.`."""
        return {name: _checkpoint_name(name) for name, _ in self.named_parameters()}

    def encode(self, ctx: OpContext, px: Tensor) -> Tensor:
        """Features f32[B, F, tokens, D] of frames `px` f32[B, F, 3, H, W]."""
        pairs = px.flatten(0, 1).unsqueeze(1).expand(-1, self.depth, -1, -1, -1)
        features = super().encode(ctx, pairs)
        normed: Tensor = functional.layer_norm(features, features.shape[-1:])
        return normed.view(*px.shape[:2], *normed.shape[1:])


_WHOLE = {
    "patches": "patch_embed.proj.weight",
    "patch_bias": "patch_embed.proj.bias",
    "layernorm.weight": "norm.weight",
    "layernorm.bias": "norm.bias",
}


def _checkpoint_name(name: str) -> str:
    return _WHOLE[name] if name in _WHOLE else block_names(name, "blocks")
