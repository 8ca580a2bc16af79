"""What a rule is, and what it is given."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

from mstarc.diagnostics import Diagnostic, Edit, Fix, Label
from mstarc.names import Resolved, Symbol
from mstarc.records import dataclass
from mstarc.source import SourceFile, Span
from mstarc.syntax import ast
from mstarc.typecheck import Typed

if TYPE_CHECKING:
    from mstarc.deployment import Deployment

Level: TypeAlias = Literal["allow", "warn", "deny"]
Group: TypeAlias = Literal["correctness", "latency", "memory", "style"]
Status: TypeAlias = Literal["preview", "stable"]

GROUPS: tuple[Group, ...] = ("correctness", "latency", "memory", "style")


@dataclass(frozen=True, kw_only=True)
class RuleContext:
    """A checked spec without errors, and the deployments of it that are linted with it."""

    source: SourceFile
    typed: Typed
    deployments: "tuple[Deployment, ...]" = ()

    @property
    def resolved(self) -> Resolved:
        """What the spec's names mean."""
        return self.typed.resolved

    @property
    def spec(self) -> ast.Spec:
        """The tree."""
        return self.typed.resolved.spec

    @cached_property
    def used(self) -> frozenset[Symbol]:
        """Every symbol that some name stands for. Symbols are told apart by identity."""
        return frozenset(self.resolved.uses.values())

    @cached_property
    def nodes(self) -> Mapping[type[ast.Node], tuple[ast.Node, ...]]:
        """All nodes of the tree by class, in source order."""
        found: dict[type[ast.Node], list[ast.Node]] = {}
        for node in ast.descendants(self.spec):
            found.setdefault(type(node), []).append(node)
        return {kind: tuple(entries) for kind, entries in found.items()}

    @cached_property
    def called_ops(self) -> frozenset[tuple[str, str]]:
        """Node and op of every `node.op` that stands somewhere, calls and `via` alike."""
        references = self.nodes.get(ast.OpRef, ())
        return frozenset(
            (ref.node.text, ref.op.text) for ref in references if isinstance(ref, ast.OpRef)
        )

    def whole_lines(self, span: Span) -> Span:
        """What a fix should remove for a declaration at `span`.

        It is the lines that it has to itself, with the `##` lines before it, which would else
        describe what comes next, and one of two empty lines that would meet.
        """
        text = self.source.text
        start = text.rfind("\n", 0, span.start) + 1
        end = text.find("\n", span.end)
        end = len(text) if end < 0 else end + 1
        after = text[span.end : end].strip()
        if text[start : span.start].strip() or (after and not after.startswith("#")):
            return span
        while start > 0:
            before = text.rfind("\n", 0, start - 1) + 1
            if not text[before:start].strip().startswith("##"):
                break
            start = before
        if text[end : end + 1] == "\n" and text[:start].endswith(("\n\n", "{\n")):
            end += 1
        return Span(path=span.path, start=start, end=end)


Check: TypeAlias = Callable[[RuleContext], Iterator[Diagnostic]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One opinion. The catalogue has its name; `check` yields findings of this code only.

    `level` is what holds unless the command line says else: `allow` runs only where it is asked
    for, `warn` tells, `deny` fails. A `preview` rule may still change what it reports. Without a
    `check`, it is about suppressions, and `mstarc.lint.suppressions` reports it.
    """

    code: str
    group: Group
    level: Level = "warn"
    status: Status = "stable"
    check: Check | None


def finding(code: str, span: Span, message: str, label: str = "") -> Diagnostic:
    """A finding with its headline and primary label; notes, helps and labels are added to it."""
    return Diagnostic(code=code, message=message, primary=Label(span=span, text=label))


def removal(span: Span, message: str, *, safe: bool) -> Fix:
    """The fix that takes away what stands under `span`."""
    return Fix(
        message=message,
        edits=(Edit(span=span, text=""),),
        applicability="safe" if safe else "unsafe",
    )
