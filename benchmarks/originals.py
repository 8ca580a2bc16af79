"""Specs that are right, with what mistakes are made of: nodes, names, blocks."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from mutants import Mutant

from mstarc.diagnostics import DiagnosticSink
from mstarc.source import SourceFile, Span
from mstarc.syntax import ast
from mstarc.syntax.parser import parse

N = TypeVar("N", bound=ast.Node)


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """A spec that is right, its tree, and every name in it."""

    source: SourceFile
    tree: ast.Spec
    names: frozenset[str]

    def all_of(self, kind: type[N]) -> list[N]:
        """Every node of a class, in source order."""
        return [node for node in ast.descendants(self.tree) if isinstance(node, kind)]

    def block_around(self, span: Span) -> Span:
        """The smallest block or declaration that holds `span`, from the head of its line."""
        holders = [
            node.span
            for node in ast.descendants(self.tree)
            if isinstance(node, ast.Block | ast.NodeDecl | ast.MachineDecl | ast.RequestDecl)
            and node.span.start <= span.start
            and span.end <= node.span.end
            and node.span != span
        ]
        return min(holders, key=lambda held: held.end - held.start, default=self.tree.span)


Mistake = Callable[[Original], Iterator[Mutant]]


def original(source: SourceFile) -> Original:
    """A spec without syntax errors, ready to be broken."""
    sink = DiagnosticSink()
    tree = parse(source, sink)
    assert tree is not None and not sink.has_errors, f"{source.path} is broken already"
    names = {node.text for node in ast.descendants(tree) if isinstance(node, ast.Name)}
    return Original(source=source, tree=tree, names=frozenset(names))


def without_comments(text: str) -> str:
    """The text with comments blanked, so that offsets stay."""
    return re.sub(r"#[^\n]*", lambda found: " " * len(found[0]), text)
