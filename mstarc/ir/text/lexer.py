"""Tokens of `program.mir`, and a cursor over them."""

import json
import re
from typing import Literal

from mstarc.records import dataclass
from mstarc.source import SourceFile, Span

TokenKind = Literal[
    "string", "number", "value", "option", "input", "index", "site", "loc", "name", "op", "end"
]

_TOKEN = re.compile(
    r"""
    (?P<skip>\s+|;[^\n]*)
  | (?P<loc>!(?:"(?:[^"\\]|\\.)*":)?\d+:\d+)
  | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
  | (?P<value>%(?:"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*(?:\.\d+)*))
  | (?P<option>\$(?:"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*))
  | (?P<input>@(?:"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*))
  | (?P<index>\^(?:"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*))
  | (?P<site>\#(?:"(?:[^"\\]|\\.)*"|[\w./]+))
  | (?P<name>[A-Za-z_]\w*)
  | (?P<op>->|<-|==|!=|<=|>=|//|\.\.|[-+*/%<>=(){}\[\],:.|?])
    """,
    re.VERBOSE | re.ASCII,
)
_KINDS: tuple[TokenKind, ...] = (
    "loc",
    "string",
    "number",
    "value",
    "option",
    "input",
    "index",
    "site",
    "name",
    "op",
)


class MirSyntaxError(ValueError):
    """A text that is no program. `line` and `column` start at 1."""

    def __init__(self, message: str, *, path: str, line: int, column: int) -> None:
        super().__init__(f"{path}:{line}:{column}: {message}")
        self.message = message
        self.path = path
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class Token:
    """`text` is what it says: strings and quoted names are unescaped, sigils are gone."""

    kind: TokenKind
    text: str
    start: int
    end: int


def tokenize(file: SourceFile) -> list[Token]:
    """All tokens of a text, the last of kind `end`."""
    tokens: list[Token] = []
    position, text = 0, file.text
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _error(file, position, f"unexpected character {text[position]!r}")
        kind = match.lastgroup
        for known in _KINDS:
            if kind == known:
                said = _said(known, match.group(), file, position)
                tokens.append(Token(known, said, position, match.end()))
        position = match.end()
    tokens.append(Token("end", "", position, position))
    return tokens


def _said(kind: TokenKind, raw: str, file: SourceFile, position: int) -> str:
    if kind in ("value", "option", "input", "index", "site"):
        raw = raw[1:]
    if kind == "loc":
        path = raw[1:].rpartition('":')[0]
        if path:
            _unquoted(path + '"', file, position)
        return raw
    return _unquoted(raw, file, position) if raw.startswith('"') else raw


def _unquoted(raw: str, file: SourceFile, position: int) -> str:
    try:
        said = json.loads(raw, strict=False)
    except json.JSONDecodeError as error:
        raise _error(file, position, f"bad string: {error.msg}") from error
    assert isinstance(said, str)
    return said


def _error(file: SourceFile, offset: int, message: str) -> MirSyntaxError:
    place = file.position(offset)
    return MirSyntaxError(message, path=file.path, line=place.line, column=place.column)


class Cursor:
    """Reads tokens one after another. `source` is the path of spans that name none."""

    def __init__(self, file: SourceFile) -> None:
        self.file = file
        self.tokens = tokenize(file)
        self.position = 0
        self.source: str | None = None

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.position]

    def ahead(self, count: int = 1) -> Token:
        """The token `count` after the next one; past the end, the last."""
        return self.tokens[min(self.position + count, len(self.tokens) - 1)]

    def fail(self, expected: str) -> MirSyntaxError:
        """The error that something else was expected here."""
        token = self.token
        found = "the end of the text" if token.kind == "end" else f"`{token.text}`"
        return _error(self.file, token.start, f"expected {expected}, found {found}")

    def take(self) -> Token:
        """The next token, consumed."""
        token = self.token
        if token.kind != "end":
            self.position += 1
        return token

    def kind(self, kind: TokenKind, what: str) -> str:
        """The text of the next token, which must be of this kind."""
        if self.token.kind != kind:
            raise self.fail(what)
        return self.take().text

    def at(self, text: str) -> bool:
        """Whether the next token is this keyword or operator."""
        return self.token.kind in ("name", "op") and self.token.text == text

    def accept(self, text: str) -> bool:
        """Consume this keyword or operator if it is next."""
        if not self.at(text):
            return False
        self.take()
        return True

    def expect(self, text: str) -> None:
        """Consume this keyword or operator, which must be next."""
        if not self.accept(text):
            raise self.fail(f"`{text}`")

    def name(self, what: str = "a name") -> str:
        """A name, quoted or not."""
        if self.token.kind not in ("name", "string"):
            raise self.fail(what)
        return self.take().text

    def string(self, what: str = "a string") -> str:
        """A quoted string."""
        return self.kind("string", what)

    def integer(self) -> int:
        """A whole number, perhaps negative."""
        sign = -1 if self.accept("-") else 1
        text = self.kind("number", "a whole number")
        try:
            return sign * int(text)
        except ValueError:
            self.position -= 1
            raise self.fail("a whole number") from None

    def span(self, start: int) -> Span:
        """The span that is written here, or else that of the text from `start` up to here."""
        if self.token.kind != "loc":
            end = self.tokens[self.position - 1].end if self.position else start
            return Span(path=self.file.path, start=start, end=max(start, end))
        place = self.take().text[1:]
        path = self.source
        if place.startswith('"'):
            quoted, _, place = place.rpartition('":')
            path = json.loads(quoted + '"', strict=False)
        first, last = place.split(":")
        return Span(path=self.file.path if path is None else path, start=int(first), end=int(last))
