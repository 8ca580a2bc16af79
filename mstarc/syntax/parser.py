"""Text to syntax tree: tokens, braces, the automaton, and what to do where a token doesn't fit.

After a mistake the parser goes on: with what was surely meant, with one mark put in or left out
where only one does, or else at the next statement, item or declaration that stands where it should.
So one run reports several mistakes, and one mistake is reported once. `recovery` knows the marks
and the places.
"""

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label
from mstarc.records import dataclass
from mstarc.source import SourceFile, Span
from mstarc.syntax import ast
from mstarc.syntax.automaton import Automaton, open_constructs
from mstarc.syntax.braces import PairedTokens, pair_braces
from mstarc.syntax.build import TreeBuilder
from mstarc.syntax.comments import attached_docs, doc_text
from mstarc.syntax.errors import explain
from mstarc.syntax.recovery import Recovery
from mstarc.syntax.situation import Finding, Situation, finding_with_fix
from mstarc.syntax.straight import parse_straight
from mstarc.syntax.tables import END, Tables, load_tables
from mstarc.syntax.terminals import begins_domain, mark_terminal
from mstarc.syntax.tokens import END_OF_TEXT, MARK, NAME, STRING, Token, read_tokens, string_value
from mstarc.syntax.version import checked_start
from mstarc.syntax.words import RESERVED

MOST_ERRORS = 50
"""After so many mistakes in one file the rest is not read."""

QUIET_TOKENS = 2
"""A mistake so soon after going on is taken for a part of the one before."""

_LEAVES_HOLES = ("MS0104", "MS0105", "MS0111", "MS0118")
"""What could not be read of a line, so that the rest of it may not fit."""

_VALUES = frozenset(("NAME", "INT", "FLOAT", "STRING"))


def parse(source: SourceFile, sink: DiagnosticSink) -> ast.Spec | None:
    """The tree of a spec; mistakes go to `sink`.

    With mistakes the tree lacks what could not be read. None when nothing could be: an empty
    file, another version of the language, brackets too deep.
    """
    # What is found in pieces that mean nothing as a whole is a part of that mistake.
    early = DiagnosticSink()
    read = read_tokens(source, early)
    tokens = checked_start(read, source, early)
    if tokens is None:
        _report_all(early, sink, ())
        return None
    docs = {start: doc_text(comments) for start, comments in attached_docs(read).items()}
    if not early.diagnostics:
        own = DiagnosticSink()
        builder = TreeBuilder(source, docs, own)
        spec: ast.Spec | None = parse_straight(source, tokens, load_tables(), builder)
        if spec is not None:
            for found in own.diagnostics:
                sink.report(found)
            _require_model(spec, source, tokens, sink)
            return spec
    paired = pair_braces(tokens, source, early)
    parser = _Parser(source, paired, TreeBuilder(source, docs, sink), sink)
    parser.unread_lines = frozenset(
        source.position(found.primary.span.start).line
        for found in early.diagnostics
        if found.code in _LEAVES_HOLES
    )
    spec = parser.run()
    _report_all(early, sink, parser.progress.skipped)
    _require_model(spec, source, tokens, sink)
    return spec


def _report_all(
    early: DiagnosticSink, sink: DiagnosticSink, skipped: Sequence[tuple[int, int]]
) -> None:
    for found in early.diagnostics:
        start = found.primary.span.start
        if not any(begin <= start < end for begin, end in skipped):
            sink.report(found)


def _require_model(
    spec: ast.Spec, source: SourceFile, tokens: Sequence[Token], sink: DiagnosticSink
) -> None:
    if spec.model.span.start != spec.model.span.end or sink.has_errors:
        return
    first = tokens[min(2, len(tokens) - 1)]
    sink.report(
        Diagnostic(
            code="MS0122",
            message="the spec names no model",
            primary=Label(
                span=Span(path=source.path, start=first.start, end=first.end),
                text="expected `model name` before this",
            ),
        )
    )


def taken_after(source: SourceFile) -> frozenset[str] | None:
    """What could come next where an unfinished text ends: words and marks of the language, and
    `NAME`, `INT`, `FLOAT`, `STRING` for these kinds. None if there is a mistake before."""
    sink = DiagnosticSink()
    tokens = read_tokens(source, sink).tokens
    open_ended = PairedTokens(tokens=tokens, group=(), close={}, depth=())
    parser = _Parser(source, open_ended, TreeBuilder(source, {}, sink), sink)
    for token in tokens[:-1]:
        if not parser._take(token):
            return None
    return frozenset(parser.shown.get(name, name) for name in parser.automaton.taken())


