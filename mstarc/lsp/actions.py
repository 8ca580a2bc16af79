"""What an editor can change for the author: fixes of findings, and suppressions of lints."""

from collections.abc import Sequence

from mstarc.diagnostics import CATALOG, Diagnostic, Edit
from mstarc.lint.comments import can_be_allowed
from mstarc.lint.fixes import apply_fixes
from mstarc.records import dataclass
from mstarc.source import SourceFile, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A change that an author may choose; `finding` is what it repairs."""

    title: str
    edits: tuple[Edit, ...]
    finding: Diagnostic | None
    is_preferred: bool


def actions(
    source: SourceFile, diagnostics: Sequence[Diagnostic], within: Span
) -> tuple[Action, ...]:
    """The changes for findings that touch a part of the text."""
    found: list[Action] = []
    for finding in diagnostics:
        span = finding.primary.span
        if span.end < within.start or span.start > within.end:
            continue
        if finding.fix is not None:
            found.append(
                Action(
                    title=finding.fix.message,
                    edits=finding.fix.edits,
                    finding=finding,
                    is_preferred=finding.fix.applicability == "safe",
                )
            )
        if can_be_allowed(finding.code):
            found.append(_suppression(source, finding))
    return tuple(found)


def _suppression(source: SourceFile, finding: Diagnostic) -> Action:
    line = source.position(finding.primary.span.start).line
    start = source.line_starts[line - 1]
    text = source.line_text(line)
    indent = text[: len(text) - len(text.lstrip())]
    comment = f"{indent}# mstarc: allow[{finding.code}] meant so\n"
    return Action(
        title=f"allow `{CATALOG[finding.code].name}` here",
        edits=(Edit(span=Span(path=source.path, start=start, end=start), text=comment),),
        finding=finding,
        is_preferred=False,
    )


def fix_all(source: SourceFile, diagnostics: Sequence[Diagnostic]) -> Action | None:
    """All safe fixes at once, where there are any."""
    fixed = apply_fixes(diagnostics, {source.path: source}, unsafe=False)
    text = fixed.texts.get(source.path)
    if text is None or text == source.text:
        return None
    whole = Span(path=source.path, start=0, end=len(source.text))
    return Action(
        title="make all safe fixes",
        edits=(Edit(span=whole, text=text),),
        finding=None,
        is_preferred=False,
    )
