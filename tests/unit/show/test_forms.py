"""What every form shows of a model, and that a part can be shown by itself."""

import re
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mstarc.cli.main import run_command
from mstarc.diagnostics import Diagnostic
from mstarc.ir.graph import Program
from mstarc.show import FORMS, picture, selected
from mstarc.show.terminal import terminal
from tests.support.front_half import lowered
from tests.support.golden import ROOT

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def orpheus() -> Program:
    return lowered((ROOT / "specs/orpheus.mstar").read_text(encoding="utf-8"))


def test_a_terminal_shows_machines_walks_loops_and_streams(orpheus: Program) -> None:
    text = terminal(picture(orpheus), width=100, colour=False)
    assert "\x1b" not in text
    for part in (
        "machine speak",
        "state decode",
        "run decode(token)",
        "↻ loop max max_tokens while token != eos  carry token = first",
        "→ send codes <- token",
        "sliding(window = 28, stride = 7)",
        "next done",
    ):
        assert part in text
    assert max(map(len, text.splitlines())) <= 100


def test_defaults_are_shown_as_specs_write_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["show", str(ROOT / "specs/bagel.mstar")]) == 0
    printed = capsys.readouterr().out
    assert "bool = false" in printed
    assert 'str = "global"' in printed


def test_brackets_are_no_markup() -> None:
    text = (ROOT / "specs/qwen3_omni.mstar").read_text(encoding="utf-8")
    shown = terminal(picture(lowered(text)), width=140, colour=False)
    assert "[text | image | audio | video]" in shown
    assert "i64[16]" in shown


def test_colour_is_only_for_terminals(orpheus: Program) -> None:
    assert "\x1b[" in terminal(picture(orpheus), width=100, colour=True)


def test_mermaid_names_every_call_once_and_escapes_marks(orpheus: Program) -> None:
    text = FORMS["mermaid"](picture(orpheus))
    assert text.startswith("flowchart TB\n")
    assert text.count("lm.step(token)") == 1
    assert "send codes #lt;- token" in text
    assert re.search(r'n\d+ -\.->\|"codes: sliding\(window = 28, stride = 7\)"\| n\d+', text)
    assert text.count("subgraph ") == len(re.findall(r"^ +end$", text, re.MULTILINE))


def test_dot_has_a_cluster_for_every_frame(orpheus: Program) -> None:
    text = FORMS["dot"](picture(orpheus))
    assert text.startswith('digraph "orpheus" {')
    assert text.count("{") == text.count("}")
    assert 'label="machine vocoder"' in text


def test_svg_is_well_formed_and_says_in_words_what_it_shows(orpheus: Program) -> None:
    root = ElementTree.fromstring(FORMS["svg"](picture(orpheus)))
    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert title.text == "orpheus"
    assert description is not None
    assert "Stream codes goes from speak to vocoder." in (description.text or "")
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for rect in root.iter(f"{SVG}rect"):
        if rect.get("class") != "ground":
            assert float(rect.attrib["x"]) + float(rect.attrib["width"]) <= width
            assert float(rect.attrib["y"]) + float(rect.attrib["height"]) <= height


def test_a_walk_alone_has_its_own_nodes_and_streams(orpheus: Program) -> None:
    part = selected(orpheus, "decode")
    assert not isinstance(part, Diagnostic)
    assert [block.title for block in part.blocks] == ["walk decode(first: i64)"]
    assert [node.name for node in part.nodes] == ["lm"]
    assert [channel.name for channel in part.channels] == ["codes"]
    for form in FORMS.values():
        assert "lm.step" in form(part)


def test_a_machine_alone(orpheus: Program) -> None:
    part = selected(orpheus, "vocoder")
    assert not isinstance(part, Diagnostic)
    assert [field.name for field in part.fields] == ["speech"]


def test_an_unknown_name_has_the_nearest_one(orpheus: Program) -> None:
    found = selected(orpheus, "vocodr")
    assert isinstance(found, Diagnostic)
    assert found.helps == ("did you mean `vocode` or `vocoder`?",)


def test_the_command_draws_a_placement(capsys: pytest.CaptureFixture[str]) -> None:
    spec = str(ROOT / "specs/orpheus.mstar")
    sizes = str(ROOT / "specs/tiny/orpheus.yaml")
    assert run_command(["show", spec, "--placement", "2xcpu", "--sizes", sizes]) == 0
    shown = capsys.readouterr().out
    assert "orpheus on 2xcpu" in shown
    assert re.search(r"token = lm\.step\(token\)  rank 0  ⎡decode\.0⎦", shown)
    assert "holds" in shown


def test_the_command_writes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "model.svg"
    spec = str(ROOT / "specs/voice_chat.mstar")
    assert run_command(["show", spec, "talk", "--as", "svg", "-o", str(target)]) == 0
    assert target.read_text(encoding="utf-8").startswith("<svg ")
    assert capsys.readouterr().out == ""


def test_the_command_refuses_an_unknown_name(capsys: pytest.CaptureFixture[str]) -> None:
    spec = str(ROOT / "specs/orpheus.mstar")
    assert run_command(["show", spec, "speek", "--format", "human"]) == 2
    shown = capsys.readouterr().out
    assert "error[MS0001]: `orpheus` has no walk and no machine `speek`" in shown
    assert "did you mean `speak`?" in shown


def test_a_spec_with_mistakes_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "broken.mstar"
    spec.write_text("mstar 1\nmodel broken\nwalk w() { x = y }\n", encoding="utf-8")
    assert run_command(["show", str(spec), "--format", "concise"]) == 1
    assert "MS0207" in capsys.readouterr().out


def test_letters_of_the_widest_font_stay_inside_their_boxes(orpheus: Program) -> None:
    drawn = FORMS["svg"](picture(orpheus))
    boxes = re.findall(r'width="(\d+)" height="26" rx="\d+"/>\s*<text[^>]*>([^<]*)<', drawn)
    assert boxes
    # DejaVu Sans Mono: 0.602 of 12 pixels.
    assert all(0.602 * 12 * len(unescape(text)) + 23 <= int(width) for width, text in boxes)
