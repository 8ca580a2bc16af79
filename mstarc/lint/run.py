"""Run the chosen rules over a spec and its deployments."""

from collections.abc import Iterable, Mapping

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import RuleContext
from mstarc.lint.registry import RULES
from mstarc.lint.select import Selection
from mstarc.lint.suppressions import apply_suppressions
from mstarc.source import SourceFile


def lint_spec(
    context: RuleContext,
    chosen: Selection,
    sources: Mapping[str, SourceFile],
    warnings: Iterable[Diagnostic] = (),
) -> list[Diagnostic]:
    """What the rules in `chosen` find and no comment allows, file by file.

    `warnings` are those of the compiler, which comments may allow as well.

    `sources` are the files that findings may be in, and whose comments count: the spec and its
    deployments.
    """
    found: dict[str, list[Diagnostic]] = {path: [] for path in sources}
    for warning in warnings:
        if warning.primary.span.path in found:
            found[warning.primary.span.path].append(warning)
    for rule in RULES:
        if rule.check is None or rule.code not in chosen.enabled:
            continue
        for finding in rule.check(context):
            assert finding.code == rule.code, f"{rule.code} reports {finding.code}"
            found[finding.primary.span.path].append(finding)
    return [
        finding
        for path, findings in found.items()
        for finding in apply_suppressions(findings, sources[path], chosen)
    ]
