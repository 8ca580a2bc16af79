"""The search on the shipped specs: quick enough, and the same whatever is declared first."""

from dataclasses import replace
from random import Random

import pytest

from mstarc import driver
from mstarc.analysis.memory import limits_of
from mstarc.analysis.placement.choose import Choice, choose
from mstarc.analysis.placement.partial import Partial
from mstarc.analysis.placement.problem import OBJECTIVES, Objective
from mstarc.deployment import parse_devices
from mstarc.ir.graph import Program
from mstarc.ir.text import parse_program
from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from tests.support.golden import ROOT

SPECS = sorted(path.stem for path in (ROOT / "specs").glob("*.mstar"))
# A partial layout takes about a quarter of a millisecond: of eight ranks there is time for these.
MOST_BOUNDS = 6500


def program_of(spec: str) -> Program:
    text = (ROOT / f"specs/{spec}.mstar").read_text(encoding="utf-8")
    stage = "split-optional-arguments"
    outcome = driver.compile_spec(
        SourceFile(path=f"specs/{spec}.mstar", text=text),
        CompileOptions(stop_after=stage, dump_after=stage),
    )
    return parse_program(outcome.dump, "program.mir")


def chosen(program: Program, devices_text: str, objective: Objective) -> Choice:
    devices = parse_devices(devices_text)
    assert devices is not None
    found = choose(program, devices, limits_of(None, devices.kind), objective=objective)
    assert found is not None and found.requests
    return found


@pytest.mark.parametrize("spec", SPECS)
def test_eight_ranks_are_searched_quickly(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = 0
    bound = Partial.bound

    def counting(partial: Partial) -> tuple[float, ...] | None:
        nonlocal counted
        counted += 1
        return bound(partial)

    monkeypatch.setattr(Partial, "bound", counting)
    program = program_of(spec)
    for objective in OBJECTIVES:
        counted = 0
        chosen(program, "8xH200", objective)
        assert counted <= MOST_BOUNDS, objective


@pytest.mark.parametrize("spec", SPECS)
def test_the_order_of_declarations_changes_nothing(spec: str) -> None:
    program = program_of(spec)
    chance = Random(1)
    shuffled = replace(
        program,
        **{
            name: tuple(chance.sample(getattr(program, name), len(getattr(program, name))))
            for name in ("nodes", "streams", "walks", "machines", "options", "outputs")
        },
    )
    for objective in OBJECTIVES:
        for devices in ("2xH200", "5xH200"):
            one, other = (chosen(p, devices, objective) for p in (program, shuffled))
            assert set(one.chosen.assignments) == set(other.chosen.assignments)
            assert one.chosen.copies == other.chosen.copies
            assert one.layouts[0].key == other.layouts[0].key


def test_a_thousand_devices_are_copies_of_what_few_devices_do() -> None:
    program = program_of("bagel")
    few, many = (chosen(program, f"{n}xH200", "throughput") for n in (8, 1024))
    assert many.layouts[0].homes == few.layouts[0].homes
    assert sum(many.layouts[0].copies) == 128 * sum(few.layouts[0].copies)
