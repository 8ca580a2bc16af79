"""Apply the fixes that findings offer."""

from collections.abc import Iterable, Mapping

from mstarc.diagnostics import Diagnostic, Fix
from mstarc.diagnostics.render.patch import apply_edits
from mstarc.records import dataclass
from mstarc.source import SourceFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """The texts that changed, by path, and how many fixes went into them."""

    texts: Mapping[str, str]
    count: int


def apply_fixes(
    findings: Iterable[Diagnostic], sources: Mapping[str, SourceFile], *, unsafe: bool
) -> Fixed:
    """The sources with every fix that overlaps none before it, whole or not at all.

    A fix that had to wait is offered again when the new text is linted. Unsafe fixes are applied
    only with `unsafe`.
    """
    chosen: list[Fix] = []
    for finding in findings:
        fix = finding.fix
        if fix is None or (fix.applicability == "unsafe" and not unsafe):
            continue
        if all(edit.span.path in sources for edit in fix.edits) and not _meets(fix, chosen):
            chosen.append(fix)
    edits = [edit for fix in chosen for edit in fix.edits]
    paths = sorted({edit.span.path for edit in edits})
    texts = {
        path: apply_edits(
            sources[path].text, tuple(edit for edit in edits if edit.span.path == path)
        )
        for path in paths
    }
    return Fixed(texts=texts, count=len(chosen))


def _meets(fix: Fix, chosen: list[Fix]) -> bool:
    """Whether some edit touches the text of one chosen before."""
    return any(
        edit.span.path == other.span.path
        and edit.span.start <= other.span.end
        and other.span.start <= edit.span.end
        for taken in chosen
        for other in taken.edits
        for edit in fix.edits
    )
