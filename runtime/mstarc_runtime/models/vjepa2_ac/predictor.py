"""The predictor: the rows of a frame, beside its move and its pose, become those of the next frame.

A frame stands in the context as two rows for move and pose, then one a tubelet. Its rows attend to
one another and to all frames before it; a cache holds those, so that a frame is computed once.
Features that come out are normed without weights, as those of the encoder are.

`FrameRows` makes rows of many frames and features of rows; `ActionPredictor.follow` runs them
through the layers, `step` does all three for one frame and moves the pose on.
"""

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from mstarc_runtime.attention.backend import JoinedHeads
from mstarc_runtime.engine.context import KVContext, OpContext
from mstarc_runtime.layers.config import require_value, required
from mstarc_runtime.layers.joined import attend_joined
from mstarc_runtime.layers.linear import Linear
from mstarc_runtime.layers.rowwise import added_normed
from mstarc_runtime.models.vjepa2.blocks import Block, Turns, places, row_norm, turns
from mstarc_runtime.models.vjepa2_ac.names import block_names
from mstarc_runtime.models.vjepa2_ac.poses import moved
from mstarc_runtime.plan_api import Maybe

CONDITIONS = 2
# No clip has more.
_MOST_FRAMES = 4096


class _Ends(nn.Module):
    """What is before and behind the layers."""

    def __init__(
        self, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__()
        require_value(config, "use_extrinsics", False, False)
        outer = int(required(config, "hidden_size"))
        width = int(required(config, "pred_hidden_size"))
        numbers = int(config.get("action_embed_dim", 7))
        side = int(required(config, "crop_size")) // int(required(config, "patch_size"))
        self.side = side
        self.frame_rows = CONDITIONS + side * side
        self.into = Linear(outer, width, bias=True, dtype=dtype, device=device)
        self.action = Linear(numbers, width, bias=True, dtype=dtype, device=device)
        self.state = Linear(numbers, width, bias=True, dtype=dtype, device=device)
        self.norm = nn.LayerNorm(width, eps=1e-6, dtype=dtype, device=device)
        self.out = Linear(width, outer, bias=True, dtype=dtype, device=device)

    def rows(self, z: Tensor, a: Tensor, s: Tensor) -> Tensor:
        """[..., rows of a frame, width] of `z` [..., tokens, D], `a` and `s` f32[..., 7]."""
        dtype = self.into.weight.dtype
        conditions = (self.action(a.to(dtype)), self.state(s.to(dtype)))
        return torch.cat((torch.stack(conditions, dim=-2), self.into(z.to(dtype))), dim=-2)

    def features(self, x: Tensor) -> Tensor:
        """f32[..., tokens, D] of `x` [..., rows of a frame, width]."""
        z = self.out(self.norm(x[..., CONDITIONS:, :])).float()
        return functional.layer_norm(z, z.shape[-1:])


class FrameRows(nn.Module):
    """Rows of frames as the layers take them, and features of what they give."""

    def __init__(
        self, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__()
        self.ends = _Ends(config, dtype=dtype, device=device)

    @classmethod
    def build(cls, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device) -> Self:
        """Without weights. Fails with MS9109 where `config` can't be served."""
        return cls(config, dtype=dtype, device=device).requires_grad_(False).eval()

    def weight_map(self) -> Mapping[str, str]:
        """Own parameter → the tensor of the checkpoint below `predictor.`."""
        return {name: _checkpoint_name(name) for name, _ in self.named_parameters()}

    def join(self, ctx: OpContext, z: Tensor, a: Tensor, s: Tensor, e: Maybe) -> Tensor:
        """Rows [B, F * rows, width] of frames `z` f32[B, F, tokens, D], their moves and poses
        f32[B, F, 7]. The model was trained without a camera's place, `e`."""
        return self.ends.rows(z, a, s).flatten(1, 2)

    def split(self, ctx: OpContext, x: Tensor) -> Tensor:
        """Features f32[B, F, tokens, D] of rows `x` [B, F * rows, width]."""
        return self.ends.features(x.unflatten(1, (-1, self.ends.frame_rows)))


class ActionPredictor(nn.Module):
    """The node with a cache. `config`: pred_hidden_size, pred_num_hidden_layers, …"""

    def __init__(
        self, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__()
        width = int(required(config, "pred_hidden_size"))
        heads = int(required(config, "pred_num_attention_heads"))
        self._head_dim = width // heads
        self._tables: dict[torch.device, tuple[Tensor, Tensor]] = {}
        self.ends = _Ends(config, dtype=dtype, device=device)
        self.layer = nn.ModuleList(
            _Layer(
                width,
                heads,
                int(width * float(config.get("pred_mlp_ratio", 4.0))),
                bias=True,
                eps=1e-6,
                dtype=dtype,
                device=device,
            )
            for _ in range(int(required(config, "pred_num_hidden_layers")))
        )

    @classmethod
    def build(cls, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device) -> Self:
        """A predictor without weights. Fails with MS9109 where `config` can't be served."""
        return cls(config, dtype=dtype, device=device).requires_grad_(False).eval()

    def weight_map(self) -> Mapping[str, str]:
        """Own parameter → the tensor of the checkpoint below `predictor.`."""
        return {name: _checkpoint_name(name) for name, _ in self.named_parameters()}

    def follow(self, ctx: KVContext, x: Tensor) -> Tensor:
        """Rows [R, width] behind the layers, of those of whole frames."""
        by = self._turns(ctx.positions)
        x, more = x.to(self.ends.into.weight.dtype), None
        for number, layer in enumerate(self.layer):
            assert isinstance(layer, _Layer)
            x, more = layer.attend(ctx, number, x, more, by)
        return x if more is None else x + more

    def step(
        self, ctx: KVContext, z: Tensor, a: Tensor, s: Tensor, e: Maybe
    ) -> tuple[Tensor, Tensor]:
        """The features f32[B, tokens, D] and the pose f32[B, 7] behind a move `a` f32[B, 7] from
        `z` and `s`. The model was trained without a camera's place, `e`."""
        rows = self.ends.rows(z, a, s)
        behind = self.follow(ctx, rows.flatten(0, 1)).view(rows.shape)
        return self.ends.features(behind), moved(s, a)

    def _turns(self, positions: Tensor) -> Turns:
        """Where rows stand: move and pose of a frame are turned by its number alone.

        A number of a head follows one axis. So a row's angles are those of its frame and those of
        its place in it, each 0 where the other has numbers, and come from tables of both.
        """
        frame = torch.div(positions, self.ends.frame_rows, rounding_mode="floor")
        within = positions - frame * self.ends.frame_rows
        frames, cells = self._tables_on(positions.device)
        at = frames.index_select(0, frame) + cells.index_select(0, within)
        cosines, sines = at.chunk(2, dim=-1)
        return cosines.contiguous(), sines.contiguous()

    def _tables_on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Cosines and sines side by side, [_MOST_FRAMES, 2 D] and [rows of a frame, 2 D]."""
        if device not in self._tables:
            side, count = self.ends.side, self.ends.frame_rows
            # A frame's first cell is in row 0 and column 0.
            cell = (torch.arange(count, device=device) - CONDITIONS).clamp(min=0)
            frame = torch.arange(_MOST_FRAMES, device=device) * side * side
            of_cells = torch.cat(turns(places(cell, side), self._head_dim), dim=-1)
            of_frames = torch.cat(turns(places(frame, side), self._head_dim), dim=-1)
            # Those of a frame come first: as many as an axis has.
            own = torch.arange(2 * self._head_dim, device=device) % self._head_dim
            is_frame = own < 2 * (self._head_dim // 6)
            self._tables[device] = (
                of_frames.masked_fill(~is_frame, 0.0),
                of_cells.masked_fill(is_frame, 0.0),
            )
        return self._tables[device]


class _Layer(Block):
    """A layer whose rows attend through a cache."""

    def attend(
        self, ctx: KVContext, number: int, x: Tensor, more: Tensor | None, by: Turns
    ) -> tuple[Tensor, Tensor]:
        """Rows [R, D], and what comes to them; of such from the layer before. `by` is
        [R, head_dim]."""
        x, normed = added_normed(x, more, row_norm(self.norm1))
        joined = JoinedHeads(
            qkv=self.qkv(normed),
            count=self.heads,
            turns=by,
            halves=False,
            scale=by[0].shape[-1] ** -0.5,
        )
        attended = self.proj(attend_joined(ctx, number, (joined,)))
        x, normed = added_normed(x, attended, row_norm(self.norm2))
        return x, self.fc2(functional.gelu(self.fc1(normed)))


_ENDS = {
    "into": "predictor_embed",
    "action": "action_encoder",
    "state": "state_encoder",
    "norm": "predictor_norm",
    "out": "predictor_proj",
}


def _checkpoint_name(name: str) -> str:
    if name.startswith("layer."):
        return block_names(name, "predictor_blocks")
    _, part, kind = name.split(".")
    return f"{_ENDS[part]}.{kind}"
