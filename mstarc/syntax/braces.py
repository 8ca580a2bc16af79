"""Pair the braces of a token list, and put in those that are missing.

A brace too few or too many would turn the rest of a file into errors. When the numbers differ, the
indentation says where: a `}` that stands in line with an outer `{` closes that one, and a
declaration at the left edge ends whatever is open.
"""

from mstarc.diagnostics import Diagnostic, DiagnosticSink, Edit, Fix, Label
from mstarc.records import dataclass
from mstarc.source import SourceFile, Span
from mstarc.syntax.foreign_words import DEFINITIONS, STATEMENTS
from mstarc.syntax.tokens import END_OF_TEXT, MARK, NAME, Token

DECLARATION_WORDS = frozenset(
    (
        *("config", "variant", "request", "need", "let", "table", "folded"),
        *("node", "stream", "walk", "machine"),
    )
)

_HEADERS = {
    **{word: f"a {word}" for word in ("variant", "node", "walk", "machine", "state", "loop")},
    **{word: f"a {word}" for word in ("when", "for", "match", "sample")},
    "each": "an each",
    "config": "the config",
    "request": "the request",
    "parallel": "parallel",
    "kv": "kv",
}
"""Words that a block comes after, and how messages call it."""

DEEPEST = 50
"""Brackets in brackets: no spec needs more, and every reader of the tree may recurse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTokens:
    """Tokens whose braces pair up. By token number: `group` is the number of the `{` around it (-1
    at the top; a `}` belongs to its own group), `close` the number of the `}` of a `{`."""

    tokens: tuple[Token, ...]
    group: tuple[int, ...]
    close: dict[int, int]
    depth: tuple[int, ...]
    """How many braces are open around a token."""


def pair_braces(
    tokens: tuple[Token, ...], source: SourceFile, sink: DiagnosticSink
) -> PairedTokens:
    """Pairs all braces; reports MS0102 and MS0103 and repairs."""
    if not _are_balanced(tokens):
        tokens = _Repair(tokens, source, sink).run()
    group: list[int] = []
    depth: list[int] = []
    close: dict[int, int] = {}
    open_braces: list[int] = []
    for number, token in enumerate(tokens):
        group.append(open_braces[-1] if open_braces else -1)
        depth.append(len(open_braces))
        if token.kind != MARK:
            continue
        if token.text == "{":
            open_braces.append(number)
        elif token.text == "}":
            close[open_braces.pop()] = number
    return PairedTokens(tokens=tokens, group=tuple(group), close=close, depth=tuple(depth))


def deepest_bracket(tokens: tuple[Token, ...]) -> Token | None:
    """The first bracket that stands deeper than `DEEPEST`, or none."""
    depth = 0
    for token in tokens:
        if token.kind == MARK and token.text in "([{":
            depth += 1
            if depth > DEEPEST:
                return token
        elif token.kind == MARK and token.text in ")]}":
            depth = max(0, depth - 1)
    return None


def _are_balanced(tokens: tuple[Token, ...]) -> bool:
    depth = 0
    for number, token in enumerate(tokens):
        if depth and token.first_on_line and _begins_declaration(tokens, number):
            # Only a brace at the left edge can be meant to hold a declaration's word.
            return False
        if token.kind == MARK and token.text in "{}":
            depth += 1 if token.text == "{" else -1
            if depth < 0:
                return False
    return depth == 0


def _begins_declaration(tokens: tuple[Token, ...], number: int) -> bool:
    """Whether a declaration can only begin here: its word, then what follows that word."""
    token = tokens[number]
    if token.kind != NAME or token.text not in DECLARATION_WORDS:
        return False
    after = tokens[number + 1]
    if token.text in ("config", "request"):
        return after.text == "{"
    if token.text in ("node", "stream", "walk", "machine", "table"):
        then = tokens[min(number + 2, len(tokens) - 1)].text
        return after.kind == NAME and then in (":", "(", "as", "{", "when", "[")
    return False


class _Repair:
    def __init__(self, tokens: tuple[Token, ...], source: SourceFile, sink: DiagnosticSink) -> None:
        self.tokens = tokens
        self.source = source
        self.sink = sink
        self.result: list[Token] = []
        self.open: list[Token] = []
        self.findings = 0

    def run(self) -> tuple[Token, ...]:
        for number, token in enumerate(self.tokens):
            at_edge = token.first_on_line and self._column(token) == 1
            if token.kind == END_OF_TEXT or (
                at_edge and self.open and _begins_declaration(self.tokens, number)
            ):
                self._close_all(token)
            if token.kind != MARK or token.text not in "{}":
                self.result.append(token)
            elif token.text == "{":
                self.open.append(token)
                self.result.append(token)
            elif self._put_in_opener(token):
                self.result.append(token)
            elif not self.open:
                self._report_stray(token)
            else:
                self._close_inner(token)
                self.open.pop()
                self.result.append(token)
        return tuple(self.result)

    def _put_in_opener(self, token: Token) -> bool:
        """Put in the `{` of a `}` that stands in line with a header without one."""
        if not token.first_on_line:
            return False
        column = self._column(token)
        if self.open and self._indent(self.open[-1]) >= column:
            return False
        begins = len(self.result) - 1
        while begins >= 0 and not (
            self.result[begins].first_on_line and self._column(self.result[begins]) <= column
        ):
            begins -= 1
        if begins < 0:
            return False
        header = self.result[begins]
        noun = _HEADERS.get(header.text, "")
        is_header = noun or header.text in DEFINITIONS or header.text in STATEMENTS
        if not is_header or self._column(header) != column:
            return False
        end = begins + 1
        while end < len(self.result) and not self.result[end].first_on_line:
            end += 1
        if any(other.text == "{" for other in self.result[begins:end]):
            return False
        last = self.result[end - 1]
        if noun and not self._counts(begins):
            self._report_unopened(last, token, noun)
        if last.text == ":":
            del self.result[end - 1]
            end -= 1
        self.result.insert(end, Token(MARK, "{", last.end, last.end, False, virtual=True))
        return True

    def _counts(self, begins: int) -> bool:
        """Whether a `for` counts, as in other languages: that is a mistake of its own."""
        words = [token.text for token in self.result[begins : begins + 5]]
        return words[0] == "for" and (words[1] == "(" or words[4:] in (["("], [".."]))

    def _report_unopened(self, last: Token, close: Token, noun: str) -> None:
        is_colon = last.text == ":"
        at = self._span(last.start if is_colon else last.end, last.end)
        text = "{" if is_colon and self.source.text[last.start - 1] == " " else " {"
        fix = Fix(message="write `{`", edits=(Edit(span=at, text=text),), applicability="safe")
        where = "not with `:`" if is_colon else "after this"
        self._report(
            Diagnostic(
                code="MS0114",
                message="a block is closed and never opened",
                primary=Label(
                    span=self._span(last.start, last.end),
                    text=f"the block of {noun} begins with `{{`, {where}",
                ),
                labels=(Label(span=self._span(close.start, close.end), text="closes it"),),
                helps=("write `{`; line breaks and indentation mean nothing",),
                fix=fix,
            )
        )

    def _close_inner(self, token: Token) -> None:
        """Close the braces that `token`, first on its line, stands too far left to close."""
        if not token.first_on_line:
            return
        column = self._column(token)
        if not any(self._indent(brace) == column for brace in self.open):
            return
        while len(self.open) > 1 and self._indent(self.open[-1]) > column:
            self._close(self.open.pop(), token)

    def _close_all(self, token: Token) -> None:
        while self.open:
            self._close(self.open.pop(), token)

    def _close(self, brace: Token, before: Token) -> None:
        """Put in the `}` of `brace`: before the first line that does not stand further right than
        the brace's own, or before `before`."""
        indent = self._indent(brace)
        place = self.result.index(brace) + 1
        while place < len(self.result):
            token = self.result[place]
            if token.first_on_line and self._column(token) <= indent:
                before = token
                break
            place += 1
        last = self.result[place - 1]
        is_one_line = not any(token.first_on_line for token in self._inside(brace, place))
        self._report_unclosed(brace, last, before, " }" if is_one_line else "\n}")
        self.result.insert(place, Token(MARK, "}", last.end, last.end, False, virtual=True))

    def _inside(self, brace: Token, place: int) -> list[Token]:
        return self.result[self.result.index(brace) + 1 : place]

    def _report_unclosed(self, brace: Token, last: Token, before: Token, text: str) -> None:
        if before.kind == END_OF_TEXT:
            says = "the file ends here"
        elif before.text == "}":
            says = "stands left of what it would close"
        else:
            says = "stands outside of it"
        at = self._span(last.end, last.end)
        message = "close it with `}`"
        fix = Fix(message=message, edits=(Edit(span=at, text=text),), applicability="unsafe")
        self._report(
            Diagnostic(
                code="MS0102",
                message="a `{` is never closed",
                primary=Label(span=self._span(brace.start, brace.end), text="opened here"),
                labels=(Label(span=self._span(before.start, before.end), text=says),),
                helps=(message,),
                fix=fix,
            )
        )

    def _report_stray(self, token: Token) -> None:
        self._report(
            Diagnostic(
                code="MS0103",
                message="a `}` closes nothing",
                primary=Label(span=self._span(token.start, token.end), text="no `{` is open here"),
                helps=("remove it, or open what it closes",),
            )
        )

    def _report(self, diagnostic: Diagnostic) -> None:
        self.findings += 1
        if self.findings <= DEEPEST:
            self.sink.report(diagnostic)

    def _column(self, token: Token) -> int:
        return self.source.position(token.start).column

    def _indent(self, token: Token) -> int:
        """The column of the first character of the token's line."""
        line = self.source.line_text(self.source.position(token.start).line)
        return len(line) - len(line.lstrip()) + 1

    def _span(self, start: int, end: int) -> Span:
        return Span(path=self.source.path, start=start, end=end)
