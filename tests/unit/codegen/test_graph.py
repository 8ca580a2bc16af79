"""graph.svg: every call is there once a lane, nothing overlaps, and names fit their boxes."""

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass

import pytest

from mstarc import driver
from mstarc.codegen.views.graph_layout import MOST_WIDTH, width_of, wrapped
from mstarc.options import CompileOptions
from tests.support.shipped_specs import SPECS_BY_NAME

SVG = "{http://www.w3.org/2000/svg}"
DRAWN = {
    "qwen3_omni": ("2xH200",),
    "bagel": ("1xH200",),
    "orpheus": ("cpu", "2xcpu"),
    "voice_chat": ("cpu", "3xcpu"),
    "vjepa2_ac": ("1xH200",),
}


@dataclass(frozen=True)
class Rectangle:
    """What a `rect` covers."""

    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: "Rectangle") -> bool:
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )


def _drawn(name: str) -> ElementTree.Element:
    options = CompileOptions(placements=DRAWN[name])
    outcome = driver.compile_spec(SPECS_BY_NAME[name].source, options)
    assert outcome.files is not None, outcome.diagnostics
    return ElementTree.fromstring(outcome.files["graph.svg"])


def _rectangles(root: ElementTree.Element, style: str) -> list[Rectangle]:
    return [
        Rectangle(*(float(rect.attrib[key]) for key in ("x", "y", "width", "height")))
        for rect in root.iter(f"{SVG}rect")
        if rect.get("class", "").split()[:1] == [style] and float(rect.attrib["width"]) > 30
    ]


@pytest.mark.parametrize("name", DRAWN)
def test_calls_stand_apart_and_hold_their_names(name: str) -> None:
    root = _drawn(name)
    calls = _rectangles(root, "call")
    assert calls
    for index, call in enumerate(calls):
        assert not any(call.overlaps(other) for other in calls[index + 1 :])
    for text in root.iter(f"{SVG}text"):
        if text.get("class") != "op":
            continue
        x, y = float(text.attrib["x"]), float(text.attrib["y"])
        around = [c for c in calls if c.x < x < c.x + c.width and c.y < y < c.y + c.height]
        assert len(around) == 1
        assert width_of(text.text or "", 12, bold=True) < around[0].width


@pytest.mark.parametrize("name", DRAWN)
def test_a_drawing_is_no_wider_than_a_page(name: str) -> None:
    root = _drawn(name)
    assert float(root.attrib["width"]) < MOST_WIDTH + 350
    for rectangle in _rectangles(root, "frame") + _rectangles(root, "call"):
        assert rectangle.x >= 0
        assert rectangle.x + rectangle.width <= float(root.attrib["width"])


@pytest.mark.parametrize("name", DRAWN)
def test_texts_of_loops_do_not_overlap(name: str) -> None:
    root = _drawn(name)
    lines = [
        (float(t.attrib["x"]), float(t.attrib["y"]), width_of(t.text or ""))
        for t in root.iter(f"{SVG}text")
        if t.get("class") == "loopname"
    ]
    for index, (x, y, width) in enumerate(lines):
        for other_x, other_y, other_width in lines[index + 1 :]:
            is_beside = abs(x - other_x) >= (width + other_width) / 2
            assert is_beside or abs(y - other_y) >= 12


def test_a_text_is_wrapped_between_words() -> None:
    assert wrapped("loop max tokens while x", 60) == ("loop max", "tokens", "while x")
    assert wrapped("unbreakable", 5) == ("unbreakable",)


def test_boxes_say_what_they_show() -> None:
    root = _drawn("voice_chat")
    facts = [
        tuple(rect.get(f"data-{name}") for name in ("placement", "rank", "step"))
        for rect in root.iter(f"{SVG}rect")
    ]
    assert ("cpu", "0", "talk.reply.answer.pass") in facts
    assert ("3xcpu", "1", "say.listen.phonemes") in facts
    assert ("3xcpu", "1", None) in facts  # the rank's band
