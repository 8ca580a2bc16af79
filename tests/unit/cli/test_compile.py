"""What `compile`, `lint`, `dump`, `check` and `fmt` read, write, print and exit with."""

import json
from pathlib import Path

import pytest

from mstarc.cli.main import run_command
from mstarc.driver import stage_names
from tests.support.golden import ROOT

SPEC = (ROOT / "specs" / "orpheus.mstar").read_text()
TINY = str(ROOT / "specs" / "tiny" / "orpheus.yaml")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with one right spec and one with two mistakes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    (tmp_path / "right.mstar").write_text(SPEC)
    wrong = SPEC.replace("codec.decode(window)", "codek.decode(window)")
    (tmp_path / "wrong.mstar").write_text(wrong.replace("run decode(token)", "run decod(token)"))
    return tmp_path


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_plan_is_written_and_checks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["compile", "right.mstar", "-o", "out/plan"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("out/plan: ")
    assert {"plan.json", "REPORT.md", "program.mir"} <= names(folder / "out" / "plan")
    assert run_command(["check", "out/plan"]) == 0
    (folder / "out/plan/REPORT.md").write_text("edited")
    assert run_command(["check", "out/plan"]) == 1


def test_each_placement_has_its_folder(folder: Path) -> None:
    words = ["--placement", "2xcpu", "--placement", "cpu", "--sizes", TINY]
    assert run_command(["compile", "right.mstar", *words]) == 0
    assert names(folder / "right.plan" / "placements") == {"cpu", "2xcpu"}


def test_all_mistakes_are_reported_in_one_run_and_nothing_is_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = names(folder)
    assert run_command(["compile", "wrong.mstar", "-o", "plan", "--format", "jsonl"]) == 1
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["message"].split("`")[1] for row in found] == ["codek", "decod"]
    assert names(folder) == before


def test_a_mistake_leaves_the_plan_that_was_there(folder: Path) -> None:
    run_command(["compile", "right.mstar", "-o", "plan"])
    assert run_command(["compile", "wrong.mstar", "-o", "plan"]) == 1
    assert run_command(["check", "plan"]) == 0


def test_other_folders_are_not_replaced(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "mine").mkdir()
    (folder / "mine" / "thesis.txt").write_text("years")
    assert run_command(["compile", "right.mstar", "-o", "mine"]) == 2
    assert "error[MS0005]" in capsys.readouterr().out
    assert names(folder / "mine") == {"thesis.txt"}


def test_a_full_disk_is_said_and_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = names(folder)

    def fail(path: Path, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    assert run_command(["compile", "right.mstar", "-o", "plan", "--format", "human"]) == 2
    shown = capsys.readouterr().out
    assert "error[MS0004]: the plan could not be written to `plan`" in shown
    assert "no space left on device" in shown
    assert names(folder) == before


def test_unknown_devices_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["compile", "right.mstar", "--placement", "2xH20"]) == 1
    assert "error[MS0601] unknown devices `2xH20`" in capsys.readouterr().out


def test_lint_reports_and_may_be_advisory(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["lint", "right.mstar"]) == 0
    assert capsys.readouterr().out == ""
    assert run_command(["lint", "wrong.mstar", "right.mstar"]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert run_command(["lint", "wrong.mstar", "--exit-zero"]) == 0


@pytest.mark.parametrize("stage", stage_names())
def test_every_stage_can_be_looked_at(
    stage: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["dump", "right.mstar", "--after", stage]) == 0
    assert "orpheus" in capsys.readouterr().out
    assert run_command(["compile", "right.mstar", "--stop-after", stage]) == 0
    assert not (folder / "right.plan").exists()


def test_an_unknown_stage_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["dump", "right.mstar", "--after", "plase"]) == 2
    assert "did you mean `place`?" in capsys.readouterr().out


def test_several_placements_need_no_deployment(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--placement", "cpu", "--placement", "2xcpu", "--deployment", "d.yaml"]
    assert run_command(["compile", "right.mstar", *words]) == 2
    assert "error[MS0001]" in capsys.readouterr().out


def test_fmt_checks_shows_and_writes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    untidy = SPEC.replace("  in  prompt      : text", "  in prompt:text  # words")
    (folder / "untidy.mstar").write_text(untidy)
    assert run_command(["fmt", "untidy.mstar", "--check"]) == 1
    assert run_command(["fmt", "untidy.mstar", "--diff"]) == 1
    assert "-  in prompt:text  # words\n" in capsys.readouterr().out
    assert (folder / "untidy.mstar").read_text() == untidy
    assert run_command(["fmt", "untidy.mstar"]) == 0
    assert "in  prompt      : text" in (folder / "untidy.mstar").read_text()
    assert run_command(["fmt", "untidy.mstar", "--check"]) == 0


def test_fmt_leaves_a_spec_with_mistakes_alone(folder: Path) -> None:
    (folder / "broken.mstar").write_text("mstar 1\nmodel a {\n")
    assert run_command(["fmt", "broken.mstar"]) == 1
    assert (folder / "broken.mstar").read_text() == "mstar 1\nmodel a {\n"


def test_line_ends_of_other_systems_are_read(folder: Path) -> None:
    (folder / "dos.mstar").write_bytes(b"\xef\xbb\xbf" + SPEC.replace("\n", "\r\n").encode())
    assert run_command(["lint", "dos.mstar"]) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["compile", "right.mstar", "--deployment", "right.mstar"],
        ["explain", "--setting", "max_seq_len", "right.mstar"],
    ],
)
def test_a_spec_is_no_deployment(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(arguments) == 2
    assert "`right.mstar` is a spec, and no deployment file" in capsys.readouterr().out


def test_a_deployment_of_another_model_is_one_mistake(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bagel = str(ROOT / "specs/deployments/bagel_cfg_parallel.yaml")
    arguments = ["compile", "right.mstar", "--deployment", bagel, "--format", "jsonl"]
    assert run_command(arguments) == 1
    printed = capsys.readouterr()
    assert [json.loads(line)["code"] for line in printed.out.splitlines()] == ["MS0606"]
    assert "placed on" not in printed.err


def test_a_setting_without_a_deployment_holds_where_placement_is_automatic(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["compile", "right.mstar", "--set", "max_seq_len=512", "-o", "plan"]
    assert run_command([*arguments, "--set", "max_concurrent_requests=3"]) == 0
    assert capsys.readouterr().out == ""
    placement = json.loads((folder / "plan/placements/cpu/placement.json").read_text())
    assert (placement["max_requests"], placement["max_tokens"]) == (3, 512)


def test_a_setting_without_a_deployment_that_there_is_not_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["compile", "right.mstar", "--set", "nothing=512", "--format", "concise"]
    assert run_command(arguments) == 1
    assert "error[MS0633] there is no setting `nothing`" in capsys.readouterr().out


def test_a_number_of_devices_that_is_none_is_told_apart_from_an_unknown_kind(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["compile", "right.mstar", "--placement", "0xH200"]) == 1
    assert "error[MS0601] `0xH200` is not a number of devices" in capsys.readouterr().out
