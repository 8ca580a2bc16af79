"""Collect Markdown pages about the language: each ```` ```mstar ```` block is a test.

The block runs through the driver as the file `spec.mstar`, with its deployments as
`deployment.yaml` (`deployment2.yaml`, …). Settings after the language: `placement=2xcpu` to compile
for a placement, where without it and without a deployment only the spec is checked.

A page under `tests/lint` is named as its rule is: its blocks are linted with that rule, and with
those about suppressions, and with others where a block says `select=unused-op,style`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mstarc.diagnostics import CATALOG, Diagnostic
from mstarc.diagnostics.render import FORMATS, Report
from mstarc.source import SourceFile
from tests.support.golden import difference
from tests.support.markdown import Block, Case, Expectation, cases, expectations, replace_block

SPEC = "spec.mstar"


class LanguagePage(pytest.File):
    """A page; its tests are named after the headings that they stand under."""

    @property
    def lints(self) -> tuple[str, ...]:
        """The lints that its blocks run with; without any they are checked or compiled."""
        return ()

    def collect(self) -> Iterator["LanguageCase"]:
        names: dict[str, int] = {}
        for index, case in enumerate(cases(self.path.read_text(encoding="utf-8"))):
            heading = case.spec.heading
            names[heading] = names.get(heading, 0) + 1
            suffix = f" #{names[heading]}" if names[heading] > 1 else ""
            yield LanguageCase.from_parent(
                self, name=heading + suffix, case=case, index=index, lints=self.lints
            )


class LintPage(LanguagePage):
    """A page about a lint."""

    @property
    def lints(self) -> tuple[str, ...]:
        return (
            self.path.stem.replace("_", "-"),
            "unused-suppression",
            "suppression-without-reason",
        )


class LanguageCase(pytest.Item):
    """One block: what it announces is reported, and nothing else."""

    def __init__(
        self, *, case: Case, index: int, lints: tuple[str, ...] = (), **rest: object
    ) -> None:
        super().__init__(**rest)  # type: ignore[arg-type]  # pytest passes name and parent on
        self.case = case
        self.index = index
        self.lints = lints

    def runtest(self) -> None:
        report, files = report_of(self.case, self.lints)
        problems = [
            problem
            for path, block in files.items()
            for problem in disagreements(
                report, path, expectations(block.text), self.path, block.first_line
            )
        ]
        if problems:
            shown = FORMATS["human"](report)
            pytest.fail("\n".join([*problems, "", shown]), pytrace=False)
        if self.case.diagnostics is not None:
            self._compare(self.case.diagnostics, FORMATS["human"](report))

    def _compare(self, expected: Block, actual: str) -> None:
        if expected.text == actual:
            return
        if self.config.getoption("update_goldens"):
            page = self.path.read_text(encoding="utf-8")
            # Earlier cases may have moved this one: find it again by its number.
            block = cases(page)[self.index].diagnostics
            assert block is not None
            self.path.write_text(replace_block(page, block, actual), encoding="utf-8")
            return
        pytest.fail(difference(expected.text, actual, self.path.name), pytrace=False)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.case.spec.first_line - 1, self.name

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None
    ) -> str:
        place = f"{self.path}:{self.case.spec.first_line}"
        if isinstance(excinfo.value, pytest.fail.Exception):
            return f"{place}\n{excinfo.value.msg}"
        return f"{place}\n{super().repr_failure(excinfo)}"


def report_of(case: Case, lints: tuple[str, ...] = ()) -> tuple[Report, dict[str, Block]]:
    """What the driver finds in a case, and the blocks by the paths that they were given.

    With `lints` (codes, names or groups) the case is linted with these, and not compiled.
    """
    # Imported here: a page can be collected while a stage is being rewritten.
    from mstarc import driver
    from mstarc.options import CompileOptions

    files = {SPEC: case.spec}
    for number, block in enumerate(case.deployments, 1):
        files[f"deployment{number if number > 1 else ''}.yaml"] = block
    sources = {path: SourceFile(path=path, text=block.text) for path, block in files.items()}
    deployments = tuple(source for path, source in sources.items() if path != SPEC)
    placement = case.spec.settings.get("placement")
    if lints:
        from mstarc.lint.select import selection, unknown_words

        wanted = case.spec.settings.get("select", ",".join(lints)).split(",")
        assert not unknown_words(wanted), f"no lint is meant by {unknown_words(wanted)}"
        outcome = driver.lint(sources[SPEC], selection(wanted), deployments=deployments)
    elif placement is None and not deployments:
        outcome = driver.check(sources[SPEC])
    else:
        options = CompileOptions(
            placements=(placement,) if placement else (), deployments=deployments
        )
        outcome = driver.compile_spec(sources[SPEC], options)
    report = Report(
        diagnostics=outcome.diagnostics, sources=sources, attempt=f"check `{SPEC}`", version="0"
    )
    return report, files


def disagreements(
    report: Report, path: str, expected: list[Expectation], page: Path, first_line: int
) -> Iterator[str]:
    """What was announced in the file at `path` and not reported, and the other way round."""
    left = [found for found in report.diagnostics if found.primary.span.path == path]
    for expectation in expected:
        match = next((found for found in left if _meets(report, found, expectation)), None)
        if match is not None:
            left.remove(match)
            continue
        place = f"{page.name}:{first_line + expectation.line - 1}"
        text = f" {expectation.text}" if expectation.text else ""
        yield f"{place}: announced {expectation.severity}[{expectation.code}]{text}: not reported"
    for found in left:
        start = report.start(found.primary.span)
        line = first_line + (start.line if start else 1) - 1
        severity = CATALOG[found.code].severity
        said = f"{severity}[{found.code}] {found.message}"
        yield f"{page.name}:{line}: reported {said}: not announced"


def _meets(report: Report, found: Diagnostic, expected: Expectation) -> bool:
    start = report.start(found.primary.span)
    if start is None or start.line != expected.line or found.code != expected.code:
        return False
    said = "\n".join([found.message, found.primary.text, *(label.text for label in found.labels)])
    return CATALOG[found.code].severity == expected.severity and expected.text in said
