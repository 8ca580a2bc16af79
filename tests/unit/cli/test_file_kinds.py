"""A file that is no spec is said to be what it looks like, and not read as one."""

import json
from pathlib import Path

import pytest

from mstarc.cli.main import run_command

FILES = {
    "request.json": '{"prompt": "Hello"}',
    "request": '[{"prompt": "Hello"}]',
    "model.py": "import torch\n",
    "decoder.txt": "class Decoder:\n    pass\n",
    "program.mir": "program speech\n\nconfig eos = 2\n",
    "deployment.yaml": "model: echo\nnode_groups: []\n",
    "sizes.yaml": "config:\n  eos: 2\n",
    "weights.bin": "\0\0\0\1",
}
LOOKS = {
    "request.json": "JSON",
    "request": "JSON",
    "model.py": "Python",
    "decoder.txt": "Python",
    "program.mir": "a plan's program",
    "deployment.yaml": "a YAML file",
    "sizes.yaml": "a file of sizes",
    "weights.bin": "a binary file",
    "plan": "a plan's folder",
    "specs": "a folder with specs",
    "empty": "a folder",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "plan").mkdir()
    (tmp_path / "plan" / "plan.json").write_text("{}")
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "echo.mstar").write_text("mstar 1\nmodel echo\n")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", LOOKS)
def test_a_file_that_is_no_spec_is_one_finding(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # A YAML file is what `compile` takes for a deployment.
    command = "fmt" if name.endswith(".yaml") else "compile"
    assert run_command([command, name, "--format", "jsonl"]) == 2
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert found["code"] == "MS0011" and found["help"]
    assert found["notes"] == [f"it looks like {LOOKS[name]}"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "wanted", "kind"),
    [
        (["sizes.yaml"], "deployment", "a file of sizes"),
        (["specs/echo.mstar", "--deployment", "sizes.yaml"], "deployment", "a file of sizes"),
        (["specs/echo.mstar", "--sizes", "deployment.yaml"], "file of sizes", "a deployment file"),
    ],
)
def test_a_deployment_and_sizes_are_told_apart(
    words: list[str], wanted: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["compile", *words, "--format", "concise"]) == 2
    assert f"is no {wanted}: it looks like {kind}" in capsys.readouterr().out


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", ["compile", "lint", "show", "fmt", "dump"])
def test_every_command_that_takes_a_spec_says_it(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--after", "parse"] if command == "dump" else []
    assert run_command([command, "request.json", *more, "--format", "concise"]) == 2
    assert "error[MS0011] `request.json` is no spec: it looks like JSON" in capsys.readouterr().out


def test_fmt_takes_a_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "specs" / "other.mstar").write_text("mstar 1\nmodel   other\n")
    assert run_command(["fmt", "--check", "specs"]) == 1
    assert "would change specs/other.mstar" in capsys.readouterr().err
    assert run_command(["fmt", "specs"]) == 0
    assert run_command(["fmt", "--check", "specs/"]) == 0


def test_a_spec_may_have_any_name(folder: Path) -> None:
    (folder / "echo.txt").write_text("# A spec.\nmstar 1\nmodel echo\n")
    assert run_command(["fmt", "--check", "echo.txt"]) in (0, 1)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["specs/ecko.mstar", "specs/echo"])
def test_a_file_that_there_is_not_gets_the_nearest_one(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["lint", name, "--format", "human"]) == 2
    assert "did you mean `specs/echo.mstar`?" in capsys.readouterr().out


@pytest.mark.usefixtures("folder")
def test_a_spec_is_no_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["check", "specs/echo.mstar", "--format", "human"]) == 2
    assert "`mstarc compile specs/echo.mstar -o PLAN` makes a plan of it" in capsys.readouterr().out
