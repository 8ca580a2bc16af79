"""No spec, however broken, makes the front half fail: it reports, or it gives a sound program."""

import random
import re
from pathlib import Path

import pytest

from mstarc.diagnostics import CATALOG, DiagnosticSink
from mstarc.ir.graph import Program
from mstarc.ir.text import print_program
from mstarc.source import SourceFile
from mstarc.syntax.parser import parse
from tests.support.front_half import front_half, lowered
from tests.support.markdown import blocks

ROOT = Path(__file__).parents[2]
SPECS = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "specs").glob("*.mstar"))]
PAGES = [
    block.text
    for name in ("machines", "streams", "contexts", "walks", "types")
    for block in blocks((ROOT / "tests" / "lang" / f"{name}.md").read_text(encoding="utf-8"))
    if block.language == "mstar"
]
TOKEN = re.compile(r'"[^"\n]*"|[A-Za-z_]\w*|\d+\.\d+|\d+|\S|\s+')
STRANGE = ("0", "-1", "none", "true", "x", "T", "[1, 2]", "3.5", "i64", "audio", "flag", '"s"')


def broken(text: str, chance: random.Random) -> str:
    """The text with one to three tokens left out, put twice, or changed for others."""
    tokens = TOKEN.findall(text)
    places = [index for index, token in enumerate(tokens) if not token.isspace()]
    words = [tokens[index] for index in places]
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        place = chance.choice(places)
        match chance.randrange(4):
            case 0:
                tokens[place] = ""
            case 1:
                tokens[place] = chance.choice(words)
            case 2:
                tokens[place] += " " + chance.choice(words)
            case _:
                tokens[place] = chance.choice(STRANGE)
    return "".join(tokens)


@pytest.mark.parametrize("seed", range(6))
def test_a_broken_spec_is_reported_and_never_raises(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(25):
        text = broken(chance.choice((*SPECS, *PAGES)), chance)
        program, found = front_half(text)
        has_errors = any(CATALOG[finding.code].severity == "error" for finding in found)
        assert (program is None) == has_errors
        for finding in found:
            spans = [finding.primary.span, *(label.span for label in finding.labels)]
            assert finding.message
            assert all(0 <= span.start <= span.end <= len(text) for span in spans)


@pytest.mark.parametrize("text", SPECS, ids=lambda text: text.split("model ", 1)[1].split()[0])
def test_a_shipped_spec_has_no_findings(text: str) -> None:
    program, found = front_half(text)
    assert program is not None
    assert found == ()


@pytest.mark.parametrize("text", SPECS, ids=lambda text: text.split("model ", 1)[1].split()[0])
def test_the_order_of_declarations_means_nothing(text: str) -> None:
    source = SourceFile(path="spec.mstar", text=text)
    spec = parse(source, DiagnosticSink())
    assert spec is not None
    pieces = [source.slice(declaration.span) for declaration in spec.declarations]
    head = text[: spec.declarations[0].span.start]
    turned = head + "\n".join(reversed(pieces)) + "\n"
    assert parts(lowered(turned)) == parts(lowered(text))


def parts(program: Program) -> set[str]:
    """The declarations of a program as text, without their places."""
    text = re.sub(r" !\d+:\d+", "", print_program(program))
    return {part.strip() for part in re.split(r"\n(?=[a-z])", text)}
