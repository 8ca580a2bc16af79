"""Steps outside of capture regions get the batch of their size again; it keeps nothing of a run."""

from io import BytesIO
from pathlib import Path

import torch

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.launch import LocalRanks, run_until_done
from mstarc_runtime.plan_api import Media
from tests.support import pi05_cases
from tests.support.tiny_plan import ranks_of, submit


def test_a_step_of_any_shape_gets_its_batch_again(tmp_path: Path) -> None:
    ranks = ranks_of("pi05", tmp_path)
    first = _acted(ranks, cameras=1)
    batches = _batches(ranks)
    again = _acted(ranks, cameras=1)
    _acted(ranks, cameras=2)
    assert torch.equal(first, again)
    assert _batches(ranks) == batches
    for name in ("encode", "read"):
        batch = batches[f"main.read.prefill.{name}"]
        kept = (batch.effects, batch.leaving, batch.chunks, batch.windows, batch.contexts)
        assert not any(kept)
    ranks.close()


def _batches(ranks: LocalRanks) -> dict[str, StepBatch]:
    return {batch.step.name: batch for batch in ranks.workers[0].stepper._batches.values()}


def _acted(ranks: LocalRanks, *, cameras: int) -> torch.Tensor:
    names = ("base", "left_wrist")[:cameras]
    pictures = {name: Media(kind="image", content=_png(name)) for name in names}
    inputs = {"order": "lift it", "state": torch.zeros(6), **pictures}
    listener = submit(ranks, ["actions"], inputs, {"steps": 2})
    run_until_done(ranks)
    assert listener.failure is None
    (actions,) = listener.values["actions"]
    return torch.as_tensor(actions)


def _png(camera: str) -> bytes:
    buffer = BytesIO()
    pi05_cases.image(camera).save(buffer, "PNG")
    return buffer.getvalue()
