"""What a command does where its output can't go, and where its letters can't."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from mstarc.cli import main
from mstarc.cli.main import run_command
from mstarc.cli.replace import create_file, replace_file
from mstarc.diagnostics import DiagnosticSink

ROOT = Path(__file__).parents[3]


def shell(command: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """A command as a person types it; `mstarc` is this one."""
    function = f'mstarc() {{ "{sys.executable}" -m mstarc "$@"; }}; '
    return subprocess.run(
        ["bash", "-c", function + command],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=60,
    )


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("mstarc explain MS0101 >&-", 0),
        ("mstarc lint nowhere.mstar >&-", 2),
        ("mstarc lint specs/orpheus.mstar <&- >&- 2>&-", 0),
        ("mstarc fmt --check specs/orpheus.mstar 2>/dev/full", 0),
    ],
)
def test_closed_streams_change_no_exit_code(command: str, code: int) -> None:
    done = shell(command)
    assert done.returncode == code
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["explain MS0101", "lint nowhere.mstar", "--heelp"])
def test_a_full_disk_behind_stdout_is_said_on_stderr(command: str) -> None:
    done = shell(f"mstarc {command} >/dev/full")
    assert done.returncode == 2
    assert done.stderr.startswith(
        "error[MS0004]: stdout could not be written\n  = note: no space left on device\n"
    )


def test_a_reader_that_goes_away_is_no_error() -> None:
    done = shell("mstarc show specs/voice_chat.mstar | head -c 1; exit ${PIPESTATUS[0]}")
    assert (done.returncode, done.stderr) == (0, "")


def test_letters_that_stdout_does_not_have_are_replaced() -> None:
    done = shell("mstarc show specs/orpheus.mstar", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "????" in done.stdout


def test_ctrl_c_before_a_command_has_begun_shows_no_trace() -> None:
    process = subprocess.Popen(
        [sys.executable, "-v", "-m", "mstarc", "explain", "MS0101"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    while "import 'click" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert "interrupted" in said
    assert "Traceback" not in said


def test_a_name_that_is_not_in_utf_8_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"caf\xe9.mstar")
    Path(name).write_text("mstar 1\n")
    for form in ("human", "concise", "jsonl", "sarif", "github"):
        assert run_command(["lint", name, "--format", form]) == 2
        assert "caf?.mstar" in capsys.readouterr().out


def test_a_working_folder_that_was_removed_is_no_mistake_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert run_command(["lint", "a.mstar"]) == 2
    assert "MS0002" in capsys.readouterr().out


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_one_may_not_read_has_the_code_of_unreadable_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "a.mstar"
    spec.touch(mode=0)
    for command in ("lint", "compile", "fmt", "show"):
        assert run_command([command, str(spec), "--format", "concise"]) == 2
        assert "MS0002" in capsys.readouterr().out


def test_no_option_for_files_checks_what_reading_them_reports() -> None:
    # Otherwise an unreadable file is a wrong command line (MS0001) for some, MS0002 for others.
    context = click.Context(main.mstarc)
    for name in main.COMMANDS:
        command = main.mstarc.get_command(context, name)
        assert command is not None
        for option in command.params:
            if isinstance(option.type, click.Path):
                assert not option.type.readable, f"{name} {option.name}"


def test_a_file_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("before")
    path.chmod(0o640)
    sink = DiagnosticSink()
    create_file(path, "after", sink)
    assert [found.code for found in sink.diagnostics] == ["MS0004"]
    assert path.read_text() == "before"
    replace_file(path, "after", DiagnosticSink())
    assert path.read_text() == "after"
    assert path.stat().st_mode & 0o777 == 0o640

    def full(*names: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    sink = DiagnosticSink()
    replace_file(path, "later", sink)
    assert sink.diagnostics[0].notes == ("no space left on device",)
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]
    assert path.read_text() == "after"


def test_a_device_stays_a_device(tmp_path: Path) -> None:
    sink = DiagnosticSink()
    replace_file(Path("/dev/null"), "gone", sink)
    assert not sink.has_errors
    assert Path("/dev/null").is_char_device()
