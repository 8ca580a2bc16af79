"""A page fails for what it announces in vain, and for what it does not announce."""

from pathlib import Path

from tests.support.language import disagreements, report_of
from tests.support.markdown import cases, expectations

PAGE = """\
# Braces

```mstar
mstar 1
model a
walk w() {{{comment}
```
"""


def problems(comment: str) -> list[str]:
    (case,) = cases(PAGE.format(comment=comment))
    report, files = report_of(case)
    (path,) = files
    return list(
        disagreements(
            report, path, expectations(case.spec.text), Path("page.md"), case.spec.first_line
        )
    )


def test_what_is_announced_is_no_problem() -> None:
    assert problems("  # error: [MS0102]") == []


def test_what_is_not_announced_is_named_with_its_line_of_the_page() -> None:
    (problem,) = problems("")
    assert problem.startswith("page.md:6: reported error[MS0102]")
    assert problem.endswith(": not announced")


def test_what_is_announced_in_vain_is_named() -> None:
    first, second = problems("  # error: [MS0103] a word")
    assert first == "page.md:6: announced error[MS0103] a word: not reported"
    assert second.startswith("page.md:6: reported error[MS0102]")


def test_the_text_after_a_code_must_be_said() -> None:
    assert len(problems("  # error: [MS0102] something that is not said")) == 2
