"""Rules, their files, their rows in the catalogue and their pages agree."""

import re

import pytest

from mstarc.diagnostics import CATALOG
from mstarc.lint.base import GROUPS, Rule
from mstarc.lint.registry import RULES
from tests.support.golden import ROOT
from tests.support.markdown import cases, expectations

FILES = {path.stem for path in (ROOT / "mstarc/lint/rules").glob("*.py") if path.stem != "__init__"}


def file_of(rule: Rule) -> str:
    return CATALOG[rule.code].name.replace("-", "_")


def test_every_file_is_a_rule_in_order() -> None:
    codes = [rule.code for rule in RULES]
    assert codes == sorted(set(codes))
    assert {file_of(rule) for rule in RULES} == FILES
    assert set(codes) == {code for code in CATALOG if code.startswith("MS1")}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_catalogue_has_what_the_rule_says(rule: Rule) -> None:
    entry = CATALOG[rule.code]
    assert entry.group == rule.group
    assert rule.group in GROUPS
    assert entry.severity == ("error" if rule.level == "deny" else "warning")
    assert not (rule.level == "deny" and rule.status == "preview"), "a preview never fails"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_page_has_a_case_that_fires_and_one_that_does_not(rule: Rule) -> None:
    page = (ROOT / f"tests/lint/{file_of(rule)}.md").read_text(encoding="utf-8")
    fires = [
        any(
            expectation.code == rule.code
            for block in (case.spec, *case.deployments)
            for expectation in expectations(block.text)
        )
        for case in cases(page)
    ]
    assert any(fires)
    assert not all(fires)


def test_lint_page_lists_every_rule() -> None:
    page = (ROOT / "docs/lint.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| \[(MS\d+)\]\(errors/\1\.md\) \| `([a-z-]+)` \| (\w+) \| (\w+) \| (\w+) \|",
        page,
        re.MULTILINE,
    )
    assert rows == [
        (rule.code, CATALOG[rule.code].name, rule.group, rule.level, rule.status) for rule in RULES
    ]
