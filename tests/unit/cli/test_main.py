"""Exit codes, formats, and what a user sees when the command line or the compiler is wrong."""

import json
from pathlib import Path

import click
import pytest

from mstarc import __version__
from mstarc.cli import main, output
from mstarc.cli.main import run_command
from mstarc.diagnostics import InternalError
from mstarc.source import Span


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["--version"]) == 0
    assert capsys.readouterr().out == f"mstarc, version {__version__}\n"


def test_every_command_has_help_and_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["--help"]) == 0
    listed = capsys.readouterr().out
    for name in main.COMMANDS:
        assert f"  {name} " in listed
        command = main.mstarc.get_command(click.Context(main.mstarc), name)
        assert command is not None
        assert command.name == name
        assert command.help


def test_a_mistyped_command_is_not_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["complie", "x.mstar"]) == 2
    assert capsys.readouterr().out.startswith(
        "error[MS0001]: no such command `complie`\n  = help: did you mean `compile`?\n"
    )


def test_a_mistyped_option_is_not_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["lint", "--exit-zer", "x.mstar"]) == 2
    assert "did you mean `--exit-zero`?" in capsys.readouterr().out


def test_an_unreadable_file_is_the_callers_to_repair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "latin.mstar").write_bytes(b"mstar 1\n# caf\xe9\n")
    assert run_command(["lint", "none.mstar", ".", "--format", "jsonl"]) == 2
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["code"], row["file"], row["span"]) for row in found] == [
        ("MS0003", "latin.mstar", None),
        ("MS0002", "none.mstar", None),
    ]
    assert found[0]["notes"] == ["byte 13 (line 2) is 0xe9"]


def test_our_own_mistake_names_the_stage_and_the_spec_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.mstar").write_text("mstar 1\nmodel a\n")

    def fail(**settings: object) -> None:
        raise InternalError(
            "a call without a rank",
            stage="partition",
            span=Span(path="a.mstar", start=8, end=15),
        )

    monkeypatch.setattr(main.mstarc, "main", fail)
    assert run_command(["compile", "a b.mstar"]) == 2
    shown = capsys.readouterr().out
    assert shown.endswith("could not run `mstarc compile 'a b.mstar'`: 1 error, 0 warnings\n")
    assert shown.startswith("error[MS0900]: the compiler failed, not your spec\n --> a.mstar:2:1\n")
    assert "it happened in the stage `partition`" in shown
    assert "a call without a rank" in shown
    assert f"mstarc {__version__}" in shown


def test_ctrl_c_says_so_and_exits_as_shells_expect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(**settings: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main.mstarc, "main", interrupt)
    assert run_command([]) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize(
    ("in_actions", "terminal", "chosen"),
    [("true", True, "github"), ("", True, "human"), ("", False, "concise")],
)
def test_the_format_suits_the_reader(
    monkeypatch: pytest.MonkeyPatch, in_actions: str, terminal: bool, chosen: str
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", in_actions)
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    assert output.chosen_format(None) == chosen
    assert output.chosen_format("sarif") == "sarif"


def test_colour_needs_a_terminal_and_no_veto(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert output.is_coloured()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not output.is_coloured()


def test_explain_prints_the_page_and_facts(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["explain", "MS0002"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("# unreadable-file (MS0002)\n")
    assert run_command(["explain", "unreadable-file", "--format", "json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["page"] == page
    assert (facts["severity"], facts["group"], facts["fix"]) == ("error", "invocation", False)


def test_explain_of_an_unknown_name_offers_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["explain", "unreadible-file"]) == 2
    assert "MS0007" in capsys.readouterr().out


def test_a_code_without_its_letters_is_not_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["explain", "405"]) == 2
    assert "did you mean `MS0405`?" in capsys.readouterr().out
