"""Layouts that are found for four H200s, simulated beside those that people wrote for them.

At full size, under the load that a layout is for: one request alone for `latency`, many at once for
`throughput`. What is found is never slower by more than `SLOWER`, by the simulation, which knows
batches, hops and streams that the search only estimates.
"""

from dataclasses import dataclass

import pytest

from mstarc import driver
from mstarc.analysis.placement.problem import Objective
from mstarc.options import CompileOptions
from mstarc.show.deployment import deployment_text
from mstarc.source import SourceFile
from tests.support.golden import ROOT

SLOWER = 1.03
DEVICES = "4xH200"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`asked` is one kind of request, `burst` how many come at once, `by_hand` are deployments."""

    model: str
    sizes: str
    objective: Objective
    burst: int
    asked: str
    by_hand: tuple[str, ...]


DRAW = "rows: 32, options: {image_scale: 2.0, guide_from: 0.0}, wants: [picture]"
BRANCHES = ("specs/deployments/bagel_cfg_parallel.yaml", "benchmarks/bagel_apart_2gpu.yaml")
OMNI = tuple(
    f"specs/deployments/qwen3omni_{name}.yaml"
    for name in ("2gpu", "thinker_tp2_2gpu", "full_tp2_4gpu", "pd_3gpu", "4replicas")
)
SPEAK = "rows: 32, options: {max_tokens: 24, talker_max_tokens: 24}, parts: {text: 1}"
TEXT = "rows: 32, options: {max_tokens: 24}, wants: [reply], parts: {text: 1}"


def omni(objective: Objective, burst: int, asked: str) -> Case:
    return Case(
        model="qwen3_omni",
        sizes="specs/random/qwen3_omni.yaml",
        objective=objective,
        burst=burst,
        asked=asked,
        by_hand=OMNI,
    )


def bagel(asked: str) -> Case:
    return Case(
        model="bagel",
        sizes="specs/random/bagel.yaml",
        objective="latency",
        burst=1,
        asked=asked,
        by_hand=BRANCHES,
    )


def orpheus(objective: Objective, burst: int) -> Case:
    return Case(
        model="orpheus",
        sizes="benchmarks/orpheus_full.yaml",
        objective=objective,
        burst=burst,
        asked="rows: 32, options: {max_tokens: 84}",
        by_hand=tuple(
            f"specs/deployments/orpheus{name}.yaml" for name in ("", "_colocated", "_4replicas")
        ),
    )


CASES = {
    "a picture of a text": bagel(f"{DRAW}, parts: {{text: 1}}"),
    "a picture of a picture": bagel(f"{DRAW}, parts: {{image: 1, text: 1}}"),
    "one speaks": omni("latency", 1, SPEAK),
    "many speak": omni("throughput", 16, SPEAK),
    "many write": omni("throughput", 16, TEXT),
    "a sentence": orpheus("latency", 1),
    "many sentences": orpheus("throughput", 32),
}


def read(path: str) -> SourceFile:
    return SourceFile(path=path, text=(ROOT / path).read_text("utf-8"))


def simulated_s(case: Case, mix: SourceFile, deployment: SourceFile) -> float:
    options = CompileOptions(deployments=(deployment,), sizes=read(case.sizes), default_kind="H200")
    found = driver.simulate_program(
        read(f"specs/{case.model}.mstar"), options, mix, rate=1.0, seconds=1.0, burst=case.burst
    )
    assert not isinstance(found, driver.Outcome), [one.message for one in found.diagnostics]
    assert found.finished == case.burst
    return found.seconds


@pytest.mark.parametrize("name", CASES)
def test_what_is_found_is_no_slower_than_what_is_written_by_hand(name: str) -> None:
    case = CASES[name]
    mix = SourceFile(path="mix.yaml", text=f"requests: [{{{case.asked}}}]\n")
    options = CompileOptions(
        placements=(DEVICES,), sizes=read(case.sizes), objective=case.objective
    )
    placing = driver.place_program(
        read(f"specs/{case.model}.mstar"), options, mix, keep=1, at_once=case.burst
    )
    assert not isinstance(placing, driver.Outcome), [one.message for one in placing.diagnostics]
    written = SourceFile(path="found.yaml", text=deployment_text(placing.program))
    seconds = {path: simulated_s(case, mix, read(path)) for path in case.by_hand}
    found_s = simulated_s(case, mix, written)
    best, best_s = min(seconds.items(), key=lambda entry: entry[1])
    print(name, f"{found_s:.4g} s found, {best_s:.4g} s {best}", seconds)
    assert found_s <= SLOWER * best_s, written.text
