"""Every fix of every lint page does what it says, and leaves a spec without errors."""

from pathlib import Path

import pytest

from mstarc import driver
from mstarc.diagnostics import CATALOG, Diagnostic, Edit, Fix, Label
from mstarc.lint.fixes import apply_fixes
from mstarc.lint.select import selection
from mstarc.source import SourceFile, Span
from tests.support.golden import ROOT
from tests.support.language import SPEC
from tests.support.markdown import Case, cases

PAGES = sorted((ROOT / "tests/lint").glob("*.md"))


def lint(case: Case, text: str, page: Path) -> driver.Outcome:
    wanted = case.spec.settings.get("select", page.stem.replace("_", "-")).split(",")
    deployments = [
        SourceFile(path=f"{number}.yaml", text=block.text)
        for number, block in enumerate(case.deployments)
    ]
    spec = SourceFile(path=SPEC, text=text)
    return driver.lint(spec, selection(wanted), deployments=deployments)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_fixes_leave_nothing_to_report_and_no_error(page: Path) -> None:
    for case in cases(page.read_text(encoding="utf-8")):
        outcome = lint(case, case.spec.text, page)
        offered = [found for found in outcome.diagnostics if found.fix is not None]
        fixed = apply_fixes(offered, outcome.sources, unsafe=True)
        if not fixed.count:
            continue
        after = lint(case, fixed.texts[SPEC], page)
        errors = [f for f in after.diagnostics if CATALOG[f.code].severity == "error"]
        assert not errors, (case.spec.heading, errors)
        left = [found.message for found in after.diagnostics]
        assert not {found.message for found in offered} & set(left), case.spec.heading
        # What was removed leaves no empty line where none was.
        assert "\n\n\n" not in fixed.texts[SPEC]


def finding(*edits: tuple[int, int, str], applicability: str = "safe") -> Diagnostic:
    return Diagnostic(
        code="MS1004",
        message=f"at {edits}",
        primary=Label(span=Span(path="a", start=0, end=0)),
        fix=Fix(
            message="",
            edits=tuple(
                Edit(span=Span(path="a", start=start, end=end), text=text)
                for start, end, text in edits
            ),
            applicability=applicability,  # type: ignore[arg-type]
        ),
    )


def applied(*findings: Diagnostic, unsafe: bool = False) -> tuple[str, int]:
    source = SourceFile(path="a", text="one two three")
    fixed = apply_fixes(findings, {"a": source}, unsafe=unsafe)
    return fixed.texts.get("a", source.text), fixed.count


def test_fixes_that_touch_wait_for_the_next_round() -> None:
    assert applied(finding((0, 3, "1")), finding((3, 7, "")), finding((8, 13, "3"))) == (
        "1 two 3",
        2,
    )


def test_a_fix_is_made_whole_or_not_at_all() -> None:
    first, second = finding((4, 7, "2")), finding((0, 3, "1"), (5, 6, "x"))
    assert applied(first, second) == ("one 2 three", 1)


def test_unsafe_fixes_wait_to_be_asked_for() -> None:
    unsafe = finding((0, 3, "1"), applicability="unsafe")
    assert applied(unsafe) == ("one two three", 0)
    assert applied(unsafe, unsafe=True) == ("1 two three", 1)


def test_what_describes_a_declaration_goes_with_it() -> None:
    page = ROOT / "tests/lint/unused_let.md"
    case = cases(page.read_text(encoding="utf-8"))[0]
    text = case.spec.text.replace("let long", "# A comment.\n## It is long.\nlet long")
    outcome = lint(case, text, page)
    fixed = apply_fixes(outcome.diagnostics, outcome.sources, unsafe=False).texts[SPEC]
    assert "It is long." not in fixed
    assert "# A comment.\n\nnode words" in fixed
