"""Meta's V-JEPA 2-AC on the same GPU: a frame is encoded, then frames follow from moves.

A checkout of github.com/facebookresearch/vjepa2 in its full size, with random weights, as its
planner calls it: in every step all frames so far pass the predictor again. It is measured in
float32, and in bfloat16 with what its rotary positions need: `autocast`, since they are float32.
"""

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor
from torch.nn import functional

TOKENS = 256
# Seconds that runs of one horizon may take before three are enough.
_LONG_S = 8.0


class Peer:
    """Meta's encoder and predictor on the GPU."""

    def __init__(self, checkout: Path, dtype: torch.dtype) -> None:
        sys.path[:0] = [str(checkout)]
        # Only training drops paths.
        layers = ModuleType("timm.models.layers")
        vars(layers)["drop_path"] = None
        sys.modules |= {"timm": ModuleType("timm"), "timm.models": ModuleType("timm.models")}
        sys.modules["timm.models.layers"] = layers
        backbones = import_module("src.hub.backbones")
        # A host takes much longer to draw a billion weights.
        with torch.device("cuda"):
            encoder, predictor = backbones._make_vjepa2_ac_model(pretrained=False)
        self.encoder = encoder.to("cuda", dtype).eval()
        self.predictor = predictor.to("cuda", dtype).eval()
        self.dtype = dtype

    def rollout(self, px: Tensor, moves: Tensor, pose: Tensor) -> Tensor:
        """Frames [1, H, tokens, D] behind moves f32[1, H, 7] from a frame and its pose."""
        pairs = px.unsqueeze(2).repeat(1, 1, 2, 1, 1)
        z = self.encoder(pairs)
        frames = functional.layer_norm(z, (z.shape[-1],))[:, None]
        states = pose[:, None]
        for step in range(moves.shape[1]):
            out = self.predictor(frames.flatten(1, 2), moves[:, : step + 1], states)[:, -TOKENS:]
            new = functional.layer_norm(out, (out.shape[-1],))[:, None]
            frames = torch.cat((frames, new), 1)
            # Adding up stands for turning the pose on, which costs its host a while.
            states = torch.cat((states, states[:, -1:] + moves[:, step : step + 1]), 1)
        return frames[:, 1:]


def measure(
    checkout: Path,
    horizons: Sequence[int],
    repeats: int,
    dtypes: Sequence[torch.dtype] = (torch.bfloat16, torch.float32),
) -> dict[int, float]:
    """Prints medians; seconds of the faster precision by horizon."""
    fastest: dict[int, float] = {}
    for dtype in dtypes:
        torch.manual_seed(0)
        peer = Peer(checkout, dtype)
        px = torch.randn(1, 3, 256, 256, device="cuda", dtype=dtype)
        for horizon in horizons:
            moves = 0.02 * torch.randn(1, horizon, 7, device="cuda", dtype=dtype)
            pose = torch.zeros(1, 7, device="cuda", dtype=dtype)
            with torch.autocast("cuda", torch.bfloat16, enabled=dtype == torch.bfloat16):
                times = _times(partial(peer.rollout, px, moves, pose), repeats)
            took = statistics.median(times)
            fastest[horizon] = min(took, fastest.get(horizon, took))
            print(
                f"Meta's code, {dtype}, rollout of {horizon}: {took * 1e3:.1f} ms, "
                f"median of {len(times)}",
                flush=True,
            )
        del peer
        torch.cuda.empty_cache()
    return fastest


def _times(run: Callable[[], Tensor], repeats: int) -> list[float]:
    """Seconds of so many runs behind one that warms up; of three where they take long."""
    times: list[float] = []
    with torch.inference_mode():
        run()
        while len(times) < (repeats if sum(times) < _LONG_S else min(repeats, 3)):
            torch.cuda.synchronize()
            begun = time.perf_counter()
            run()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - begun)
    return times
