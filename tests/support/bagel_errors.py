"""The table of relative errors in docs/bagel.md: `python -m tests.support.bagel_errors`."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from mstarc_runtime.engine.context import StatelessContext
from mstarc_runtime.plan_api import Maybe
from tests.support.bagel_cases import CASES, SEED, own_module
from tests.support.bagel_run import TinyBagel
from tests.support.golden import ROOT
from tests.support.parity import relative_error


def parts(public: dict[str, Tensor]) -> Iterator[tuple[str, float]]:
    """(What is compared, relative error) of the modules alone."""
    context = StatelessContext(batch=1, device=torch.device("cpu"))
    tower = own_module("VisionTower", "vit_encoder")
    rows = tower.encode(context, public["frontend.patches"][None], public["frontend.places"][None])
    yield "vision tower and connector", relative_error(rows[0, 1:-1], public["vision.rows"])
    encoder = own_module("VaeEncoder", "vae_encoder")
    px, seed = public["frontend.px"][None], torch.tensor([SEED])
    cells = encoder.cells(px, seed).flatten(0, 2)
    yield "autoencoder, encoder", relative_error(cells, public["encoder.cells"])
    rows = encoder.encode(context, px, seed)[0, 1:-1]
    yield "latents with time and place", relative_error(rows, public["encoder.rows"])
    decoder = own_module("VaeDecoder", "vae_decoder")
    height, width = public["decoder.px"].shape[1:]
    x = functional.pad(public["encoder.cells"], (0, 0, 1, 1))[None]
    made = decoder.pixels(x, torch.tensor([height]), torch.tensor([width]))[0]
    yield "autoencoder, decoder", relative_error(made, public["decoder.px"])
    guide = own_module("Guidance", "guide")
    v, no_text, no_image = (public[f"guidance.given.{number}"][None] for number in range(3))
    for renorm in ("global", "channel", "text_channel"):
        guided = guide.combine(
            context,
            v,
            no_text,
            Maybe(no_image, torch.tensor([True])),
            torch.tensor([4.0]),
            torch.tensor([2.0]),
            torch.tensor([0.7]),
            torch.tensor([renorm != "global"]),
            torch.tensor([renorm == "text_channel"]),
        )
        wanted = public[f"guidance.{renorm}.2.0.0.7"]
        yield f"guidance, {renorm}", relative_error(guided[0], wanted)


def drawings(public: dict[str, Tensor]) -> Iterator[tuple[str, float]]:
    """(Case, relative error of its latents behind eight updates) through a compiled plan."""
    with tempfile.TemporaryDirectory() as folder:
        tiny = TinyBagel.begin(Path(folder) / "plan")
        for case in CASES:
            if case.draws:
                tiny.drawings.clear()
                tiny.answer([case])
                wanted = public[f"case.{case.name}.latents"]
                yield case.name, relative_error(tiny.drawings[0][1:-1], wanted)


def main() -> None:
    torch.set_grad_enabled(False)
    public = load_file(ROOT / "tests/runtime/parity/bagel.safetensors")
    print("| what | relative error |\n| --- | --- |")
    for what, error in [*parts(public), *drawings(public)]:
        print(f"| {what} | {error:.1e} |")


if __name__ == "__main__":
    main()
