"""A name for a finding that stays the same when lines above it come and go."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping

from mstarc.diagnostics.diagnostic import Diagnostic
from mstarc.source import SourceFile

# A line that begins a declaration: a word in the first column, in a spec and in a deployment.
_DECLARATION = re.compile(r"[A-Za-z_][^\n{:=(#]*")


def fingerprints(
    diagnostics: tuple[Diagnostic, ...], sources: Mapping[str, SourceFile]
) -> tuple[str, ...]:
    """Sixteen hex digits for each finding, from code, path, declaration and trimmed source line.

    Findings that agree in all four are told apart by their order.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    result = []
    for diagnostic in diagnostics:
        span = diagnostic.primary.span
        facts: tuple[str, ...] = (diagnostic.code, span.path)
        if (source := sources.get(span.path)) is not None:
            line = source.position(span.start).line
            facts += (enclosing_declaration(source, line), source.line_text(line).strip())
        order = seen[facts]
        seen[facts] += 1
        digest = hashlib.sha256("\0".join((*facts, str(order))).encode()).hexdigest()
        result.append(digest[:16])
    return tuple(result)


def enclosing_declaration(source: SourceFile, line: int) -> str:
    """The head of the nearest declaration at or above the 1-based `line`, or an empty text."""
    for number in range(line, 0, -1):
        if head := _DECLARATION.match(source.line_text(number)):
            return head[0].strip()
    return ""
