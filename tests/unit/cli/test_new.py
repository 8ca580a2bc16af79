"""The spec to start from compiles, has no findings, and is in the canonical form."""

from pathlib import Path

import pytest

from mstarc import driver
from mstarc.cli.main import run_command
from mstarc.cli.new import starting_spec
from mstarc.lint.select import selection
from mstarc.options import CompileOptions
from mstarc.source import SourceFile

SOURCE = SourceFile(path="echo.mstar", text=starting_spec("echo"))


def test_it_is_of_the_model_that_was_named() -> None:
    assert 'model echo from "' in SOURCE.text
    assert 'impl "echo:Frontend"' in SOURCE.text
    assert "my_model" not in SOURCE.text


def test_it_has_no_findings() -> None:
    outcome = driver.lint(SOURCE, selection(select=["all"]))
    assert [finding.message for finding in outcome.diagnostics] == []


def test_it_is_in_the_canonical_form() -> None:
    assert driver.format_spec(SOURCE).files == {"echo.mstar": SOURCE.text}


def test_it_compiles() -> None:
    outcome = driver.compile_spec(SOURCE, CompileOptions(placements=("cpu", "2xcpu")))
    assert outcome.diagnostics == ()
    assert outcome.files is not None
    assert "placements/2xcpu/rank1.py" in outcome.files


def test_the_command_writes_it_and_never_over_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(["new", "echo"]) == 0
    assert (tmp_path / "echo.mstar").read_text(encoding="utf-8") == SOURCE.text
    assert run_command(["lint", "echo.mstar"]) == 0
    capsys.readouterr()
    assert run_command(["new", "echo", "--format", "human"]) == 2
    shown = capsys.readouterr().out
    assert "error[MS0004]: `echo.mstar` could not be written" in shown
    assert "file exists" in shown


def test_a_name_that_is_none_has_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["new", "my-model"]) == 2
    assert "did you mean `my_model`?" in capsys.readouterr().out
    assert run_command(["new", "3d"]) == 2
    assert "begins with a letter" in capsys.readouterr().out
