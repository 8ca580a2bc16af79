"""The vision tower: patches of an image or of a film's frames → rows that the Thinker reads.

A frame (two pictures of a film, or one picture twice) has Y x X blocks of 2 x 2 patches. Patches
attend within their frame; a block becomes one row. `encode` gives these rows and, from some inner
layers, rows that are added behind the Thinker's first layers (its deep stack).
"""

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from mstarc_runtime.engine.context import OpContext
from mstarc_runtime.layers.config import require_value, required

Angles = tuple[Tensor, Tensor]
# Which four entries of the position table a patch is between, and what each counts for.
Corners = tuple[Tensor, Tensor]


class VisionTower(nn.Module):
    """Config: `thinker_config.vision_config`."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        require_value(config, "hidden_act", "gelu_pytorch_tanh", "gelu_pytorch_tanh")
        rope = config.get("rope_parameters") or {}
        width = int(required(config, "hidden_size"))
        heads = int(required(config, "num_heads"))
        self.merge = int(required(config, "spatial_merge_size"))
        self.side = int(int(required(config, "num_position_embeddings")) ** 0.5)
        self.head_dim = width // heads
        self.theta = float(rope.get("rope_theta", 10000.0))
        self.deep_layers = [int(layer) for layer in required(config, "deepstack_visual_indexes")]
        out, block = int(required(config, "out_hidden_size")), width * self.merge**2
        self.out = out
        self.patch_embed = _PatchEmbed(config, width)
        self.pos_embed = nn.Embedding(self.side**2, width)
        self.blocks = nn.ModuleList(
            _Block(width, heads, int(required(config, "intermediate_size")))
            for _ in range(int(required(config, "depth")))
        )
        self.merger = _Merger(width, block, out)
        self.merger_list = nn.ModuleList(_Merger(block, block, out) for _ in self.deep_layers)
        self._grids: dict[tuple[int, int, torch.device], tuple[Angles, Corners]] = {}

    @classmethod
    def build(cls, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device) -> Self:
        """A tower without weights. Fails with MS9109 where `config` can't be served."""
        own = required(required(config, "thinker_config"), "vision_config")
        with torch.device(device):
            return cls(own).to(dtype).requires_grad_(False).eval()

    def weight_map(self) -> Mapping[str, str]:
        return {name: name for name, _ in self.named_parameters()}

    def encode(self, ctx: OpContext, px: Tensor) -> tuple[Tensor, Tensor]:
        """`seen`."""
        return self.seen(px)

    def nothing(self, ctx: OpContext) -> tuple[Tensor, Tensor]:
        """Zeros [B, 1, D] and [B, 1, taps, D]: what stands in place of a row of a picture."""
        zeros = self.pos_embed.weight.new_zeros(ctx.batch, 1, len(self.deep_layers), self.out)
        return zeros[:, :, 0], zeros

    def seen(self, px: Tensor) -> tuple[Tensor, Tensor]:
        """Rows [B, N, D] and [B, N, taps, D] of u8[B, F, Y, X, merge² · patch], N = F · Y · X.

        A block holds its patches line by line. Pixels are brought to -1 … 1 here: a film is large.
        """
        batch, frames, rows, columns, _ = px.shape
        angles, (corners, shares) = self._grid(rows, columns, px.device)
        pixels = px.float() / 127.5 - 1.0
        x = self.patch_embed(pixels.reshape(batch * frames, rows * columns * self.merge**2, -1))
        places = (self.pos_embed(corners) * shares[:, :, None]).sum(1)
        x = x + places.to(x.dtype)
        deep: list[Tensor] = []
        for number, block in enumerate(self.blocks):
            x = block(x, angles)
            if number in self.deep_layers:
                deep.append(self.merger_list[self.deep_layers.index(number)](x))
        made = self.merger(x).view(batch, frames * rows * columns, -1)
        taps = [tap.view(made.shape) for tap in deep]
        return made, torch.stack(taps, dim=2)

    def _grid(self, rows: int, columns: int, device: torch.device) -> tuple[Angles, Corners]:
        """What depends on the places of a frame's patches only."""
        wanted = (rows, columns, device)
        if wanted not in self._grids:
            across, down = self.merge * columns, self.merge * rows
            y, x = torch.meshgrid(torch.arange(down), torch.arange(across), indexing="ij")
            y, x = (self._in_blocks(axis, rows, columns) for axis in (y, x))
            angles = self._angles(y, x)
            corners = self._corners(y, x, down, across)
            self._grids[wanted] = (
                (angles[0].to(device), angles[1].to(device)),
                (corners[0].to(device), corners[1].to(device)),
            )
        return self._grids[wanted]

    def _in_blocks(self, places: Tensor, rows: int, columns: int) -> Tensor:
        blocks = places.view(rows, self.merge, columns, self.merge)
        return blocks.transpose(1, 2).flatten()

    def _angles(self, y: Tensor, x: Tensor) -> Angles:
        """f32[N, 1, head_dim / 2]: half of the pairs turn with the line, half with the column."""
        half = self.head_dim // 2
        rates = 1.0 / (self.theta ** (torch.arange(0, half, 2, dtype=torch.float32) / half))
        radians = torch.cat([y[:, None] * rates, x[:, None] * rates], dim=1).unsqueeze(1)
        return radians.cos(), radians.sin()

    def _corners(self, y: Tensor, x: Tensor, down: int, across: int) -> Corners:
        """i64[N, 4] and f32[N, 4]: the table is stretched over the frame, corner on corner."""
        lines, line_shares = self._between(y, down)
        columns, column_shares = self._between(x, across)
        corners = lines[:, :, None] * self.side + columns[:, None]
        shares = line_shares[:, :, None] * column_shares[:, None]
        return corners.flatten(1), shares.flatten(1)

    def _between(self, places: Tensor, count: int) -> tuple[Tensor, Tensor]:
        exact = places.float() * (self.side - 1) / max(count - 1, 1)
        below = exact.floor()
        share = exact - below
        taps = torch.stack([below, below + 1], dim=1).long().clamp(max=self.side - 1)
        return taps, torch.stack([1 - share, share], dim=1)


