"""A request's bytes depend on itself alone: not on its batch, its order, its ranks or a capture."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch

from mstarc_runtime.assembly import Extras, RunSettings
from mstarc_runtime.attention.torch_reference import TorchAttention
from mstarc_runtime.engine.fake import FakeGraphExecutor
from mstarc_runtime.engine.host import InlinePool
from mstarc_runtime.launch import LocalRanks, run_until_done
from mstarc_runtime.loader import load_placement, load_plan
from mstarc_runtime.request import Asked, prepare
from mstarc_runtime.weights.progress import PlainProgress
from tests.runtime.plan_folder import write_plan
from tests.runtime.rig import Collected, nowhere

PROMPTS = [
    "hello",
    "a longer prompt than the others",
    "hm",
    "four",
    "five words are in here",
    "6",
    "7",
]


@pytest.fixture(scope="module")
def plan_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_plan("orpheus", tmp_path_factory.mktemp("plan"))


@pytest.fixture(autouse=True)
def _no_global_random(monkeypatch: pytest.MonkeyPatch) -> None:
    def poisoned(*_: Any, **__: Any) -> None:
        raise AssertionError("the global random generator was used")

    for name in ("rand", "randn", "randint", "multinomial", "bernoulli", "normal", "randperm"):
        monkeypatch.setattr(torch, name, poisoned)


def speak(
    folder: Path,
    requests: list[tuple[str, int]],
    *,
    placement: str = "cpu",
    stagger: int = 0,
    extras: Extras | None = None,
    **settings: Any,
) -> list[bytes]:
    """The sound of each (prompt, seed), asked for in this order, `stagger` turns apart."""
    plan = load_plan(folder)
    ranks = LocalRanks(
        plan,
        load_placement(plan, placement),
        settings=RunSettings(cache_dir=Path("/nonexistent"), threads=1, **settings),
        progress=PlainProgress(nowhere()),
        make_pool=lambda wake: InlinePool(),
        extras=extras,
    )
    made = []
    for prompt, seed in requests:
        tokens = 30 + 7 * len(prompt) % 40  # requests of several lengths
        asked = Asked(inputs={"prompt": prompt}, options={"temperature": 0.9, "max_tokens": tokens})
        listener = Collected()
        ranks.conductor.submit(prepare(plan, asked, seed=seed), listener)
        made.append(listener)
        for _ in range(stagger):
            ranks.turn()
    run_until_done(ranks)
    assert all(listener.events[-1] == "finished" for listener in made)
    return [b"".join(listener.values.get("speech", [])) for listener in made]


@pytest.fixture(scope="module")
def alone(plan_folder: Path) -> dict[str, bytes]:
    """Each prompt by itself, its number being its seed."""
    return {prompt: speak(plan_folder, [(prompt, seed)])[0] for seed, prompt in enumerate(PROMPTS)}


@pytest.mark.parametrize("placement", ["cpu", "2xcpu"])
@pytest.mark.parametrize("order", [PROMPTS, PROMPTS[::-1]], ids=["forwards", "backwards"])
def test_seven_at_once_say_what_each_says_alone(
    plan_folder: Path, alone: dict[str, bytes], placement: str, order: list[str]
) -> None:
    requests = [(prompt, PROMPTS.index(prompt)) for prompt in order]
    sounds = speak(plan_folder, requests, placement=placement, stagger=3)
    assert dict(zip(order, sounds, strict=True)) == alone


@pytest.mark.parametrize("tile_rows", [4, 8])
def test_tiles_of_rows_keep_it_so(plan_folder: Path, tile_rows: int) -> None:
    single = [
        speak(plan_folder, [(prompt, seed)], tile_rows=tile_rows)[0]
        for seed, prompt in enumerate(PROMPTS[:3])
    ]
    together = speak(
        plan_folder, [(p, seed) for seed, p in enumerate(PROMPTS)], tile_rows=tile_rows, stagger=2
    )
    assert together[:3] == single


def test_seeds_matter_and_neighbours_do_not(plan_folder: Path) -> None:
    sounds = speak(plan_folder, [("hello", seed) for seed in (0, 1, 2, 0)])
    assert sounds[0] == sounds[3]
    for a, b in itertools.combinations(sounds[:3], 2):
        assert a != b


def batched(executor: Any = None) -> Extras:
    return Extras(
        executor=executor, attention=lambda cache: TorchAttention(cache, row_by_row=False)
    )


@pytest.mark.parametrize("check", [False, True])
def test_a_captured_region_says_what_an_eager_one_says(plan_folder: Path, check: bool) -> None:
    requests = [(prompt, seed) for seed, prompt in enumerate(PROMPTS[:5])]
    executor = FakeGraphExecutor(check=check)
    captured = speak(
        plan_folder, requests, extras=batched(executor), deterministic=False, stagger=4
    )
    eager = speak(plan_folder, requests, extras=batched(), deterministic=False, stagger=4)
    assert executor.replays > 0
    assert not executor.eager_runs
    assert captured == eager
