"""`mstarc run plan/ --placement P` for a P that the plan lacks: placed again, beside the others."""

from pathlib import Path

import pytest

from mstarc.cli.main import run_command
from mstarc.cli.run import place_where_needed
from mstarc.diagnostics import DiagnosticSink
from tests.support.golden import ROOT

SPEC = str(ROOT / "specs/orpheus.mstar")
TINY = str(ROOT / "specs/tiny/orpheus.yaml")


def texts(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    folder = tmp_path / "plan"
    assert run_command(["compile", SPEC, "--sizes", TINY, "-o", str(folder)]) == 0
    capsys.readouterr()
    return folder


def test_the_placement_is_the_one_that_compiling_would_have_made(
    plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = texts(plan)
    sink = DiagnosticSink()
    place_where_needed(plan, [str(plan), "--placement", "2xcpu"], sink)
    assert not sink.diagnostics
    after = texts(plan)
    assert {name: after[name] for name in before if name != "plan.json"} == {
        name: text for name, text in before.items() if name != "plan.json"
    }
    both = tmp_path / "both"
    words = ["--placement", "cpu", "--placement", "2xcpu", "--sizes", TINY]
    assert run_command(["compile", SPEC, *words, "-o", str(both)]) == 0
    compiled = texts(both)
    added = [name for name in after if name.startswith("placements/2xcpu/")]
    assert added
    for name in added:
        assert after[name] == compiled[name], name
    capsys.readouterr()
    assert run_command(["check", str(plan)]) == 0


def test_a_placement_that_is_there_is_left_as_it_is(plan: Path) -> None:
    before = texts(plan)
    place_where_needed(plan, [str(plan), "--placement=cpu"], DiagnosticSink())
    assert texts(plan) == before


def test_a_name_that_is_no_devices_is_left_to_the_runtime(plan: Path) -> None:
    before = texts(plan)
    sink = DiagnosticSink()
    place_where_needed(plan, [str(plan), "--placement", "production"], sink)
    assert not sink.diagnostics
    assert texts(plan) == before


def test_what_does_not_fit_is_refused_and_the_plan_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "plan"
    spec = str(ROOT / "specs/wan22.mstar")
    assert run_command(["compile", spec, "--placement", "1xH200", "-o", str(folder)]) == 0
    before = texts(folder)
    sink = DiagnosticSink()
    place_where_needed(folder, [str(folder), "--placement", "1xRTX4090"], sink)
    assert [found.code for found in sink.diagnostics] == ["MS0617"]
    assert texts(folder) == before
