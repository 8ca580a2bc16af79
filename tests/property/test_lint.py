"""Linting a spec that anyone may have broken reports, and never raises; fixes break nothing."""

import random
import re

import pytest

from mstarc import driver
from mstarc.diagnostics import CATALOG
from mstarc.lint.fixes import apply_fixes
from mstarc.lint.select import selection
from mstarc.source import SourceFile
from tests.support.golden import ROOT

SPECS = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "specs").glob("*.mstar"))]
DEPLOYMENTS = [
    path.read_text(encoding="utf-8") for path in sorted((ROOT / "specs/deployments").glob("*.yaml"))
]
# A change of these keeps a spec readable, so that the rules see it.
NAMES = re.compile(r"\b[a-z_]{2,}\b|\b\d+\b")
COMMENTS = (
    "# mstarc: allow[MS1003] why",
    "# mstarc: allow[]",
    "# mstarc: allow[x, y,,]",
    "# mstarc: allow[all",
    "## mstarc: allow[unused-node]",
)


def changed(text: str, chance: random.Random) -> str:
    """The text with some words and numbers put for others, and a comment that may allow a lint."""
    words = NAMES.findall(text)
    for _ in range(chance.choice((1, 1, 2, 4))):
        found = chance.choice(list(NAMES.finditer(text)))
        text = text[: found.start()] + chance.choice(words) + text[found.end() :]
    lines = text.split("\n")
    lines[chance.randrange(len(lines))] += chance.choice(COMMENTS)
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(4))
def test_a_changed_spec_is_linted_and_never_raises(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(20):
        text = changed(chance.choice(SPECS), chance)
        outcome = driver.lint(SourceFile(path="spec.mstar", text=text), selection(["all"]))
        for found in outcome.diagnostics:
            spans = [found.primary.span, *(label.span for label in found.labels)]
            spans += [edit.span for edit in (found.fix.edits if found.fix else ())]
            assert all(0 <= span.start <= span.end <= len(text) for span in spans), found
            assert found.message


@pytest.mark.parametrize("seed", range(4))
def test_safe_fixes_of_lints_make_no_errors(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(20):
        text = changed(chance.choice(SPECS), chance)
        outcome = driver.lint(SourceFile(path="spec.mstar", text=text), selection(["all"]))
        if any(not found.code.startswith("MS1") for found in outcome.diagnostics):
            continue
        fixed = apply_fixes(outcome.diagnostics, outcome.sources, unsafe=False)
        for path, after in fixed.texts.items():
            again = driver.lint(SourceFile(path=path, text=after), selection(["all"]))
            wrong = [f for f in again.diagnostics if not f.code.startswith("MS1")]
            assert not wrong, (wrong, text)


@pytest.mark.parametrize("seed", range(2))
def test_a_changed_deployment_is_linted_and_never_raises(seed: int) -> None:
    chance = random.Random(seed)
    spec = next(text for text in SPECS if "\nmodel orpheus" in text)
    for _ in range(20):
        text = changed(chance.choice(DEPLOYMENTS), chance)
        outcome = driver.lint(
            SourceFile(path="spec.mstar", text=spec),
            selection(["all"]),
            deployments=(SourceFile(path="a.yaml", text=text),),
        )
        for found in outcome.diagnostics:
            if found.primary.span.path == "a.yaml":
                assert 0 <= found.primary.span.start <= found.primary.span.end <= len(text)
            assert found.code in CATALOG
