"""`mstarc run` looks, and then becomes the runtime."""

import os
import sys
from pathlib import Path

import pytest

from mstarc.cli import run
from mstarc.cli.main import run_command


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    calls: list[list[str]] = []

    def execv(program: str, arguments: list[str]) -> None:
        assert program == sys.executable
        calls.append(arguments)
        raise KeyboardInterrupt  # the one way out of `run_command` that runs nothing after it

    monkeypatch.setattr(os, "execv", execv)
    return calls


def plan_in(folder: Path) -> Path:
    plan = folder / "plan"
    plan.mkdir()
    (plan / "plan.json").write_text("{}")
    return plan


def test_arguments_reach_the_runtime_as_they_are(tmp_path: Path, executed: list[list[str]]) -> None:
    plan = plan_in(tmp_path)
    arguments = [str(plan), "--placement", "2xcpu", "--unheard-of", "-x"]
    run_command(["run", *arguments])
    assert executed == [[sys.executable, "-m", "mstarc_runtime", *arguments]]


def test_help_is_the_runtimes(executed: list[list[str]]) -> None:
    run_command(["run", "--help"])
    assert executed == [[sys.executable, "-m", "mstarc_runtime", "--help"]]


def test_without_the_packages_it_says_what_installs_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    executed: list[list[str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(run, "NEEDED", ("sys", "no_such_package"))
    assert run_command(["run", str(plan_in(tmp_path))]) == 2
    assert executed == []
    assert "MS0006" in capsys.readouterr().out


def test_a_spec_is_not_a_plan(
    tmp_path: Path, executed: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.mstar").write_text("mstar 1\n")
    assert run_command(["run", str(tmp_path / "model.mstar")]) == 2
    assert executed == []
    assert "MS0008" in capsys.readouterr().out
