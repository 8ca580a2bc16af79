"""What follows from a name that is given twice.

Of two declarations with one name the first counts, and most uses may have meant the second. Both
are treated like parts that could not be read (`broken`): what has to do with them is told when one
has another name.
"""

from collections.abc import Iterable, Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.source import SourceFile, Span
from mstarc.syntax import ast
from mstarc.syntax.broken import BrokenParts, spoilt_parts

_CODE = "MS0201"


def without_consequences(
    source: SourceFile, tree: ast.Spec, found: tuple[Diagnostic, ...]
) -> tuple[Diagnostic, ...]:
    """The findings without those that names given twice may be the reason of."""
    doubles = [finding for finding in found if finding.code == _CODE]
    if not doubles:
        return found
    names = {label.span for double in doubles for label in (double.primary, *double.labels)}
    spans = tuple(_declared_at(names, tree))
    if not spans:
        return found
    parts = spoilt_parts(source, spans)
    return tuple(
        finding for finding in found if finding.code == _CODE or not _follows(finding, parts)
    )


def _follows(finding: Diagnostic, parts: BrokenParts) -> bool:
    return finding.primary.span.path == parts.source.path and parts.may_cause(finding)


def _declared_at(names: set[Span], tree: ast.Spec) -> Iterator[Span]:
    """The spans of the declarations, and of ops of nodes, whose names stand at these places."""
    declared = (ast.NodeDecl, ast.StreamDecl, ast.WalkDecl, ast.MachineDecl)
    for declaration in tree.declarations:
        if isinstance(declaration, declared) and declaration.name.span in names:
            yield declaration.span
        elif isinstance(declaration, ast.NodeDecl):
            yield from _ops_at(names, declaration.items)


def _ops_at(names: set[Span], items: Iterable[ast.Node]) -> Iterator[Span]:
    for item in items:
        if isinstance(item, ast.OpDecl) and item.name.span in names:
            yield item.span