@dataclass(slots=True)
class _Progress:
    """What has been reported, and how far the parser has come since."""

    errors: int = 0
    last_error: int = -1
    quiet_until: int = -1
    quiet_line: int = 0
    """A line whose rest is taken for a part of the mistake that was found on it."""
    said: set[tuple[int, str]] = field(default_factory=set)
    """What is said once a block, with the block's brace."""
    skipped: list[tuple[int, int]] = field(default_factory=list)
    """Where the text of pieces that were skipped begins and ends."""


class _Parser:
    def __init__(
        self, source: SourceFile, paired: PairedTokens, builder: TreeBuilder, sink: DiagnosticSink
    ) -> None:
        self.source = source
        self.paired = paired
        self.tokens = paired.tokens
        self.sink = sink
        self.tables: Tables = load_tables()
        self.automaton = Automaton(self.tables, builder)
        self.recovery = Recovery(paired, self.tables, self.automaton)
        self.shown = {name: text for text, name in self.tables.words.items()}
        self.shown |= {name: text for text, name in self.tables.marks.items()}
        self.progress = _Progress()
        self.unread_lines: frozenset[int] = frozenset()

    def run(self) -> ast.Spec:
        number = 0
        while self.tokens[number].kind != END_OF_TEXT:
            if self._is_trailing_comma(number):
                number += 1
                continue
            if self._take(self.tokens[number]):
                number += 1
                continue
            number = self._go_on(number)
        if not self.automaton.takes(END):
            self._report(len(self.tokens) - 1)
        spec: ast.Spec = self.automaton.finish()
        return spec

    def _is_trailing_comma(self, number: int) -> bool:
        """Whether a list ends with a comma; it is reported, and may be left out."""
        token, after = self.tokens[number], self.tokens[number + 1]
        if token.text != "," or token.kind != MARK or after.text not in (")", "]", "}"):
            return False
        closer = mark_terminal(after.text, self.tables)
        if closer is None or not self.automaton.takes(closer):
            return False
        self.progress.errors += 1
        span = Span(path=self.source.path, start=token.start, end=token.end)
        diagnostic = finding_with_fix(
            "MS0112", span, "a list ends with a comma", f"nothing stands before `{after.text}`", ""
        )
        self.sink.report(diagnostic)
        return True

    # One token.

    def _take(self, token: Token) -> bool:
        terminal = self._terminal(token)
        if terminal is None:
            return False
        row = self.tables.rows[self.automaton.states[-1]]
        action = row.get(terminal)
        if action is None:
            return False
        if action < 0 and not self.automaton.takes(terminal):
            return False
        self.automaton.reduce_for(terminal)
        self.automaton.shift(terminal, self._value(terminal, token), token.start, token.end)
        return True

    def _terminal(self, token: Token) -> str | None:
        """What the token is here: a word of the language only where the grammar takes it."""
        kind, text = token.kind, token.text
        if kind == MARK:
            return mark_terminal(text, self.tables)
        if kind != NAME:
            return kind
        word = self.tables.words.get(text)
        if text == "in":
            if begins_domain(self.source, token) and self.automaton.takes("_IN_DOMAIN"):
                return "_IN_DOMAIN"
            word = "IN"
        if word is None or self.automaton.takes(word):
            return word or NAME
        row = self.tables.rows[self.automaton.states[-1]]
        if text in RESERVED and ("INT" in row or "EMIT" in row):
            return word
        return NAME

    def _value(self, terminal: str, token: Token) -> Any:
        if terminal not in _VALUES:
            return token.text
        span = Span(path=self.source.path, start=token.start, end=token.end)
        match terminal:
            case "NAME":
                return ast.Name(span=span, text=token.text)
            case "INT":
                return ast.Int(span=span, value=int(token.text))
            case "FLOAT":
                return ast.Float(span=span, value=float(token.text), text=token.text)
            case _:
                return ast.Str(span=span, value=string_value(token.text))

    # A token that does not fit.

    def _go_on(self, number: int) -> int:
        """Report the mistake at a token, and give the number of the token to go on with."""
        finding = self._report(number)
        progress = self.progress
        if progress.errors > MOST_ERRORS:
            return len(self.tokens) - 1
        stuck = number == progress.last_error
        progress.last_error = number
        token = self.tokens[number]
        if finding is not None and not stuck:
            if finding.skip_line:
                return self._next_line(number)
            if finding.resume is not None:
                return self._resume(token, finding.instead, finding.resume)
            if finding.instead == "":
                return number + 1
            if finding.instead is not None and self._take(self._meant(token, finding.instead)):
                return number + 1
        if not stuck and not (finding is not None and finding.is_certain):
            missing = self.recovery.missing(number)
            if missing is not None and self._take(missing):
                return number
            if self._can_leave_out(number):
                return number + 1
        target = self.recovery.next_place(number + 1 if stuck else number)
        progress.quiet_until = target + QUIET_TOKENS
        return target

    def _resume(self, token: Token, instead: str | None, number: int) -> int:
        """Take what is meant instead, and go on with `number`; without, drop what is under way."""
        self.progress.skipped.append((token.start, self.tokens[number].start))
        words = instead.split() if instead is not None else ()
        if words and all(self._take(self._meant(token, word)) for word in words):
            return number
        if instead == "":
            return number
        target = self.recovery.next_place(number)
        self.progress.quiet_until = target + (target > number and QUIET_TOKENS)
        return target

    def _can_leave_out(self, number: int) -> bool:
        token = self.tokens[number]
        if token.kind != MARK or token.text in "{}":
            return False
        terminal = self._terminal(self.tokens[number + 1])
        return terminal is not None and self.automaton.takes(terminal)

    def _report(self, number: int) -> Finding | None:
        if number < self.progress.quiet_until or self._is_in_repaired(number):
            return None
        line = self.source.position(self.tokens[number].start).line
        if line == self.progress.quiet_line:
            return None
        finding = explain(self._situation(number))
        if finding.instead is None and finding.resume is None:
            if finding.diagnostic.code == "MS0101" and line in self.unread_lines:
                return None
            self.progress.quiet_line = line
        if finding.is_once:
            said = (self.paired.group[number], finding.diagnostic.message)
            if said in self.progress.said:
                return finding
            self.progress.said.add(said)
        self.progress.errors += 1
        self.sink.report(finding.diagnostic)
        return finding

    def _is_in_repaired(self, number: int) -> bool:
        """Whether a brace around a token was never closed, which has been reported."""
        group = self.paired.group[number]
        while group >= 0:
            if self.tokens[self.paired.close[group]].virtual:
                return True
            group = self.paired.group[group]
        return False

    def _situation(self, number: int) -> Situation:
        token = self.tokens[number]
        before = self.tokens[number - 1] if number else None
        taken = frozenset(self.automaton.taken())
        line_start = number - 1 if token.first_on_line and number else number
        while line_start and not self.tokens[line_start].first_on_line:
            line_start -= 1
        return Situation(
            source=self.source,
            tokens=self.tokens,
            number=number,
            token=token,
            before=before,
            after=self.tokens[number + 1] if token.kind != END_OF_TEXT else None,
            taken=taken,
            shown=self.shown,
            constructs=tuple(open_constructs(self.tables, self.automaton.states)),
            opener=self._opener(),
            line=self.tokens[line_start : number + 1],
            is_indented=token.first_on_line and self._is_indented(number),
        )

    def _is_indented(self, number: int) -> bool:
        start = number - 1
        while start > 0 and not self.tokens[start].first_on_line:
            start -= 1
        column = self.source.position(self.tokens[number].start).column
        return start >= 0 and column > self.source.position(self.tokens[start].start).column

    def _opener(self) -> Token | None:
        """The parenthesis or bracket that is open in the construct under way."""
        automaton = self.automaton
        for entry in range(len(automaton.values) - 1, 0, -1):
            value = automaton.values[entry]
            if value == "{":
                return None
            if isinstance(value, str) and value in ("(", "["):
                start, end = automaton.starts[entry], automaton.ends[entry]
                return Token(MARK, value, start, end, False)
        return None

    def _meant(self, token: Token, text: str) -> Token:
        kind = NAME if text.isidentifier() else STRING if text.startswith('"') else MARK
        return Token(kind, text, token.start, token.end, token.first_on_line, virtual=True)

    def _next_line(self, number: int) -> int:
        number += 1
        while not self.tokens[number].first_on_line and self.tokens[number].kind != END_OF_TEXT:
            number += 1
        return number
