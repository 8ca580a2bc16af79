"""What Meta's V-JEPA 2-AC computes with this project's random weights.

A checkout of github.com/facebookresearch/vjepa2 (at c2963a4) → values that tests compare with:

    python -m tests.support.vjepa2_ac_reference vjepa2 tests/runtime/parity/vjepa2_ac.safetensors

It needs scipy and tqdm besides what the tests need, and runs in float32 on a CPU. Frames that are
imagined are computed anew from the first one on, in every step; moves are drawn with our numbers.
"""

import argparse
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from mstarc_runtime.layers.counter_hash import fold, normal
from mstarc_runtime.models.vjepa2.frontend import pixels
from tests.support.vjepa2_ac_cases import (
    FRAMES,
    HORIZON,
    PLAN,
    SEED,
    actions,
    candidates,
    image,
    own_module,
    poses,
    weights,
)


class Public:
    """Meta's encoder and predictor with the tiny sizes and our weights."""

    def __init__(self, checkout: Path) -> None:
        sys.path[:0] = [str(checkout), str(checkout / "notebooks")]
        # Only training drops paths.
        layers = ModuleType("timm.models.layers")
        vars(layers)["drop_path"] = None
        sys.modules |= {"timm": ModuleType("timm"), "timm.models": ModuleType("timm.models")}
        sys.modules["timm.models.layers"] = layers
        config = weights()["dynamics"]["config"]
        side = config["crop_size"]
        self.tokens = (side // config["patch_size"]) ** 2
        vision = import_module("src.models.vision_transformer")
        self.encoder = vision.VisionTransformer(
            img_size=(side, side),
            patch_size=config["patch_size"],
            num_frames=64,
            tubelet_size=config["tubelet_size"],
            embed_dim=config["hidden_size"],
            depth=config["num_hidden_layers"],
            num_heads=config["num_attention_heads"],
            mlp_ratio=config["mlp_ratio"],
            qkv_bias=True,
            norm_layer=lambda width: torch.nn.LayerNorm(width, eps=1e-6),
            use_rope=True,
        ).eval()
        self.predictor = (
            import_module("src.models.ac_predictor")
            .VisionTransformerPredictorAC(
                img_size=(side, side),
                patch_size=config["patch_size"],
                num_frames=64,
                tubelet_size=config["tubelet_size"],
                embed_dim=config["hidden_size"],
                predictor_embed_dim=config["pred_hidden_size"],
                depth=config["pred_num_hidden_layers"],
                num_heads=config["pred_num_attention_heads"],
                norm_layer=lambda width: torch.nn.LayerNorm(width, eps=1e-6),
            )
            .eval()
        )
        for theirs, ours in (
            (self.encoder, [own_module("Encoder", "video_encoder")]),
            (
                self.predictor,
                [own_module("ActionPredictor", "dynamics"), own_module("FrameRows", "frames")],
            ),
        ):
            state: dict[str, Tensor] = {}
            for module in ours:
                own = dict(module.named_parameters())
                for name, public in module.weight_map().items():
                    assert public not in state or torch.equal(state[public], own[name]), public
                    state[public] = own[name]
            missing, extra = theirs.load_state_dict(state, strict=False)
            assert not extra and all(name.startswith("extrinsics") for name in missing), missing

    def features(self, px: Tensor) -> Tensor:
        """[F, tokens, D] of [F, 3, H, W]."""
        pairs = px.unsqueeze(2).repeat(1, 1, 2, 1, 1)
        z = self.encoder(pairs)
        return functional.layer_norm(z, (z.shape[-1],))

    def step(self, z: Tensor, a: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        """The next frame [B, 1, tokens, D] and pose [B, 1, 7] behind T frames [B, T, tokens, D]."""
        out = self.predictor(z.flatten(1, 2), a, s)[:, -self.tokens :]
        nxt = functional.layer_norm(out, (out.shape[-1],)).unflatten(0, (len(z), 1))
        moved = import_module("utils.mpc_utils").compute_new_pose(s[:, -1:], a[:, -1:])
        return nxt, moved

    def rollout(self, z: Tensor, a: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        """Frames [B, H, tokens, D] and poses [B, H, 7] behind moves `a` [B, H, 7]."""
        frames, states = z[:, None], s[:, None]
        for number in range(a.shape[1]):
            nxt, moved = self.step(frames, a[:, : number + 1], states)
            frames, states = torch.cat((frames, nxt), 1), torch.cat((states, moved), 1)
        return frames[:, 1:], states[:, 1:]


def _drawn() -> Iterator[Tensor]:
    """The numbers that ours draws, in the order in which Meta's code asks for them."""
    count, horizon = PLAN["samples"], PLAN["horizon"]
    for number in range(PLAN["rounds"]):
        key = fold(torch.tensor([[SEED, number]]))
        noise = normal(key[:, None], 2, torch.arange(count * horizon * 7)).view(count, horizon, 7)
        for at in range(horizon):
            yield noise[:, at, [0, 1, 2, 6]]


def values(public: Public) -> dict[str, Tensor]:
    crop = weights()["frontend"]["config"]["crop_size"]
    px = torch.stack([pixels(image(number), crop, crop) for number in range(FRAMES)])
    z = public.features(px)
    s, a = poses(), actions()
    predicted = public.predictor(z.flatten(0, 1)[None], a[None, :FRAMES], s[None])
    predicted = functional.layer_norm(predicted, (predicted.shape[-1],))
    frames, states = public.rollout(z[:1], a[None, :HORIZON], s[:1])
    (goal,) = public.features(pixels(image(9), crop, crop)[None])
    many = candidates()
    led = public.rollout(z[-1:].repeat(len(many), 1, 1), many, s[-1:].repeat(len(many), 1))[0]
    costs = (led[:, -1] - goal).abs().mean(dim=(-2, -1))
    planning = import_module("utils.mpc_utils")
    drawn = _drawn()
    with patch("torch.randn", lambda *shape, **_: next(drawn)):
        plan = planning.cem(
            z[-1:, None],
            s[-1:, None],
            goal[None, None],
            public.step,
            rollout=PLAN["horizon"],
            cem_steps=PLAN["rounds"],
            samples=PLAN["samples"],
            topk=PLAN["elites"],
            momentum_mean=0.15,
            momentum_std=0.15,
            maxnorm=0.05,
        )[0]
    return {
        "features": z,
        "prediction": predicted[0].unflatten(0, (FRAMES, -1)),
        "rollout": frames[0],
        "poses": states[0],
        "scores": costs,
        "plan": plan,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    torch.set_grad_enabled(False)
    found: dict[str, Any] = values(Public(arguments.checkout.resolve()))
    save_file({name: value.contiguous() for name, value in found.items()}, arguments.out)
    print(f"{len(found)} values in {arguments.out}, {arguments.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
