"""Relative errors of BAGEL, V-JEPA 2, V-JEPA 2-AC and π0.5 against their public code, as a table.

Float32 on a CPU, small sizes, the same weights and noise, through compiled plans and the runtime.
V-JEPA 2 runs beside `transformers`; of the others the public values were computed once, with the
commands in `tests/support/{bagel,pi05,vjepa2_ac}_reference.py`, and are stored with the tests.

    python benchmarks/parity_table.py [--model pi05]
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

from mstarc_runtime.launch import run_until_done  # noqa: E402 - found by the path above
from mstarc_runtime.plan_api import Media  # noqa: E402
from tests.support import bagel_errors, pi05_cases, vjepa2_ac_cases  # noqa: E402
from tests.support.films import film_of  # noqa: E402
from tests.support.parity import relative_error  # noqa: E402
from tests.support.tiny_plan import ranks_of, submit  # noqa: E402

Rows = Iterator[tuple[str, float]]
_STORED = ROOT / "tests/runtime/parity"


def bagel(_: Path) -> Rows:
    public = load_file(_STORED / "bagel.safetensors")
    yield from bagel_errors.parts(public)
    yield from bagel_errors.drawings(public)


def pi05(folder: Path) -> Rows:
    public = load_file(_STORED / "pi05.safetensors")
    ranks = ranks_of("pi05", folder)
    for case in pi05_cases.CASES:
        cameras = {name: _png(pi05_cases.image(name)) for name in case.cameras}
        inputs = {"order": case.order, "state": case.state_tensor, **cameras}
        options = {"steps": case.steps, "seed": case.seed}
        listener = submit(ranks, ["actions"], inputs, options)
        run_until_done(ranks)
        name = f"{len(case.cameras)} cameras, {case.steps} steps"
        yield name, relative_error(_only(listener, "actions"), public[case.name])


def vjepa2_ac(folder: Path) -> Rows:
    cases = vjepa2_ac_cases
    public = load_file(_STORED / "vjepa2_ac.safetensors")
    ranks = ranks_of("vjepa2_ac", folder)
    inputs = {
        "clip": film_of([cases.image(number) for number in range(cases.FRAMES)]),
        "poses": cases.poses(),
        "actions": cases.actions(),
        "goal": _png(cases.image(9)),
        "candidates": cases.candidates(),
    }

    def ask(wants: list[str], options: Mapping[str, Any]) -> Any:
        listener = submit(ranks, wants, inputs, {"seed": cases.SEED, **options})
        run_until_done(ranks)
        return listener

    seen = ask(["features", "prediction"], {})
    yield "features", relative_error(_only(seen, "features"), public["features"])
    yield "the frame behind each", relative_error(_only(seen, "prediction"), public["prediction"])
    for horizon in (1, 4, 15):
        found = _only(ask(["rollout"], {"horizon": horizon}), "rollout")
        yield f"rollout of {horizon}", relative_error(found, public["rollout"][:horizon])
    planned = ask(["scores", "plan"], cases.PLAN)
    yield "scores of candidates", relative_error(_only(planned, "scores"), public["scores"])
    yield "plan, the same draws", relative_error(_only(planned, "plan"), public["plan"])


def vjepa2(folder: Path) -> Rows:
    import transformers

    from mstarc_runtime.engine.context import StatelessContext
    from mstarc_runtime.models.vjepa2 import Encoder, Frontend, Predictor
    from mstarc_runtime.weights.load import load
    from tests.runtime.parity.test_vjepa2 import CELLS, CONFIG, CPU

    model = transformers.VJEPA2Model(transformers.VJEPA2Config(**CONFIG)).eval()
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.2)
    model.save_pretrained(folder)
    context = StatelessContext(batch=1, device=CPU)
    modules: dict[str, Any] = {}
    for kind, under in ((Encoder, "encoder."), (Predictor, "predictor.")):
        modules[under] = kind.build(CONFIG, dtype=torch.float32, device=CPU)
        load(modules[under], folder, under=under)
    film = film_of([vjepa2_ac_cases.image(number) for number in range(8)])
    px = Frontend.build(CONFIG, folder=None).clip(film)[None]
    z = model(pixel_values_videos=px, skip_predictor=True).last_hidden_state
    yield "features", relative_error(modules["encoder."].encode(context, px), z)
    shown, asked = torch.arange(40)[None], torch.arange(40, z.shape[1])[None]
    found = modules["predictor."].predict(context, z, shown, asked)
    wanted = model.predictor(z, [shown], [asked]).last_hidden_state
    yield "rows that are not shown", relative_error(found, wanted)
    rows = torch.arange(z.shape[1] + CELLS)[None]
    behind = model.predictor(z, [rows[:, : z.shape[1]]], [rows[:, z.shape[1] :]]).last_hidden_state
    yield "what comes next", relative_error(modules["predictor."].foresee(context, z), behind)


MODELS: Mapping[str, Callable[[Path], Rows]] = {
    "vjepa2": vjepa2,
    "vjepa2_ac": vjepa2_ac,
    "pi05": pi05,
    "bagel": bagel,
}


def _png(image: Any) -> Media:
    buffer = BytesIO()
    image.save(buffer, "PNG")
    return Media(kind="image", content=buffer.getvalue())


def _only(listener: Any, output: str) -> Tensor:
    assert listener.failure is None, listener.failure
    (value,) = listener.values[output]
    return torch.as_tensor(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=sorted(MODELS), action="append")
    chosen = parser.parse_args().model or list(MODELS)
    torch.set_grad_enabled(False)
    print("| model | what | relative error |\n| --- | --- | --- |", flush=True)
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            for what, error in MODELS[name](Path(folder)):
                print(f"| {name} | {what} | {error:.1e} |", flush=True)


if __name__ == "__main__":
    main()
