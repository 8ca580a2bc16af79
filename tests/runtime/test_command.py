"""What bad invocations, plans and requests get: a code, an exit status, and nothing half done."""

import errno
import json
import os
from dataclasses import make_dataclass
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from mstarc_runtime.answer import Answer, Target, TextPrinter
from mstarc_runtime.command import main
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.loader import LoadedPlan
from mstarc_runtime.media.audio import WavWriter
from mstarc_runtime.plan_api import PLAN_ABI
from mstarc_runtime.request import PreparedRequest
from tests.runtime.plan_folder import seal, write_plan


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return write_plan("orpheus", tmp_path)


def rewrite(plan: Path, **changed: object) -> None:
    path = plan / "plan.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))


CASES: dict[str, tuple[list[str], str, int, str]] = {
    "placement": (["--placement", "cpi"], "MS9007", 2, "did you mean `cpu`?"),
    "input": (["--input", "promt=hi"], "MS9210", 1, "did you mean `prompt`?"),
    "no input": (["--request", "REQUEST"], "MS9211", 1, "`prompt`"),
    "option": (
        ["--input", "prompt=hi", "--option", "temprature=1"],
        "MS9212",
        1,
        "did you mean `temperature`?",
    ),
    "kind": (["--input", "prompt=hi", "--option", "max_tokens=many"], "MS9213", 1, "`int`"),
    "domain": (
        ["--input", "prompt=hi", "--option", "temperature=9"],
        "MS9213",
        1,
        "0.0 .. 2.0, and is 9.0",
    ),
    "output": (["--input", "prompt=hi", "--want", "speach"], "MS9215", 1, "`speech`"),
    "no file": (["--request", "nowhere.json"], "MS9201", 2, "nowhere.json"),
    "twice": (["--input", "prompt=hi", "--input", "prompt=ho"], "MS9010", 2, "is given twice"),
    "form": (["--input", "prompt"], "MS9010", 2, "NAME=VALUE"),
    "flag": (["--placment", "cpu"], "MS9010", 2, "did you mean `--placement`"),
    "word": (["--input", "prompt=hi", "more"], "MS9010", 2, "`more` is one word too many"),
    "number": (["--input", "prompt=hi", "--seed", "one"], "MS9010", 2, "`--seed`: invalid int"),
    "node": (
        ["--input", "prompt=hi", "--weights", "codecs=random"],
        "MS9010",
        2,
        "no node `codecs`",
    ),
    "input file": (["--input", "prompt=@nowhere.txt"], "MS9201", 2, "nowhere.txt"),
    "threads": (["--input", "prompt=hi", "--threads", "0"], "MS9010", 2, "at least 1"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_gets_its_code_and_status(
    case: str, plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, code, status, hint = CASES[case]
    (tmp_path / "empty.json").write_text('{"inputs": {}}')
    given = [text.replace("REQUEST", str(tmp_path / "empty.json")) for text in arguments]
    out = tmp_path / "out"
    assert main([str(plan), *given, "--out", str(out)]) == status
    said = capsys.readouterr().err
    assert said.startswith(f"error[{code}]: ")
    assert hint in said
    assert not out.exists()


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        ("{", "not JSON"),
        ("[]", "no request"),
        ("[3]", "not a JSON object"),
        ('{"input": {}}', "did you mean `inputs`"),
        ('{"inputs": []}', "JSON object"),
        ('{"name": "../a", "inputs": {"prompt": "x"}}', "folder"),
        ('{"wants": [3]}', "array of strings"),
        ('{"seed": true}', "whole number"),
        ("[" * 100_000, "nested too deeply"),
        ("\u00e9".encode("latin-1"), "not a text in UTF-8"),
    ],
)
def test_a_file_of_requests_that_is_none_says_why(
    plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | bytes, hint: str
) -> None:
    (tmp_path / "r.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert main([str(plan), "--request", str(tmp_path / "r.json")]) == 1
    said = capsys.readouterr().err
    assert "MS9214" in said
    assert hint in said


@pytest.mark.parametrize(
    ("entry", "code", "hint"),
    [
        ('"inputs": {"prompt": {"file": "a\\u0000b"}}', "MS9216", "`text`"),
        ('"inputs": {"prompt": 3}', "MS9216", "can't be 3"),
        ('"inputs": {"prompt": "x"}, "options": {"temperature": true}', "MS9213", "be `true`"),
        ('"inputs": {"prompt": "x"}, "options": {"temperature": 1' + 400 * "0" + "}", "MS9213", ""),
        ('"inputs": {"prompt": "x"}, "options": {"max_tokens": NaN}', "MS9213", "be `NaN`"),
    ],
)
def test_a_value_of_another_kind_says_which_is_wanted(
    plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], entry: str, code: str, hint: str
) -> None:
    (tmp_path / "r.json").write_text("{" + entry + "}")
    assert main([str(plan), "--request", str(tmp_path / "r.json")]) == 1
    said = capsys.readouterr().err
    assert code in said
    assert hint in said


def test_an_edited_plan_is_refused(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = plan / "machines.py"
    path.write_text(path.read_text() + "\nprint('edited')\n")
    assert main([str(plan), "--input", "prompt=hi"]) == 2
    said = capsys.readouterr()
    assert "MS9006" in said.err
    assert "edited\n" not in said.out, "not a line of it has run"


def test_an_edit_of_plan_json_is_refused(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rewrite(plan, inputs=[])
    assert main([str(plan)]) == 2
    said = capsys.readouterr().err
    assert "MS9006" in said
    assert "plan.json` was changed" in said


def test_a_plan_of_another_abi_is_refused(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rewrite(plan, abi=PLAN_ABI + 1)
    assert main([str(plan), "--input", "prompt=hi"]) == 2
    said = capsys.readouterr().err
    assert "MS9005" in said
    assert f"ABI {PLAN_ABI + 1}" in said


@pytest.mark.parametrize("content", ["", "[]", "{}", f'{{"abi": {PLAN_ABI}}}'])
def test_what_is_no_plan_is_refused(
    plan: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    (plan / "plan.json").write_text(content)
    assert main([str(plan)]) == 2
    assert "MS9004" in capsys.readouterr().err


def test_a_missing_file_of_a_plan_is_named(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (plan / "messages.py").unlink()
    assert main([str(plan)]) == 2
    assert "messages.py" in capsys.readouterr().err


def test_a_device_that_is_not_there_is_said(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = plan / "placements" / "cpu" / "placement.json"
    path.write_text(path.read_text().replace('"kind": "cpu"', '"kind": "H900"'))
    seal(plan)
    assert main([str(plan), "--input", "prompt=hi"]) == 2
    assert "MS9011" in capsys.readouterr().err


def test_without_a_request_it_says_what_it_would_serve(
    plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(plan), "--placement", "cpu"]) == 0
    said = capsys.readouterr().err
    assert "orpheus on cpu" in said
    assert "speech: audio(24000)" in said
    assert "HTTP" in said


def test_sound_goes_to_one_file_if_it_is_named(plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "hello.wav"
    given = ["--input", "prompt=hi", "--option", "max_tokens=30", "--threads", "1"]
    assert main([str(plan), "--placement", "cpu", *given, "--out", str(out)]) == 0
    assert [path.name for path in out.parent.iterdir()] == ["hello.wav"]
    assert out.read_bytes()[:4] == b"RIFF"


def test_a_full_disk_leaves_nothing_and_is_said(
    plan: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(self: WavWriter, samples: object) -> None:
        raise RuntimeFailure("MS9002", "the disk is full while writing `speech.wav`")

    monkeypatch.setattr(WavWriter, "write", full)
    out = tmp_path / "out"
    given = ["--input", "prompt=hi", "--option", "max_tokens=40", "--threads", "1"]
    assert main([str(plan), "--placement", "cpu", *given, "--out", str(out)]) == 2
    assert "MS9002" in capsys.readouterr().err
    assert not out.exists()


def test_folders_that_were_made_for_nothing_are_gone_and_others_stay(
    plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    # Too few tokens for one window of the codec: no sound.
    given = ["--input", "prompt=hi", "--option", "max_tokens=8", "--threads", "1"]
    assert main([str(plan), "--placement", "cpu", *given, "--out", str(there / "a" / "b")]) == 0
    assert "note: `speech` is empty" in capsys.readouterr().err
    assert list(there.iterdir()) == []


def test_a_folder_whose_name_looks_like_a_file_is_a_folder(plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "all.wav"
    out.mkdir()
    given = ["--input", "prompt=hi", "--option", "max_tokens=40", "--threads", "1"]
    assert main([str(plan), "--placement", "cpu", *given, "--out", str(out)]) == 0
    assert [path.name for path in out.iterdir()] == ["speech.wav"]


class _Full(StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_text_that_can_not_be_printed_is_said_with_a_code() -> None:
    printer = TextPrinter(_Full())
    with pytest.raises(RuntimeFailure, match="MS9002"):
        printer.piece("reply", "hello")
    printer.end_line()


def test_letters_that_a_terminal_does_not_have_are_replaced() -> None:
    content = BytesIO()
    printer = TextPrinter(TextIOWrapper(content, encoding="ascii"))
    printer.piece("reply", "añ")
    assert content.getvalue() == b"reply: a?"


def test_values_are_written_whole_and_of_any_shapes(tmp_path: Path) -> None:
    def answer(*arrays: np.ndarray) -> list[Path]:
        made = Answer(name="", target=Target(folder=tmp_path), printer=TextPrinter(StringIO()))
        for array in arrays:
            made.value("features", array)
        made.finished()
        return made.written

    assert answer(np.zeros((2, 3)), np.ones((2, 3))) == [tmp_path / "features.npy"]
    assert np.load(tmp_path / "features.npy").shape == (2, 2, 3)
    assert answer(np.zeros(2), np.ones(5)) == [tmp_path / "features.npz"]
    assert np.load(tmp_path / "features.npz")["arr_1"].shape == (5,)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["features.npy", "features.npz"]


def test_options_of_which_nothing_can_be_computed_are_refused() -> None:
    """`let cells = 64 // side` has no value for a `side` of 0."""

    def admit(request: Any) -> None:
        request.cells = 64 // request.side

    kind = make_dataclass("Request", ["side", "wants"], namespace={"cells": 0})
    plan = SimpleNamespace(request_class=kind, check=lambda _: None, admit=admit)
    asked = PreparedRequest(name="", inputs={}, options={"side": 0}, wants=frozenset(), seed=0)
    with pytest.raises(RuntimeFailure, match="division") as caught:
        asked.admit(cast(LoadedPlan, plan))
    assert caught.value.code == "MS9213"
    assert caught.value.notes == ("`side` is 0",)
