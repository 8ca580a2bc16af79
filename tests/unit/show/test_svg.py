"""The drawing of `mstarc show --as svg`: what it may not cross, and how wide it may be."""

import re
from functools import cache
from pathlib import Path

import pytest

from mstarc import driver
from mstarc.options import CompileOptions
from mstarc.show.svg import svg
from mstarc.source import SourceFile
from tests.support.golden import ROOT

SPECS = sorted((ROOT / "specs").glob("*.mstar"))
_LEAF = re.compile(
    r'<rect class="(?:kv_cache|stateless|host|send|pull|emit|mark|set|context)" '
    r'x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)"'
)
_FLOW = re.compile(r'<path class="flow" d="([^"]+)"')


@cache
def drawn(path: Path) -> str:
    source = SourceFile(path=path.name, text=path.read_text(encoding="utf-8"))
    found = driver.picture_of(source, CompileOptions(), None, placed=False)
    assert not isinstance(found, driver.Outcome)
    return svg(found[0])


def level_lines(path: str) -> list[tuple[float, float, float]]:
    """The level parts of a path: left, right and height of each."""
    x = y = 0.0
    found = []
    for command, numbers in re.findall(r"([MHVh])([-\d. ]+)", path):
        values = [float(number) for number in numbers.split()]
        if command == "M":
            x, y = values
        elif command == "V":
            y = values[0]
        else:
            there = values[0] if command == "H" else x + values[0]
            found.append((min(x, there), max(x, there), y))
            x = there
    return found


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_no_stream_runs_through_a_statement(path: Path) -> None:
    text = drawn(path)
    boxes = [tuple(map(float, box)) for box in _LEAF.findall(text)]
    for flow in _FLOW.findall(text):
        for left, right, level in level_lines(flow):
            for x, y, width, height in boxes:
                crosses = left < x and x + width < right and y < level < y + height
                assert not crosses, (flow, x, y)


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_drawing_fits_on_a_page_and_needs_no_variables(path: Path) -> None:
    text = drawn(path)
    width = re.search(r'<svg [^>]*width="(\d+)"', text)
    assert width is not None and int(width[1]) <= 2400
    # Other programs than browsers draw a box whose colour is a variable in black.
    assert "var(" not in text and "$" not in text
