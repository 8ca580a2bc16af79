"""Requests of `gpu_models.py`, and host nodes that hand over tensors which are ready."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from mstarc_runtime.loader import LoadedPlan
from mstarc_runtime.plan_api import Media, parts_in_order
from mstarc_runtime.plan_api import Part as RequestPart
from mstarc_runtime.request import Asked, PreparedRequest, prepare_read

ORDER_ROWS = 64
PROMPT_ROWS = 32
# An image of 512 x 512 pixels as the vision tower cuts it: 14 x 14 pixels a patch.
_SIDE_PATCHES = 36
_NOTHING = Media(kind="image", content=b"")
_CLIP = Media(kind="video", content=b"")


class Ready:
    """A host node that computes nothing: what it hands over was made before."""

    @classmethod
    def build(cls, config: Mapping[str, Any], *, folder: Any) -> "Ready":
        torch.manual_seed(0)
        return cls()


class BagelFrontend(Ready):
    stateful = ("detokenize",)

    def __init__(self) -> None:
        self._ids = torch.randint(1000, 100_000, (PROMPT_ROWS,))
        self._patches = torch.randn(_SIDE_PATCHES**2, 588)
        rows = torch.arange(_SIDE_PATCHES)
        self._places = (rows[:, None] * 70 + rows).flatten()
        self._px = torch.randn(3, 512, 512)

    def text(self, part: Any) -> Tensor:
        return self._ids

    def image(self, part: Any) -> tuple[Tensor, Tensor, Tensor]:
        return self._patches, self._places, self._px

    def begin(self) -> None:
        """Nothing is remembered from token to token."""

    def detokenize(self, state: None, token: int) -> str:
        return "x"

    def end(self, state: None) -> str:
        return ""


class PolicyFrontend(Ready):
    def __init__(self) -> None:
        self._px = torch.rand(3, 3, 224, 224) * 2 - 1
        self._ids = torch.randint(1000, 100_000, (ORDER_ROWS,))

    def images(self, base: Any, left: Any, right: Any) -> Tensor:
        return self._px

    def order(self, order: str, state: Tensor) -> Tensor:
        return self._ids


class WorldFrontend(Ready):
    def __init__(self) -> None:
        self._px = torch.randn(1, 3, 256, 256)
        self._s = torch.zeros(1, 7)

    def clip(self, clip: Any, poses: Tensor) -> tuple[Tensor, Tensor]:
        return self._px, self._s

    def path(self, actions: Tensor, horizon: int) -> Tensor:
        return torch.as_tensor(actions)[:horizon]


FRONTENDS: Mapping[str, Any] = {
    "bagel:Frontend": BagelFrontend,
    "pi05:Frontend": PolicyFrontend,
    "vjepa2_ac:Frontend": WorldFrontend,
}


def rollout(plan: LoadedPlan, horizon: int) -> PreparedRequest:
    """One frame, and `horizon` moves."""
    asked = Asked(options={"horizon": horizon}, wants=("rollout",))
    inputs = {
        "clip": _CLIP,
        "poses": torch.zeros(1, 7),
        "actions": torch.randn(horizon, 7, generator=torch.Generator().manual_seed(1)) * 0.02,
    }
    return prepare_read(plan, asked, inputs)


def act(plan: LoadedPlan, seed: int) -> PreparedRequest:
    """Three cameras and an order of `ORDER_ROWS` ids."""
    asked = Asked(options={"steps": 10}, seed=seed, wants=("actions",))
    cameras = dict.fromkeys(("base", "left_wrist", "right_wrist"), _NOTHING)
    inputs = {"order": "put it away", "state": torch.zeros(32), **cameras}
    return prepare_read(plan, asked, inputs)


def draw(plan: LoadedPlan, steps: int, **given: float) -> PreparedRequest:
    """A picture of 1024 x 1024 from a prompt of `PROMPT_ROWS` ids."""
    options = {"steps": steps, "height": 1024, "width": 1024, "text_scale": 4.0, **given}
    asked = Asked(options=options, seed=1, wants=("picture",))
    parts = parts_in_order([RequestPart(kind="text", value="a bagel", role="user")])
    return prepare_read(plan, asked, {"parts": parts})


def branches(steps: int, *, image_scale: float = 1.0, guide_from: float = 0.4) -> int:
    """How many passes of the decoder a drawing needs, all branches counted."""
    count = 0
    for i in range(steps - 1):
        u = 1.0 - i / (steps - 1)
        t = 3.0 * u / (1.0 + 2.0 * u)
        is_guided = guide_from < t <= 1.0
        count += (3 if image_scale > 1.0 else 2) if is_guided else 1
    return count


def understand(plan: LoadedPlan, seed: int, tokens: int) -> PreparedRequest:
    """An image of 512 x 512 pixels and a question."""
    asked = Asked(options={"max_tokens": tokens, "temperature": 0.6}, seed=seed, wants=("reply",))
    parts = parts_in_order(
        [
            RequestPart(kind="image", value=_NOTHING, role="user"),
            RequestPart(kind="text", value="what is it?", role="user"),
        ]
    )
    return prepare_read(plan, asked, {"parts": parts})
