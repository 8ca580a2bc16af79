"""Text to tokens and comments.

A word is one token whether the language has a meaning for it or not: the parser knows which words
it takes where it is. Whatever can't be read is reported and left out or read as what was meant,
so that the parser goes on.
"""

import re

from mstarc.diagnostics import Diagnostic, DiagnosticSink, Edit, Fix, Label
from mstarc.records import dataclass
from mstarc.source import SourceFile, Span
from mstarc.syntax.foreign_marks import FOREIGN_MARKS, meant_number
from mstarc.syntax.odd_text import read_odd, read_variable

MOST_FINDINGS = 50
"""A text with more unreadable places than this is not a spec."""

LONGEST_NUMBER = 40
"""In characters; far above what any value of the language can hold."""

NAME, INT, FLOAT, STRING, MARK, END_OF_TEXT = "NAME", "INT", "FLOAT", "STRING", "MARK", "END"


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is one of the constants above; `text` is what the language would have there."""

    kind: str
    text: str
    start: int
    end: int
    first_on_line: bool
    virtual: bool = False
    """Put in by us, to go on after a mistake."""


@dataclass(frozen=True, slots=True)
class Comment:
    """From `#` to the end of the line. One that has its line to itself is `own_line`."""

    text: str
    start: int
    end: int
    own_line: bool

    @property
    def is_doc(self) -> bool:
        """Whether it may belong to the declaration after it."""
        return self.own_line and self.text.startswith("##")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenList:
    """All tokens of a text, the last one being its end; and its comments."""

    tokens: tuple[Token, ...]
    comments: tuple[Comment, ...]


_PIECES = re.compile(
    r"""
    [ ]*(?:
      (?P<space>\s+)
    | (?P<comment>\#[^\n]*)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<float>[0-9]+(?:\.[0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+))
    | (?P<int>[0-9]+)
    | (?P<odd>/\*|<!--|"{3}|'{3}|`{3}|<{7}|@|[\u200b\u200c\u200d\u2060\u00ad\ufeff])
    | (?P<string>"(?:[^"\\\n]|\\[^\n])*")
    | (?P<foreign>&&|\|\||=>|:=|\.\.\.|!(?!=)|;|'[^'\n]*'
        |[\u2190\u2192\u2264\u2265\u2260\u2212\u2010\u2013\u2014\u2026\u00d7\u00f7]
        |[\uff1a\uff0c\uff1d\uff08\uff09\uff5b\uff5d\uff1b]
        |[\u201c\u201d\u201e][^\u201c\u201d\n]*[\u201c\u201d]
        |[\u2018\u2019][^\u2018\u2019\n]*[\u2018\u2019])
    | (?P<mark><-|->|\.\.|//|==|!=|<=|>=|[-+*/%<>=:,.|?()\[\]{}])
    | (?P<open_string>"[^\n]*)
    )
    """,
    re.VERBOSE,
)

_WORD_AFTER_NUMBER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


def read_tokens(source: SourceFile, sink: DiagnosticSink) -> TokenList:
    """The tokens and comments of a text, in order; reports what it can't read.

    Text that is no spec at all gets the first findings only.
    """
    return _Reader(source, sink).read()


def string_value(text: str) -> str:
    """The characters that a string literal means, its quotes included in `text`."""
    return _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[0]), text[1:-1])


class _Reader:
    def __init__(self, source: SourceFile, sink: DiagnosticSink) -> None:
        self.source = source
        self.sink = sink
        self.tokens: list[Token] = []
        self.comments: list[Comment] = []
        self.line_is_empty = True
        self.findings = 0
        self.is_fenced = False

    def read(self) -> TokenList:
        text = self.source.text
        match, add = _PIECES.match, self.tokens.append
        position = 0
        while position < len(text):
            found = match(text, position)
            if found is None:
                position = self._stray(position)
                continue
            kind = found.lastgroup
            assert kind is not None
            start, end = found.span(kind)
            if kind == "space":
                self.line_is_empty = self.line_is_empty or "\n" in found[kind]
                position = end
                continue
            piece = found[kind]
            if kind == "odd" or (
                piece == "-" and self.line_is_empty and text.startswith("-- ", start)
            ):
                position = self._odd(piece, start)
                continue
            if kind == "comment" or (piece == "//" and self.line_is_empty):
                position = self._comment(start, foreign=kind != "comment")
                continue
            position = end
            if kind == "name":
                add(Token(MARK if piece == "_" else NAME, piece, start, end, self.line_is_empty))
            elif kind == "mark":
                add(Token(MARK, piece, start, end, self.line_is_empty))
            else:
                position = self._other(kind, piece, start, end)
            self.line_is_empty = False
        end = len(text)
        self.tokens.append(Token(END_OF_TEXT, "", end, end, self.line_is_empty))
        return TokenList(tokens=tuple(self.tokens), comments=tuple(self.comments))

    def _other(self, kind: str, text: str, start: int, end: int) -> int:
        match kind:
            case "int" | "float":
                end = self._number(kind.upper(), text, start, end)
            case "string":
                self._check_escapes(text, start)
                self._add(STRING, text, start, end)
            case "open_string":
                end = self._open_string(text, start)
            case _:
                self._foreign(text, start, end)
        return end

    def _add(self, kind: str, text: str, start: int, end: int) -> None:
        self.tokens.append(Token(kind, text, start, end, self.line_is_empty))

    def _number(self, kind: str, text: str, start: int, end: int) -> int:
        if len(text) > LONGEST_NUMBER:
            self._report(
                "MS0118",
                start,
                end,
                "a number has too many digits",
                "no value is so long",
                ("write it with an exponent: `1.5e9`",),
            )
            text = text[:LONGEST_NUMBER] if kind == INT else "0.0"
        self._add(kind, text, start, end)
        word = _WORD_AFTER_NUMBER.match(self.source.text, end)
        if word is None:
            return end
        # Together one piece: `orpheus-3b` is, which the parser explains as a whole.
        self.tokens[-1] = Token(kind, text, start, word.end(), self.tokens[-1].first_on_line)
        written = text + word[0]
        message = f"`{written}` is neither a number nor a name"
        label = "a name begins with a letter, and a number holds digits only"
        meant = meant_number(written)
        if meant is None:
            says = "write the number in digits, or begin the name with a letter or `_`"
            self._report("MS0118", start, word.end(), message, label, (says,))
            return word.end()
        self._report_fix("MS0118", start, word.end(), message, label, meant)
        number, _, unit = meant.partition(" ")
        self.tokens[-1] = Token(kind, number, start, end, self.tokens[-1].first_on_line)
        if unit:
            self._add(NAME, unit, end, word.end())
        return word.end()

    def _open_string(self, text: str, start: int) -> int:
        end = start + len(text.rstrip())
        self._report(
            "MS0104",
            start,
            end,
            "a string is never closed",
            "opened here",
            ('a string ends on its own line with `"`',),
        )
        self._add(STRING, self.source.text[start:end] + '"', start, end)
        return end

    def _check_escapes(self, text: str, start: int) -> None:
        for found in _ESCAPE.finditer(text):
            if found[1] not in _ESCAPES:
                at = start + found.start()
                self._report(
                    "MS0119",
                    at,
                    at + 2,
                    f"`{found[0]}` means nothing in a string",
                    "not an escape of this language",
                    ('the escapes are `\\n`, `\\t`, `\\"` and `\\\\`',),
                )

    def _foreign(self, text: str, start: int, end: int) -> None:
        if text in FOREIGN_MARKS:
            says, meant = FOREIGN_MARKS[text]
            message = f"`{text}` is not a mark of this language"
            if text == ";":
                message = "statements need no `;`"
            self._report_fix("MS0112", start, end, message, says, meant)
            if meant:
                self._add(NAME if meant.isalpha() else MARK, meant, start, end)
            return
        meant = '"' + text[1:-1].replace("\\", "\\\\").replace('"', '\\"') + '"'
        self._report_fix(
            "MS0112",
            start,
            end,
            "a string stands in other quotes",
            'strings are written `"…"`',
            meant,
        )
        self._add(STRING, meant, start, end)

    def _odd(self, piece: str, start: int) -> int:
        if piece == "@":
            if not self.line_is_empty:
                return self._stray(start)
            # The parser says what is wrong with a decorator and what it decorates.
            self._add(MARK, piece, start, start + 1)
            self.line_is_empty = False
            return start + 1
        finding, end = read_odd(self.source, piece, start)
        if finding is not None and not (piece == "```" and self.is_fenced):
            self._send(finding)
        self.is_fenced = self.is_fenced or piece == "```"
        return end

    def _comment(self, start: int, *, foreign: bool) -> int:
        end = self.source.text.find("\n", start)
        end = len(self.source.text) if end < 0 else end
        if foreign:
            self._report_fix(
                "MS0111",
                start,
                start + 2,
                "`//` does not begin a comment",
                "a comment begins with `#`",
                "#",
            )
            return end
        text = self.source.text[start:end].rstrip()
        self.comments.append(Comment(text, start, start + len(text), self.line_is_empty))
        return end

    def _stray(self, start: int) -> int:
        text = self.source.text
        variable, end = read_variable(self.source, start)
        if variable is not None:
            self._send(variable)
            self._add(INT, "0", start, end)
            return end
        end = start + 1
        while end < len(text) and text[end] == text[start]:
            end += 1
        character = text[start]
        shown = f"`{character}`" if character.isprintable() else f"U+{ord(character):04X}"
        self._report(
            "MS0105",
            start,
            end,
            f"{shown} is not a character of this language",
            "found here",
            ('remove it; names hold letters, digits and `_`, and text stands in `"…"`',),
        )
        return end

    def _report(
        self,
        code: str,
        start: int,
        end: int,
        message: str,
        label: str,
        helps: tuple[str, ...] = (),
        fix: Fix | None = None,
    ) -> None:
        primary = Label(span=self._span(start, end), text=label)
        self._send(Diagnostic(code=code, message=message, primary=primary, helps=helps, fix=fix))

    def _send(self, diagnostic: Diagnostic) -> None:
        self.findings += 1
        if self.findings <= MOST_FINDINGS:
            self.sink.report(diagnostic)

    def _report_fix(
        self, code: str, start: int, end: int, message: str, label: str, meant: str
    ) -> None:
        span = self._span(start, end)
        shown = f"write `{meant}`" if meant else f"remove `{self.source.text[start:end]}`"
        fix = Fix(message=shown, edits=(Edit(span=span, text=meant),), applicability="safe")
        self._send(
            Diagnostic(
                code=code,
                message=message,
                primary=Label(span=span, text=label),
                helps=(shown,),
                fix=fix,
            )
        )

    def _span(self, start: int, end: int) -> Span:
        return Span(path=self.source.path, start=start, end=end)
