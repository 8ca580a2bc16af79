"""Layouts for four devices give what one rank gives: by hand, replicas, and those that are found.

Each rank is a process, and models are tiny. What is found for four H200s is found at full size and
run here: guidance on ranks of its own, both towers of Qwen3-Omni in shards, prompts read apart from
answers, four replicas. `MSTARC_ALL_LAYOUTS=1` runs all of them, which takes a minute; without it
those run that no other test is alike to.
"""

import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest

from mstarc import driver
from mstarc.analysis.placement.problem import Objective
from mstarc.codegen.write import write_plan
from mstarc.options import CompileOptions
from mstarc.show.deployment import deployment_text
from mstarc.source import SourceFile
from mstarc_runtime.loader import LoadedPlan, load_plan
from tests.e2e.test_layouts import HIGH_WATER_MARK, compare
from tests.runtime.rig import Collected
from tests.support.golden import ROOT
from tests.support.layout_runs import answers, as_processes, in_process, requests_of
from tests.support.shipped_specs import SPECS_BY_NAME

FULL_SIZES = {
    "orpheus": "benchmarks/orpheus_full.yaml",
    "bagel": "specs/random/bagel.yaml",
    "qwen3_omni": "specs/random/qwen3_omni.yaml",
}
BY_HAND = {
    "orpheus": ("orpheus_4replicas",),
    "bagel": ("bagel_cfg_parallel",),
    "qwen3_omni": ("qwen3omni_full_tp2_4gpu", "qwen3omni_pd_3gpu", "qwen3omni_4replicas"),
}
# What is found for throughput are the four replicas above.
FOUND: Mapping[str, tuple[str, Objective]] = {
    "4xcpu": ("4xcpu", "latency"),
    "4xH200": ("4xH200", "latency"),
}
ALL = [(model, layout) for model, named in BY_HAND.items() for layout in (*named, *FOUND)]
FEW = [("orpheus", "orpheus_4replicas"), ("bagel", "4xH200")]
CASES = ALL if os.environ.get("MSTARC_ALL_LAYOUTS") else FEW
ONE = "one"

Made = tuple[LoadedPlan, list[Collected]]


@cache
def found(model: str, devices: str, objective: Objective) -> str:
    """The best layout as a deployment file: on CPUs of the tiny sizes, on GPUs of the full ones."""
    spec = SPECS_BY_NAME[model]
    path = FULL_SIZES[model]
    full = SourceFile(path=path, text=(ROOT / path).read_text("utf-8"))
    sizes = spec.sizes if devices.endswith("cpu") else full
    options = CompileOptions(placements=(devices,), sizes=sizes, objective=objective)
    placing = driver.place_program(spec.source, options, None, keep=1)
    assert not isinstance(placing, driver.Outcome), placing
    return deployment_text(placing.program)


def deployment(model: str, layout: str) -> str:
    """The groups of a layout on four CPUs, for short answers."""
    path = ROOT / "specs" / "deployments" / f"{layout}.yaml"
    text = found(model, *FOUND[layout]) if layout in FOUND else path.read_text("utf-8")
    head, groups = text.split("node_groups:\n", 1)
    (model,) = [line for line in head.splitlines() if line.startswith("model:")]
    limits = "devices: 4xcpu\nmax_seq_len: 512\nmax_concurrent_requests: 12\n"
    return f"{model}\n{limits}node_groups:\n{groups}"


def one_rank(model: str) -> str:
    nodes = {
        "orpheus": "frontend, lm, codec",
        "bagel": "frontend, vit_encoder, vae_encoder, vae_decoder, LLM",
        "qwen3_omni": "frontend, audio_encoder, vision_encoder, Thinker, Talker, Code2Wav",
    }
    return (
        f"model: {model}\ndevices: 1xcpu\nmax_seq_len: 512\nmax_concurrent_requests: 12\n"
        f"node_groups:\n  - node_names: [{nodes[model]}]\n    ranks: [0]\n"
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Made]:
    """A model's plan, and what one rank answers."""
    known: dict[str, Made] = {}

    def make(model: str) -> Made:
        if model not in known:
            folder = tmp_path_factory.mktemp(model)
            texts = {ONE: one_rank(model)}
            texts |= {layout: deployment(model, layout) for name, layout in CASES if name == model}
            spec = SPECS_BY_NAME[model]
            deployments = tuple(SourceFile(path=f"{n}.yaml", text=t) for n, t in texts.items())
            outcome = driver.compile_spec(
                spec.source, CompileOptions(deployments=deployments, sizes=spec.sizes)
            )
            assert outcome.files is not None, [found.message for found in outcome.diagnostics]
            write_plan(outcome.files, folder / "plan")
            plan = load_plan(folder / "plan")
            with in_process(plan, ONE, folder) as ranks:
                known[model] = plan, answers(ranks, requests_of(model)[:4])
        return known[model]

    return make


@pytest.mark.parametrize(("model", "layout"), CASES)
def test_a_layout_for_four_devices_gives_the_answers_of_one_rank(
    model: str, layout: str, whole: Callable[[str], Made], tmp_path: Path
) -> None:
    plan, expected = whole(model)
    with as_processes(plan, layout, tmp_path, HIGH_WATER_MARK) as ranks:
        made = answers(ranks, requests_of(model)[: len(expected)])
        held = ranks.conductor.snapshot()
    assert [one.failure for one in made] == [None] * len(made)
    assert held["requests"] == held["taken_slots"] == 0
    is_cut = "tp_size" in deployment(model, layout)
    for one, other in zip(made, expected, strict=True):
        assert other.events[-1] == "finished"
        compare(one, other, exactly=not is_cut)
