"""Wrong words, plans and placements are said before torch is loaded, which takes seconds."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime.plan_folder import write_plan
from tests.support.golden import ROOT


def ask(folder: Path, module: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """Asks a runtime whose torch ends the process."""
    (folder / "torch.py").write_text("import os\nos.write(2, b'torch is loaded')\nos._exit(9)\n")
    return subprocess.run(
        [sys.executable, "-m", module, *words],
        env={"PYTHONPATH": f"{folder}:{ROOT}:{ROOT / 'runtime'}", "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("module", ["mstarc_runtime", "mstarc_runtime.server"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["PLAN", "--placment", "cpu"], "error[MS9010]: there is no option `--placment`"),
        (["PLAN", "--placement", "cpi"], "error[MS9007]: the plan has no placement `cpi`"),
        (["PLAN", "--threads", "two"], "error[MS9010]: `--threads`: invalid int value"),
        (["/nowhere"], "error[MS9004]"),
    ],
)
def test_mistakes_are_said_at_once(
    tmp_path: Path, module: str, words: list[str], said: str
) -> None:
    plan = str(write_plan("orpheus", tmp_path))
    done = ask(tmp_path, module, *(plan if word == "PLAN" else word for word in words))
    assert said in done.stderr
    assert done.returncode == 2


@pytest.mark.parametrize("module", ["mstarc_runtime", "mstarc_runtime.server"])
def test_what_can_be_asked_is_shown_at_once(tmp_path: Path, module: str) -> None:
    done = ask(tmp_path, module, "--help")
    assert "usage: mstarc" in done.stdout
    assert done.returncode == 0


@pytest.mark.parametrize("module", ["mstarc_runtime", "mstarc_runtime.server"])
def test_a_plan_that_can_run_goes_on(tmp_path: Path, module: str) -> None:
    done = ask(tmp_path, module, str(write_plan("orpheus", tmp_path)), "--placement", "cpu")
    assert done.stderr == "torch is loaded"
