"""Which parts of a text a mistake of syntax spoils, and what is a mistake also without them.

A declaration begins with its word at the left edge, and what is wrong in it stays in it. The tree
lacks what could not be read, so that names and types are checked with holes: a finding that has
to do with a spoilt part, by its places or by a name that the part may declare, may be no mistake.
It is not reported; it is found when the syntax is right.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from mstarc.diagnostics import Diagnostic, DiagnosticSink, did_you_mean
from mstarc.records import dataclass
from mstarc.source import SourceFile, Span
from mstarc.syntax import ast
from mstarc.syntax.braces import DECLARATION_WORDS
from mstarc.syntax.tables import load_tables
from mstarc.syntax.tokens import END_OF_TEXT, NAME, Token, read_tokens

# What one declaration alone shows. What follows from all of them together, a stream without a
# reader or a value that nothing uses, cannot be told with holes.
_TOLD_BY_ONE = ("MS02", "MS03", "MS0401", "MS0402")
_NOT_TOLD = ("MS0307",)
"""Whether a value may be none: conditions around it, lets and needs decide that."""

_BEGIN = re.compile(rf"^(?:{'|'.join(sorted(DECLARATION_WORDS))})\b", re.MULTILINE)
_DECLARED_OR_WORD = re.compile(
    r"#[^\n]*|\b(?:op|stream|let|table|walk|machine|node|config)\s+(?P<name>[A-Za-z_]\w*)|[A-Za-z_]\w*"
)
_QUOTED = re.compile(r"`([^`]+)`")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DECLARING = DECLARATION_WORDS | frozenset(
    ("op", "in", "out", "opt", "state", "contexts", "marks", "sample", "as", "carry", "collect")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenParts:
    """The spoilt parts of a text, and the names that they may declare.

    `shapes` are these names, and those of what is declared in terms of them: an op whose dims are
    config that could not be read.
    """

    source: SourceFile
    spans: tuple[Span, ...]
    names: frozenset[str]
    shapes: frozenset[str]

    def may_cause(self, finding: Diagnostic) -> bool:
        """Whether a finding may be none once the syntax is right."""
        if not finding.code.startswith(_TOLD_BY_ONE) or finding.code in _NOT_TOLD:
            return True
        places = (finding.primary.span, *(label.span for label in finding.labels))
        if any(_meet(place, span) for place in places for span in self.spans):
            return True
        words = set(_words(finding))
        if finding.code.startswith("MS02"):
            return any(word in self.names or did_you_mean(word, self.names) for word in words)
        # A type is worked out from what stands around: the names of the line count as well.
        line = self.source.position(finding.primary.span.start).line
        words.update(_WORD.findall(self.source.line_text(line)))
        return not words.isdisjoint(self.shapes)


def broken_parts(source: SourceFile, tree: ast.Spec, mistakes: Iterable[Diagnostic]) -> BrokenParts:
    """What `mistakes`, those of syntax, spoil: their declarations, and those not in `tree`."""
    text = source.text
    begins = [0, *(found.start() for found in _BEGIN.finditer(text) if found.start())]
    ends = [*begins[1:], len(text)]
    read = {declaration.span.start for declaration in tree.declarations}
    spoilt = {number for number, start in enumerate(begins) if number and start not in read}
    for mistake in mistakes:
        for label in (mistake.primary, *mistake.labels):
            spoilt.add(bisect_right(begins, label.span.start) - 1)
    spans = tuple(
        Span(path=source.path, start=begins[number], end=ends[number]) for number in sorted(spoilt)
    )
    return spoilt_parts(source, spans)


def spoilt_parts(source: SourceFile, spans: tuple[Span, ...]) -> BrokenParts:
    """These parts of a text, with the names that they may declare."""
    names = frozenset(name for span in spans for name in _declared_names(source.slice(span)))
    shapes = _in_terms_of(names, source.text)
    return BrokenParts(source=source, spans=spans, names=names, shapes=shapes)


def _in_terms_of(names: frozenset[str], text: str) -> frozenset[str]:
    """`names`, and the ops, streams, walks, lets and tables whose declarations hold one."""
    found = set(names)
    while True:
        count, current = len(found), ""
        for word in _DECLARED_OR_WORD.finditer(text):
            if word["name"] is not None:
                current = word["name"]
            elif word[0] in found and current:
                found.add(current)
        if len(found) == count:
            return frozenset(found)


def _declared_names(text: str) -> Iterator[str]:
    """The names that a part may declare; rather too many than too few."""
    tokens = read_tokens(SourceFile(path="", text=text), DiagnosticSink()).tokens
    words = load_tables().words
    before: Token | None = None
    open_parentheses = 0
    for number, token in enumerate(tokens[:-1]):
        after = tokens[number + 1]
        if token.first_on_line:
            open_parentheses = 0  # one may never be closed
        open_parentheses += (token.text == "(") - (token.text == ")")
        # Parameters are seen in their own declaration only.
        is_own = token.kind == NAME and not open_parentheses and token.text not in words
        if is_own and (
            number < 2
            or token.first_on_line
            or after.kind == END_OF_TEXT
            or after.text in (":", "(", "[", ",", "{", "as")
            or (before is not None and before.text in (*_DECLARING, ",", ")", "]"))
            or (before is not None and before.first_on_line and before.text not in words)
        ):
            yield token.text
        before = token


def _words(finding: Diagnostic) -> Iterator[str]:
    for said in (finding.message, finding.primary.text):
        for quoted in _QUOTED.findall(said):
            yield from _WORD.findall(quoted)


def _meet(one: Span, other: Span) -> bool:
    return one.start < other.end and other.start < max(one.end, one.start + 1)
