"""A comment allows a warning of the compiler in every command, and in the editor."""

from collections.abc import Iterable

from mstarc import driver
from mstarc.diagnostics import Diagnostic
from mstarc.lint.select import Selection
from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from tests.support.shipped_specs import SPECS_BY_NAME

SPEC = SPECS_BY_NAME["orpheus"].source
WALK = "walk again(codes: i64[28]) { pcm = codec.decode(codes)  emit speech <- pcm }\n"
DEPLOYMENT = """model: orpheus
devices: 3xH200
max_seq_len: 16384
max_concurrent_requests: 4
node_groups:{comment}
  - {{node_names: [LLM], ranks: [0]}}
  - {{node_names: [snac_decoder], ranks: [1]}}
"""


def _codes(found: Iterable[Diagnostic]) -> list[str]:
    return [finding.code for finding in found]


def _deployment(comment: str) -> SourceFile:
    return SourceFile(path="d.yaml", text=DEPLOYMENT.format(comment=comment))


def test_a_comment_in_a_deployment_allows_a_warning() -> None:
    for comment, expected in (
        ("", ["MS0618"]),
        ("  # mstarc: allow[MS0618] the third comes next week", []),
        ("  # mstarc: allow[MS0619] another one", ["MS0618"]),
    ):
        options = CompileOptions(deployments=(_deployment(comment),))
        assert _codes(driver.compile_spec(SPEC, options).diagnostics) == expected


def test_lint_knows_that_the_comment_is_of_use() -> None:
    for comment, expected in (
        ("  # mstarc: allow[MS0618] the third comes next week", []),
        ("  # mstarc: allow[MS0619] another one", ["MS0618", "MS1001"]),
    ):
        outcome = driver.lint(SPEC, Selection(), deployments=(_deployment(comment),))
        assert _codes(outcome.diagnostics) == expected


def test_an_editor_shows_what_the_command_shows() -> None:
    for comment, expected in (
        ("", ["MS0524"]),
        ("# mstarc: allow[MS0524] the next version runs it\n", []),
        ("# mstarc: allow[MS0524]\n", ["MS1002"]),
    ):
        spec = SourceFile(path="s.mstar", text=SPEC.text + comment + WALK)
        inspection = driver.with_opinions(driver.inspect(spec), Selection())
        assert _codes(inspection.diagnostics) == expected
