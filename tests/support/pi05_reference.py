"""What openpi's PyTorch π0.5 computes with this project's random weights.

A checkout of github.com/huggingface/lerobot (at 7427f31), whose tests have a copy of openpi's model
→ values that tests compare with:

    python -m tests.support.pi05_reference lerobot tests/runtime/parity/pi05.safetensors

It runs in float32 on a CPU, in the tiny sizes; noise is ours. Cameras that are missing and the end
of the order are masked there, where ours has no rows for them.
"""

import argparse
import inspect
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from mstarc_runtime.layers.counter_hash import normal
from mstarc_runtime.models.pi05 import Frontend
from mstarc_runtime.models.pi05.frontend import squared
from tests.support.pi05_cases import CAMERAS, CASES, Case, image, own_module, weights

_MOST_IDS = 80


def import_public(checkout: Path) -> None:
    """Makes openpi's modules importable without the package around them."""
    folder = Path(tempfile.mkdtemp())
    (folder / "openpi_pytorch").mkdir()
    inside = "tests.policies.pi0_pi05.openpi_pytorch"
    source = checkout / inside.replace(".", "/")
    for path in source.glob("*.py"):
        text = path.read_text().replace(inside, "openpi_pytorch")
        text = text.replace("lerobot.policies.pi_gemma", "pi_gemma")
        (folder / "openpi_pytorch" / path.name).write_text(text)
    text = (checkout / "src/lerobot/policies/pi_gemma.py").read_text()
    needed = "from lerobot.utils.import_utils import _transformers_available"
    assert needed in text
    (folder / "pi_gemma.py").write_text(text.replace(needed, "_transformers_available = True"))
    sys.path.insert(0, str(folder))
    gemma: Any = import_module("pi_gemma")
    make_mask = gemma.create_causal_mask
    known = set(inspect.signature(make_mask).parameters)
    # Newer releases take fewer arguments.
    gemma.create_causal_mask = lambda **given: make_mask(
        **{name: value for name, value in given.items() if name in known}
    )


def public_model() -> Any:
    """openpi's model in the tiny sizes with our weights."""
    config = weights()["llm"]["config"]
    text, expert, vision = (config[f"{name}_config"] for name in ("text", "expert", "vision"))
    wide: Any = import_module("openpi_pytorch.gemma_pytorch")
    sizes: Any = import_module("openpi_pytorch.gemma")
    paligemma = import_module("transformers").PaliGemmaConfig

    def sizes_of(variant: str) -> Any:
        given = text if variant == "gemma_2b" else expert
        return sizes.Config(
            width=given["hidden_size"],
            depth=given["num_hidden_layers"],
            mlp_dim=given["intermediate_size"],
            num_heads=given["num_attention_heads"],
            num_kv_heads=given["num_key_value_heads"],
            head_dim=given["head_dim"],
        )

    def tiny_paligemma() -> Any:
        tower = {key: value for key, value in vision.items() if key != "projection_dim"}
        return paligemma(
            projection_dim=vision["projection_dim"],
            text_config={"model_type": "gemma", "vocab_size": text["vocab_size"]},
            vision_config={"model_type": "siglip_vision_model", "vision_use_head": False, **tower},
        )

    make = wide.PaliGemmaForConditionalGenerationWithPiGemma

    def made(config: Any) -> Any:
        # openpi sets the public sizes of what it does not name.
        config.vision_config.projection_dim = vision["projection_dim"]
        config.vision_config.intermediate_size = vision["intermediate_size"]
        config.text_config.vocab_size = text["vocab_size"]
        return make(config=config)

    wide.PaliGemmaForConditionalGenerationWithPiGemma = made
    gemma = wide.CONFIG_MAPPING["gemma"]
    wide.CONFIG_MAPPING = {"paligemma": tiny_paligemma, "gemma": gemma}
    sizes.get_config = sizes_of
    model = import_module("openpi_pytorch.pi0_pytorch").PI0Pytorch(
        SimpleNamespace(
            pi05=True,
            paligemma_variant="gemma_2b",
            action_expert_variant="gemma_300m",
            dtype="float32",
            action_dim=config["max_action_dim"],
            action_horizon=config["chunk_size"],
            pytorch_compile_mode=None,
        )
    )
    _fill(model)
    return model.eval()


def _fill(model: Any) -> None:
    shapes = {name: value.shape for name, value in model.state_dict().items()}
    state: dict[str, Tensor] = {}
    for class_name, node, under in (
        ("VisionTower", "vit_encoder", "paligemma_with_expert.paligemma.model."),
        ("Embedding", "embedding", "paligemma_with_expert.paligemma."),
        ("Experts", "llm", ""),
    ):
        module = own_module(class_name, node)
        own = dict(module.named_parameters())
        for name, mapped in module.weight_map().items():
            names = [under + n for n in ((mapped,) if isinstance(mapped, str) else mapped)]
            # Newer releases of transformers have one name less around the tower.
            known = [n if n in shapes else n.replace("vision_model.", "") for n in names]
            parts = own[name].split([shapes[n][0] for n in known])
            state |= {n: part.clone() for n, part in zip(known, parts, strict=True)}
    head = state["paligemma_with_expert.paligemma.lm_head.weight"]
    state["paligemma_with_expert.paligemma.model.language_model.embed_tokens.weight"] = head
    missing, extra = model.load_state_dict(state, strict=False)
    left = [
        name
        for name in missing
        if not name.endswith(("gemma_expert.lm_head.weight", "language_model.norm.weight"))
    ]
    assert not extra and not left, (extra, left)


@torch.no_grad()
def actions_of(model: Any, case: Case) -> Tensor:
    """f32[horizon, action_dim]"""
    config = weights()["frontend"]["config"]
    front = Frontend.build(config, folder=None)
    side = config["vision_config"]["image_size"]
    images, present = [], []
    for camera in CAMERAS:
        values = torch.frombuffer(bytearray(image(camera).tobytes()), dtype=torch.uint8)
        px = values.view(image(camera).height, -1, 3).permute(2, 0, 1).float() / 255.0
        is_there = camera in case.cameras
        images.append((squared(px, side) if is_there else torch.zeros(3, side, side))[None])
        present.append(torch.tensor([is_there]))
    ids = front.order(case.order, case.state_tensor)
    padded = torch.zeros(1, _MOST_IDS, dtype=torch.int64)
    padded[0, : len(ids)] = ids
    mask = (torch.arange(_MOST_IDS) < len(ids))[None]
    state = torch.zeros(1, 1)
    model._preprocess_observation = lambda *_, **__: (images, present, padded, mask, state)
    horizon, numbers = config["chunk_size"], config["max_action_dim"]
    noise = normal(torch.tensor([[case.seed]]), 0, torch.arange(horizon * numbers))
    made: Tensor = model.sample_actions(
        torch.device("cpu"),
        SimpleNamespace(state=state),
        noise=noise.view(1, horizon, numbers),
        num_steps=case.steps,
    )
    return made[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    import_public(arguments.checkout.resolve())
    model = public_model()
    found = {case.name: actions_of(model, case).contiguous() for case in CASES}
    save_file(found, arguments.out)
    print(f"{len(found)} values in {arguments.out}, {arguments.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
