"""The predictor: rows of features that are shown become those of places that are asked for.

Each row that is asked for begins as the same learnt row; only its place tells it from others. All
rows attend to all. `foresee` asks for the depth of tubelets behind the last one.
"""

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from mstarc_runtime.engine.context import OpContext
from mstarc_runtime.layers.config import require_value, required
from mstarc_runtime.layers.linear import Linear
from mstarc_runtime.models.vjepa2.blocks import Block, block_names, places, turns

# Of the learnt rows, the one that the public model asks with.
_ASKING = 1


class Predictor(nn.Module):
    """The node. `config`: pred_hidden_size, pred_num_hidden_layers, … of config.json."""

    def __init__(
        self, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__()
        require_value(config, "hidden_act", "gelu", "gelu")
        outer = int(required(config, "hidden_size"))
        width = int(required(config, "pred_hidden_size"))
        heads = int(required(config, "pred_num_attention_heads"))
        eps = float(config.get("layer_norm_eps", 1e-6))
        self._head_dim = width // heads
        self._side = int(required(config, "crop_size")) // int(required(config, "patch_size"))
        learnt = int(required(config, "pred_num_mask_tokens"))
        self.mask_tokens = nn.Parameter(
            torch.empty(learnt, 1, 1, width, dtype=dtype, device=device), requires_grad=False
        )
        self.into = Linear(outer, width, bias=True, dtype=dtype, device=device)
        self.layer = nn.ModuleList(
            Block(
                width,
                heads,
                int(width * float(config.get("pred_mlp_ratio", 4.0))),
                bias=bool(config.get("qkv_bias", True)),
                eps=eps,
                dtype=dtype,
                device=device,
            )
            for _ in range(int(required(config, "pred_num_hidden_layers")))
        )
        self.layernorm = nn.LayerNorm(width, eps=eps, dtype=dtype, device=device)
        self.proj = Linear(width, outer, bias=True, dtype=dtype, device=device)

    @classmethod
    def build(cls, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device) -> Self:
        """A predictor without weights. Fails with MS9109 where `config` can't be served."""
        return cls(config, dtype=dtype, device=device).requires_grad_(False).eval()

    def weight_map(self) -> Mapping[str, str | tuple[str, ...]]:
        """Own parameter → tensors of the checkpoint below `predictor.`."""
        return {name: _checkpoint_names(name) for name, _ in self.named_parameters()}

    def predict(self, ctx: OpContext, z: Tensor, shown: Tensor, asked: Tensor) -> Tensor:
        """Features f32[B, A, D] of the places `asked` i64[B, A], of the rows `shown` i64[B, C] of
        `z` f32[B, N, D]. Places count behind the clip's end, too."""
        seen = z.gather(1, shown[..., None].expand(-1, -1, z.shape[-1]))
        context = self.into(seen.to(self.into.weight.dtype))
        asking = self.mask_tokens[_ASKING % self.mask_tokens.shape[0], 0]
        x = torch.cat((context, asking.expand(*asked.shape, -1)), dim=1)
        at = places(torch.cat((shown, asked), dim=1), self._side)
        cosines, sines = turns(at, self._head_dim)
        by = (cosines.unsqueeze(1), sines.unsqueeze(1))
        for block in self.layer:
            x = block(x, by)
        return self.proj(self.layernorm(x[:, shown.shape[1] :])).float()

    def foresee(self, ctx: OpContext, z: Tensor) -> Tensor:
        """Features f32[B, side * side, D] of what comes behind `z` f32[B, N, D]."""
        batch, count = z.shape[:2]
        numbers = torch.arange(count + self._side**2, device=z.device).expand(batch, -1)
        return self.predict(ctx, z, numbers[:, :count], numbers[:, count:])


def _checkpoint_names(name: str) -> str | tuple[str, ...]:
    if name == "mask_tokens":
        return "embeddings.mask_tokens"
    if name.startswith("into."):
        return name.replace("into.", "embeddings.predictor_embeddings.")
    return block_names(name) if name.startswith("layer.") else name
