"""The GitHub action and the pre-commit hooks run as they are written."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.golden import ROOT

BAD = "mstar 1\nmodel bad\nmachine main { state begin { next nowhere } }\n"
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())


@pytest.fixture
def commands(tmp_path: Path) -> dict[str, str]:
    """An environment in which `mstarc` is this checkout's."""
    shim = tmp_path / "bin" / "mstarc"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mstarc "$@"\n')
    shim.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{shim.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }


def run(script: str, folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_a_hook_takes_the_files_of_a_commit(
    hook: dict[str, Any], tmp_path: Path, commands: dict[str, str]
) -> None:
    shipped = ROOT / "specs" / "orpheus.mstar"
    (tmp_path / "good.mstar").write_text(shipped.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "bad.mstar").write_text(BAD)
    assert run(f"{hook['entry']} good.mstar", tmp_path, commands).returncode == 0
    failed = run(f"{hook['entry']} bad.mstar", tmp_path, commands).returncode == 1
    # pre-commit fails a hook that has changed a file.
    assert failed or (tmp_path / "bad.mstar").read_text() != BAD


def test_the_action_annotates_lines_and_writes_sarif(
    tmp_path: Path, commands: dict[str, str]
) -> None:
    (tmp_path / "bad.mstar").write_text(BAD)
    steps = {step["name"]: step["run"] for step in ACTION["runs"]["steps"]}
    env = {**commands, "PATHS": "bad.mstar", "ARGUMENTS": "--deny all", "SARIF": "out.sarif"}
    assert run(steps["Write SARIF"], tmp_path, env).returncode == 0
    assert '"version": "2.1.0"' in (tmp_path / "out.sarif").read_text(encoding="utf-8")
    linted = run(steps["Lint"], tmp_path, env)
    assert linted.returncode == 1
    assert "::error file=bad.mstar,line=3" in linted.stdout
