"""What `benchmarks/four_gpus.py` runs is there, and its tables say what was measured."""

from pathlib import Path
from types import ModuleType

import pytest

from mstarc.cli.main import run_command
from tests.support.golden import ROOT


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    names = ("four_gpus", "four_gpus_parts", "four_gpus_predict")
    return {name: pytest.importorskip(name) for name in names}


def test_every_layout_compiles_on_cpus(scripts: dict[str, ModuleType], tmp_path: Path) -> None:
    for part in scripts["four_gpus_parts"].PARTS:
        names = {layout.name for layout in part.layouts}
        for load in part.loads:
            assert {name for name, _ in load.published} <= names
        for layout in [layout for layout in part.layouts if layout.file]:
            file = tmp_path / "layout.yaml"
            text = (ROOT / layout.file).read_text(encoding="utf-8")
            file.write_text(scripts["four_gpus"].without_limits(text), encoding="utf-8")
            words = ["--sizes", str(ROOT / part.small_sizes), "--deployment", str(file)]
            words += ["--placement", "4xcpu", "--set", "max_seq_len=512"]
            spec = str(ROOT / "specs" / f"{part.model}.mstar")
            assert run_command(["compile", spec, *words, "-o", str(tmp_path / "plan")]) == 0


def test_the_time_of_an_op_is_fitted_to_what_one_device_took(
    scripts: dict[str, ModuleType],
) -> None:
    solved = scripts["four_gpus_predict"]._solved
    # 100 passes and 0.5 s of something else.
    assert solved(lambda seconds: 0.5 + 100 * seconds, 2.5) == pytest.approx(0.02)
    # What is measured takes less than the rest alone: the op takes nothing.
    assert solved(lambda seconds: 0.5 + 100 * seconds, 0.4) == pytest.approx(1e-7)


def test_a_table_has_ratios_goals_and_published_figures(
    scripts: dict[str, ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--work", str(tmp_path), "--parts", "bagel"]
    run = scripts["four_gpus"].Run(scripts["four_gpus"].parse(words))
    taken = {"one": 15.0, "three": 4.9, "found, latency": 5.5}
    run.rows["bagel"] = [
        {"layout": name, "load": "text to image", "batch": 1, "s": seconds, "wall_s": seconds}
        for name, seconds in taken.items()
    ]
    run.simulated["bagel"] = {"text to image|one|1": 15.0, "text to image|three|1": 5.145}
    (part,) = [part for part in scripts["four_gpus_parts"].PARTS if part.name == "bagel"]
    run.table(part)
    shown = capsys.readouterr().out
    (three,) = [line for line in shown.splitlines() if line.startswith("  three ")]
    assert three.split() == ["three", "1", "4.9", "3.06", "5.145", "1.05", "6.8"]
    assert "found to by hand, 1 at once: 0.89 (MISSED)" in shown
    assert "three: 3.06 times one device and 4.90 s, goal 2.4 times and under 5 s (met)" in shown
    assert "simulation off by 5% at most (met)" in shown
