"""`mstarc bench`: a plan's ops are measured, and placements read what was."""

from pathlib import Path

import pytest

from mstarc.cli.main import run_command
from tests.support.golden import ROOT

SPEC, SIZES = ROOT / "specs" / "orpheus.mstar", ROOT / "specs" / "tiny" / "orpheus.yaml"


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench") / "plan"
    assert run_command(["compile", str(SPEC), "--sizes", str(SIZES), "-o", str(folder)]) == 0
    return folder


def test_a_profile_is_written_and_read(plan: Path, tmp_path: Path) -> None:
    profile, again = tmp_path / "p.yaml", tmp_path / "again"
    few = ["--batches", "1", "--rows", "4", "--context", "4", "--threads", "1"]
    assert run_command(["bench", "--calibrate", str(plan), "-o", str(profile), *few]) == 0
    text = profile.read_text()
    assert all(name in text for name in ("lm.prefill:", "lm.step:", "codec.decode:", "hop_s:"))
    compiled = ["compile", str(SPEC), "--sizes", str(SIZES), "--profile", str(profile)]
    assert run_command([*compiled, "-o", str(again)]) == 0
    assert "| implementation |" in " ".join((again / "REPORT.md").read_text().split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bench", "PLAN"], "--calibrate or --weigh"),
        (["bench", "--weigh", "PLAN", "--device", "H20"], "no device kind `H20`"),
        (["bench", "--weigh", "PLAN", "--batches", "1,x"], "--batches"),
        (["bench", "--weigh", "nowhere"], "not a plan"),
    ],
)
def test_what_is_wrong_is_said(
    plan: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command([str(plan) if word == "PLAN" else word for word in arguments]) == 2
    assert said in capsys.readouterr().out