class _PatchEmbed(nn.Module):
    """A matrix over whole patches; the checkpoint has it as a convolution."""

    def __init__(self, config: Mapping[str, Any], width: int) -> None:
        super().__init__()
        size = int(required(config, "patch_size"))
        depth = int(required(config, "temporal_patch_size"))
        self.proj = nn.Conv3d(int(config.get("in_channels", 3)), width, (depth, size, size))

    def forward(self, patches: Tensor) -> Tensor:
        weight = self.proj.weight
        return functional.linear(patches.to(weight.dtype), weight.flatten(1), self.proj.bias)


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor, angles: Angles) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(2)
        q, k = _turn(q, angles), _turn(k, angles)
        made = functional.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        )
        out: Tensor = self.proj(made.transpose(1, 2).flatten(2))
        return out


def _turn(x: Tensor, angles: Angles) -> Tensor:
    cosine, sine = angles
    first, second = x.float().chunk(2, dim=-1)
    turned = torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)
    return turned.to(x.dtype)


class _FeedForward(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.linear_fc1 = nn.Linear(width, inner)
        self.linear_fc2 = nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.linear_fc2(functional.gelu(self.linear_fc1(x), approximate="tanh"))
        return made


class _Block(nn.Module):
    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.attn = _Attention(width, heads)
        self.mlp = _FeedForward(width, inner)

    def forward(self, x: Tensor, angles: Angles) -> Tensor:
        x = x + self.attn(self.norm1(x), angles)
        made: Tensor = x + self.mlp(self.norm2(x))
        return made


class _Merger(nn.Module):
    """The patches of each block → one row. The norm is over a patch or over a block (`normed`)."""

    def __init__(self, normed: int, block: int, out: int) -> None:
        super().__init__()
        self.normed, self.block = normed, block
        self.ln_q = nn.LayerNorm(normed, eps=1e-6)
        self.mlp = nn.ModuleList([nn.Linear(block, block), nn.GELU(), nn.Linear(block, out)])

    def forward(self, x: Tensor) -> Tensor:
        x = self.ln_q(x.reshape(-1, self.normed)).view(-1, self.block)
        for part in self.mlp:
            x = part(x)
        return x
