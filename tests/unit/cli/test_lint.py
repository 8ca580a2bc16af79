"""`mstarc lint`: what it reads, which rules run, what it writes and how it ends."""

import json
from pathlib import Path

import pytest

from mstarc.cli.main import run_command
from mstarc.resources import specs_folder

SPEC = """\
mstar 1

## A tone for a text.
model tone from "org/tone"

request {
  in  prompt : text
  out speech : audio(24000)
  opt unused : str = "a"
}

let never = 3

node words : host {
  impl "tone:Words"
  op codes(prompt: text) -> (codes: i64[8])
  op spare(prompt: text) -> (codes: i64[8])
}

node codec : stateless {
  impl "tone:Codec"
  op decode(codes: i64[8]) -> (pcm: f32[512])
}

walk sound(codes: i64[8]) {
  pcm = codec.decode(codes)
  emit speech <- pcm
}

machine main {
  state begin {
    codes = words.codes(prompt)
    run sound(codes)
    next done
  }
}
"""
DEPLOYMENT = """\
model: tone
node_groups:
  - node_names: [words, codec]
    ranks: [0]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tone.mstar").write_text(SPEC)
    return tmp_path


def codes(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [json.loads(line)["code"] for line in capsys.readouterr().out.splitlines()]


def lint(*arguments: str) -> int:
    return run_command(["lint", "--format", "jsonl", *arguments])


def test_shipped_specs_and_deployments_are_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["lint", str(specs_folder()), "--deny", "all"]) == 0
    assert capsys.readouterr().out == ""


def test_warnings_are_shown_and_do_not_fail(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lint("tone.mstar") == 0
    assert codes(capsys) == ["MS1006", "MS1007", "MS1004"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--select", "MS1004"], ["MS1004"]),
        (["--select", "unused-op,unused-let"], ["MS1007", "MS1004"]),
        (["--select", "correctness", "--ignore", "MS1006"], ["MS1007", "MS1004"]),
        (["--select", "style"], []),
        (["--ignore", "MS10"], []),
        (["--ignore", "unused-op", "--ignore", "unused-let"], ["MS1006"]),
    ],
)
def test_rules_are_chosen_by_code_name_group_and_prefix(
    arguments: list[str], expected: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lint("tone.mstar", *arguments) == 0
    assert codes(capsys) == expected


def test_denied_lints_are_errors_and_fail(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["lint", "tone.mstar", "--deny", "unused-op"]) == 1
    shown = capsys.readouterr().out
    assert "error[MS1004]" in shown
    assert "warning[MS1006]" in shown
    assert lint("tone.mstar", "--deny", "unused-op", "--exit-zero") == 0


def test_word_that_selects_nothing_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["lint", "tone.mstar", "--select", "unused-nodes"]) == 2
    assert "did you mean `unused-node`?" in capsys.readouterr().out


def test_folder_means_specs_deployments_and_sizes_in_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "deployments").mkdir()
    (here / "tiny").mkdir()
    (here / "deployments/one.yaml").write_text(DEPLOYMENT.replace("codec]", "codek]"))
    (here / "tiny/tone.yaml").write_text("weights: {codes: {source: random}}\n")
    (here / "ci.yaml").write_text("on: push\njobs: {}\n")
    assert lint(".") == 1
    assert set(codes(capsys)) == {"MS0009", "MS0608"}


def test_sizes_with_a_name_of_their_own_are_those_of_the_one_spec_beside_them(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "sizes.yaml").write_text("weights: {codes: {source: random}}\n")
    assert lint(".") == 1
    assert codes(capsys) == ["MS0009"]
    (here / "far").mkdir()
    (here / "sizes.yaml").rename(here / "far/sizes.yaml")
    assert lint(".", "--select", "style") == 0
    assert codes(capsys) == []


def test_sizes_alone_are_checked_with_the_spec_of_their_name(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "tiny").mkdir()
    (here / "tiny/tone.yaml").write_text("weights: {codes: {source: random}}\n")
    assert lint("tiny/tone.yaml") == 1
    assert codes(capsys) == ["MS0009"]
    (here / "tiny/tone.yaml").write_text("weights: {words: {source: random}}\n")
    assert lint("tiny/tone.yaml") == 0
    assert codes(capsys) == []


def test_sizes_of_another_name_are_those_of_the_spec_beside_them_or_beside_their_name(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "small.yaml").write_text("weights: {codes: {source: random}}\n")
    assert lint("small.yaml") == 1
    assert codes(capsys) == ["MS0009"]
    (here / "far").mkdir()
    (here / "small.yaml").rename(here / "far/small.yaml")
    assert lint("tone.mstar", "far/small.yaml", "--select", "style") == 1
    assert codes(capsys) == ["MS0009"]


def test_sizes_of_no_spec_are_checked_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "far").mkdir()
    (here / "far/tune.yaml").write_text("weights: {codes: {source: random}}\n")
    assert lint("far/tune.yaml") == 1
    assert codes(capsys) == ["MS0631"]
    (here / "far/tune.yaml").write_text("weights: {codes: {sauce: random}}\n")
    assert lint("far/tune.yaml") == 1
    assert codes(capsys) == ["MS0009"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("requests:\n  - rows: 16\n", "kinds of requests"),
        ("model: tone\nops: {}\n", "a profile"),
        ("device_kinds:\n  H200: {price: 3}\n", "device kinds"),
    ],
)
def test_other_files_are_told_by_what_they_are(
    here: Path, capsys: pytest.CaptureFixture[str], text: str, kind: str
) -> None:
    (here / "other.yaml").write_text(text)
    assert run_command(["lint", "other.yaml"]) == 2
    shown = capsys.readouterr().out
    assert "MS0011" in shown
    assert f"it looks like {kind}" in shown
    assert lint(".", "--select", "style") == 0


def test_deployment_alone_finds_its_spec_and_keeps_quiet_about_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "one.yaml").write_text(DEPLOYMENT)
    assert lint("one.yaml") == 0
    assert codes(capsys) == []
    (here / "one.yaml").write_text(DEPLOYMENT.replace("[0]", "[7]") + "devices: cpu\n")
    assert lint("one.yaml") == 1
    assert codes(capsys) == ["MS0612"]


def test_a_spec_of_another_model_that_cannot_be_read_does_not_matter(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "one.yaml").write_text(DEPLOYMENT)
    (here / "latin.mstar").write_bytes(b"mstar 1\n# caf\xe9\n")
    assert lint("one.yaml") == 0
    assert codes(capsys) == []


def test_deployment_of_an_unknown_model_is_an_error(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "one.yaml").write_text(DEPLOYMENT.replace("tone", "tune"))
    assert lint("one.yaml", "tone.mstar", "--select", "style") == 1
    assert codes(capsys) == ["MS0606"]


def test_safe_fixes_are_made_and_the_file_is_linted_again(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lint("tone.mstar", "--fix") == 0
    assert codes(capsys) == ["MS1006"]
    text = (here / "tone.mstar").read_text()
    assert "spare" not in text
    assert "never" not in text
    assert "unused" in text


def test_unsafe_fixes_are_made_when_asked_for(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lint("tone.mstar", "--unsafe-fixes") == 0
    assert codes(capsys) == []
    assert "opt unused" not in (here / "tone.mstar").read_text()


def test_diff_shows_a_patch_and_writes_nothing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["lint", "tone.mstar", "--diff"]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("--- tone.mstar\n+++ tone.mstar (fixed)\n")
    assert "-let never = 3\n" in shown
    assert "-  op spare(prompt: text) -> (codes: i64[8])\n" in shown
    assert (here / "tone.mstar").read_text() == SPEC


def test_fixes_of_errors_are_made_too(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = SPEC.replace("    next done", "    next done;")
    (here / "tone.mstar").write_text(text)
    assert lint("tone.mstar", "--fix", "--select", "style") == 0
    assert ";" not in (here / "tone.mstar").read_text()


def test_errors_come_without_opinions(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "tone.mstar").write_text(SPEC.replace("run sound(", "run sond("))
    assert lint("tone.mstar") == 1
    assert codes(capsys) == ["MS0204"]


def test_machines_that_wait_in_a_circle_are_found(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (specs_folder() / "orpheus.mstar").is_file()
    (here / "tone.mstar").write_text(CIRCLE)
    assert lint("tone.mstar", "--select", "correctness") == 1
    assert codes(capsys) == ["MS0415"]


CIRCLE = """\
mstar 1
model tone from "org/tone"
request {
  in  prompt : text
  out speech : audio(24000)
}
node words : host {
  impl "tone:Words"
  op code(prompt: text) -> (code: i64)
}
node codec : stateless {
  impl "tone:Codec"
  op next(code: i64) -> (code: i64)
  op decode(code: i64) -> (pcm: f32[512])
}
stream there : i64 chunk fixed(1) empty skip
stream back : i64 chunk fixed(1) empty skip
walk answer(code: i64) {
  next_code = codec.next(code)
  send back <- next_code
}
walk ask(code: i64) {
  pcm = codec.decode(code)
  emit speech <- pcm
  send there <- code
}
machine first {
  state begin {
    each back as code run ask(code)
    next done
  }
}
machine second {
  state begin {
    each there as code run answer(code)
    next done
  }
}
"""


def test_explain_prints_the_page_and_does_nothing_else(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["lint", "--explain", "unused-op"]) == 0
    assert capsys.readouterr().out.startswith("# unused-op (MS1004)\n")
    assert run_command(["lint", "--explain", "MS1999"]) == 2


def test_what_was_read_is_said_where_there_is_nothing_to_report(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "one.yaml").write_text(DEPLOYMENT)
    (here / "empty").mkdir()
    assert lint(".", "--select", "style") == 0
    assert capsys.readouterr().err == "1 spec, 1 deployment: nothing to report\n"
    assert lint("empty") == 0
    assert capsys.readouterr().err == "no specs and no deployments: nothing to report\n"
