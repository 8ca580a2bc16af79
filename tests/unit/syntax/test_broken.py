"""After a mistake of syntax nothing is reported that follows from it."""

import re
from pathlib import Path
from random import Random

import pytest

from mstarc import driver
from mstarc.source import SourceFile

SPECS = sorted((Path(__file__).parents[3] / "specs").glob("*.mstar"))
_MARK = re.compile(r"[-+*/%<>=:,.|?()\[\]{}]")
_HEADER = re.compile(r"^(?:node|walk|stream|machine|table|let) \w+", re.MULTILINE)


def _codes(text: str) -> set[str]:
    found = driver.inspect(SourceFile(path="spec.mstar", text=text)).diagnostics
    return {finding.code for finding in found}


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_a_lost_mark_is_the_only_mistake(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    chance = Random(path.stem)
    marks = [found.span() for found in _MARK.finditer(text)]
    for start, end in chance.sample(marks, 12):
        codes = _codes(text[:start] + chance.choice(("", ";;", "foo bar")) + text[end:])
        if any(code.startswith("MS01") for code in codes):
            assert all(code.startswith("MS01") for code in codes)


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_a_misspelt_declaration_is_the_only_mistake(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for found in list(_HEADER.finditer(text))[:8]:
        start = found.start()
        codes = _codes(text[:start] + "x" + text[start:])
        assert codes
        assert all(code.startswith("MS01") for code in codes)
