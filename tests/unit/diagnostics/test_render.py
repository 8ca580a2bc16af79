"""Every output format of one fixed set of findings, and the rules that goldens do not show."""

import json
from dataclasses import replace

import pytest

from mstarc.diagnostics import CATALOG, Diagnostic, DiagnosticSink, Label
from mstarc.diagnostics.fingerprint import fingerprints
from mstarc.diagnostics.remedies import REMEDIES
from mstarc.diagnostics.render import FORMATS, Report, sarif
from mstarc.source import SourceFile, Span
from tests.support import findings
from tests.support.golden import ROOT, Golden

GOLDENS = ROOT / "tests" / "goldens" / "render"
EXTENSIONS = {"jsonl": "jsonl", "sarif": "json"}


@pytest.fixture(autouse=True)
def _fixed_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages of codes are texts that are improved; their form in SARIF is what is tested."""
    monkeypatch.setattr(sarif, "error_page", lambda code: f"# a-name ({code})\n\nA page.\n")


def golden_name(output_format: str) -> str:
    return f"{output_format}.{EXTENSIONS.get(output_format, 'txt')}"


@pytest.mark.parametrize("output_format", FORMATS)
def test_format_matches_its_golden(output_format: str, golden: Golden) -> None:
    golden.check(FORMATS[output_format](findings.report()), GOLDENS / golden_name(output_format))


def test_every_golden_has_a_format(golden: Golden) -> None:
    golden.check_no_orphans(GOLDENS, [*map(golden_name, FORMATS), "human-coloured.txt"])


def test_colours_change_nothing_but_colours(golden: Golden) -> None:
    coloured = FORMATS["human"](replace(findings.report(), colour=True))
    golden.check(coloured, GOLDENS / "human-coloured.txt")
    for code in ("0", "1;31", "1;33", "1", "1;34", "1;36"):
        coloured = coloured.replace(f"\x1b[{code}m", "")
    assert coloured == FORMATS["human"](findings.report())


@pytest.mark.parametrize("output_format", [name for name in FORMATS if name != "sarif"])
def test_no_findings_print_nothing(output_format: str) -> None:
    assert FORMATS[output_format](replace(findings.report(), diagnostics=())) == ""


def test_no_findings_close_old_alerts() -> None:
    document = json.loads(FORMATS["sarif"](replace(findings.report(), diagnostics=())))
    assert document["runs"][0]["results"] == []


def test_each_jsonl_line_is_an_object_with_offsets_into_the_text() -> None:
    report = findings.report()
    lines = FORMATS["jsonl"](report).splitlines()
    assert len(lines) == len(report.diagnostics)
    first = json.loads(lines[0])
    span = first["span"]
    assert findings.SPEC.text[span["startOffset"] : span["endOffset"]] == "stride = 35"
    assert (span["startLine"], span["startColumn"], span["endColumn"]) == (9, 47, 58)


def test_github_encodes_what_would_break_an_annotation() -> None:
    line = FORMATS["github"](findings.report()).splitlines()[2]
    assert "100%25 of it, it says" in line
    assert "%0Anote: " in line


def test_a_column_is_not_given_over_several_lines() -> None:
    report = findings.report()
    block = report.diagnostics[1].labels[0]
    found = replace(report.diagnostics[1], primary=block, labels=(), fix=None)
    line = FORMATS["github"](replace(report, diagnostics=(found,)))
    assert "line=4,endLine=7," in line
    assert "col=" not in line


def many(count: int) -> Report:
    source = SourceFile(path="s.mstar", text="x\n" * count)
    return Report(
        diagnostics=tuple(
            Diagnostic(
                code="MS0101",
                message=f"mistake {number}",
                primary=Label(span=Span(path=source.path, start=2 * number, end=2 * number + 1)),
            )
            for number in range(count)
        ),
        sources={source.path: source},
        attempt="compile `s.mstar`",
        version="1",
    )


def test_twenty_errors_are_shown_and_the_rest_is_counted() -> None:
    text = FORMATS["human"](many(23))
    assert "mistake 19\n" in text
    assert "mistake 20\n" not in text
    assert "error: and 3 more errors\n" in text
    assert text.endswith("error: could not compile `s.mstar`: 23 errors, 0 warnings\n")
    assert len(FORMATS["concise"](many(23)).splitlines()) == 23


def test_fingerprints_do_not_move_with_lines() -> None:
    report = findings.report()
    shifted = SourceFile(path=findings.SPEC.path, text="\n\n" + findings.SPEC.text)
    moved = tuple(
        replace(
            found,
            primary=Label(
                span=Span(
                    path=found.primary.span.path,
                    start=found.primary.span.start + 2,
                    end=found.primary.span.end + 2,
                )
            ),
        )
        for found in report.diagnostics[:2]
    )
    assert fingerprints(moved, {shifted.path: shifted}) == fingerprints(
        report.diagnostics[:2], report.sources
    )


def test_fingerprints_of_like_findings_differ() -> None:
    report = many(3)
    assert len(set(fingerprints(report.diagnostics, report.sources))) == 3


def test_control_characters_of_a_source_do_not_reach_the_terminal() -> None:
    source = SourceFile(path="s.mstar", text="a\x1b[31mb\tc\r\n")
    found = Diagnostic(
        code="MS0101",
        message="a \x1b[1m word",
        primary=Label(span=Span(path=source.path, start=7, end=8), text="here"),
    )
    report = Report(
        diagnostics=(found,), sources={source.path: source}, attempt="compile it", version="1"
    )
    for output_format in ("human", "concise"):
        assert "\x1b" not in FORMATS[output_format](report)
    assert "1 | a�[31mb c\n  |        ^ here\n" in FORMATS["human"](report)


def test_remedies_are_of_codes_that_there_are() -> None:
    assert set(REMEDIES) <= set(CATALOG)


def test_a_finding_without_a_help_of_its_own_gets_that_of_its_code() -> None:
    sink = DiagnosticSink()
    sink.error("MS0512", Span(path="a.mstar", start=0, end=1), "never reached", "behind a `next`")
    assert sink.diagnostics[0].helps == (REMEDIES["MS0512"],)
