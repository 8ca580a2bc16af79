"""Where the parser stands when a token does not fit, and what it could have taken there."""

from mstarc.diagnostics import Diagnostic, Edit, Fix, Label
from mstarc.records import dataclass
from mstarc.source import SourceFile, Span
from mstarc.syntax.braces import DECLARATION_WORDS
from mstarc.syntax.foreign_words import ForeignWord
from mstarc.syntax.forms import FORMS, Form
from mstarc.syntax.tokens import END_OF_TEXT, Token
from mstarc.syntax.words import RESERVED

_OPENERS, _CLOSERS = ("(", "[", "{"), (")", "]", "}")
_ENDS_OF_WORDS = (*_OPENERS, *_CLOSERS, ",", ";", "=", "->", "<-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Where the parser stands: at `token`, `number` in `tokens`, after `before`.

    `taken` are the terminals that could stand there.

    `shown` gives the text of a terminal; `constructs` are the rules under way, innermost first;
    `opener` is the parenthesis or bracket that is open, `line` the tokens of its line up to
    `token`, or of the line before if `token` is the first.
    """

    source: SourceFile
    tokens: tuple[Token, ...]
    number: int
    token: Token
    before: Token | None
    after: Token | None
    taken: frozenset[str]
    shown: dict[str, str]
    constructs: tuple[str, ...]
    opener: Token | None
    line: tuple[Token, ...]
    is_indented: bool
    """Whether `token` begins a line that stands further right than the line before it."""

    def span(self, token: Token) -> Span:
        """The token's place."""
        return Span(path=self.path, start=token.start, end=token.end)

    @property
    def path(self) -> str:
        """The path of the text."""
        return self.source.path

    def ahead(self, count: int) -> Token:
        """The token that stands so many after `token`; the last one where there are fewer."""
        return self.tokens[min(self.number + count, len(self.tokens) - 1)]

    def rest_of_line(self, number: int | None = None) -> tuple[Token, ...]:
        """The tokens from `number` (`token`'s) to the end of its line."""
        start = self.number if number is None else number
        return self.tokens[start : self.after_line(start)]

    def after_line(self, number: int) -> int:
        """The number of the token that begins the next line."""
        number += 1
        while number < len(self.tokens) - 1 and not self.tokens[number].first_on_line:
            number += 1
        return min(number, len(self.tokens) - 1)

    def after_bracket(self, number: int) -> int:
        """The number of the token after the bracket that opens at `number` and closes."""
        depth = 0
        while self.tokens[number].kind != END_OF_TEXT:
            text = self.tokens[number].text
            depth += (text in _OPENERS) - (text in _CLOSERS)
            number += 1
            if depth <= 0:
                break
        return number

    def after_statement(self, number: int) -> int:
        """The number of the token after the statement or item that begins on the line of `number`:
        after its block in braces, or after the lines that stand further right."""
        begins = number
        while begins and not self.tokens[begins].first_on_line:
            begins -= 1
        while number < self.after_line(begins):
            if self.tokens[number].text == "{":
                return self.after_bracket(number)
            if self.tokens[number].text == "}":
                return number
            number += 1
        column = self.column(self.tokens[begins])
        while self.tokens[number].kind != END_OF_TEXT and (
            self.column(self.tokens[number]) > column and self.tokens[number].text != "}"
        ):
            number = self.after_line(number)
        return number

    def next_declaration(self, number: int) -> int:
        """The number of the next token that begins a declaration at the left edge."""
        number += 1
        while self.tokens[number].kind != END_OF_TEXT and not (
            self.tokens[number].first_on_line
            and self.tokens[number].text in DECLARATION_WORDS
            and self.column(self.tokens[number]) == 1
        ):
            number += 1
        return number

    def column(self, token: Token) -> int:
        """Where on its line the token stands, from 1."""
        return self.source.position(token.start).column

    def after_word(self, number: int) -> int:
        """The number of the token after all that stands in a piece with `number`'s, no space
        between: `orpheus-3b`, `org/checkpoint`."""
        number += 1
        while (
            self.tokens[number].kind != END_OF_TEXT
            and self.tokens[number].start == self.tokens[number - 1].end
            and self.tokens[number].text not in _ENDS_OF_WORDS
        ):
            number += 1
        return number

    def text(self, start: int, end: int) -> str:
        """The text of the tokens from number `start` up to `end`, as it stands."""
        return self.source.text[self.tokens[start].start : self.tokens[end - 1].end]

    def declares(self, word: str, name: str) -> bool:
        """Whether the text declares a thing of this word and name, `walk` and `decode`."""
        return any(
            one.text == word and other.text == name
            for one, other in zip(self.tokens, self.tokens[1:], strict=False)
        )

    def takes_only_text(self) -> bool:
        """Whether a string can stand here, and no name and no other value."""
        return "STRING" in self.taken and not {"NAME", "INT"} & self.taken

    def takes(self, text: str) -> bool:
        """Whether a word or mark of the language could stand here."""
        return any(self.shown.get(terminal) == text for terminal in self.taken)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A diagnostic; `instead` is the text that the token is read as, if that is certain (empty:
    left out; several words stand with spaces between), `resume` is the number of the token to go
    on with after it (without `instead` what is under way is dropped), `skip_line` says that the
    rest of the line means nothing, and `is_certain` that putting in a mark can't be right."""

    diagnostic: Diagnostic
    instead: str | None = None
    resume: int | None = None
    is_once: bool = False
    """Whether more of the kind in the same block are a part of this mistake."""
    skip_line: bool = False
    is_certain: bool = False


def innermost(situation: Situation) -> str | None:
    """The rule under way that has a form, by name."""
    return next((name for name in situation.constructs if name in FORMS), None)


def form_of(situation: Situation) -> Form | None:
    """The form of the construct under way."""
    name = innermost(situation)
    return None if name is None else FORMS[name]


def finding(code: str, span: Span, message: str, label: str) -> Diagnostic:
    """A diagnostic with a headline and a label."""
    return Diagnostic(code=code, message=message, primary=Label(span=span, text=label))


def finding_with_fix(code: str, span: Span, message: str, label: str, meant: str) -> Diagnostic:
    """The same, with `meant` to be written in its place (empty: nothing)."""
    shown = f"write `{meant}`" if meant else "remove it"
    fix = Fix(message=shown, edits=(Edit(span=span, text=meant),), applicability="safe")
    return finding(code, span, message, label).help(shown).with_fix(fix)


def foreign_word(situation: Situation, token: Token, word: ForeignWord) -> Diagnostic:
    """MS0110 at a word that stands for no single word of this language."""
    message = f"`{token.text}` is not a word of this language"
    if token.text in RESERVED:
        message = f"`{token.text}` does not stand for this"
    found = finding("MS0110", situation.span(token), message, word.says)
    found = found.help(word.help or f"write `{word.meant}`")
    return found.note(word.note) if word.note else found


_VALUE = frozenset(
    [
        "NAME",
        "INT",
        "FLOAT",
        "STRING",
        "TRUE",
        "FALSE",
        "NONE",
        "MINUS",
        "NOT",
        "WANTS",
        "HAS",
        "LPAR",
        "LSQB",
        "PULL",
        "RUN",
    ]
)
_AFTER_VALUE = frozenset(
    [
        "PLUS",
        "MINUS",
        "STAR",
        "SLASH",
        "PERCENT",
        "CMP",
        "IN",
        "AND",
        "OR",
        "DOT",
        "LPAR",
        "LSQB",
        "ON",
        "FLOORDIV",
    ]
)
_LITERAL = frozenset(["INT", "FLOAT", "STRING", "TRUE", "FALSE", "MINUS", "LSQB"])
# A terminal that only one place can take: what to call that place, and all that it takes.
_PLACES: tuple[tuple[str, str, frozenset[str]], ...] = (
    (
        "EMIT",
        "a statement",
        frozenset(
            [
                "SEND",
                "EMIT",
                "LOOP",
                "PARALLEL",
                "WHEN",
                "FORK",
                "RELEASE",
                "RUN",
                "LET",
                "FOR",
                "MATCH",
                "EACH",
                "MARK",
                "NEXT",
                "NAME",
                "UNDERSCORE",
            ]
        ),
    ),
    (
        "WALK",
        "a declaration",
        frozenset(
            [
                "CONFIG",
                "REQUEST",
                "NEED",
                "LET",
                "TABLE",
                "FOLDED",
                "NODE",
                "STREAM",
                "WALK",
                "MACHINE",
                "MODEL",
            ]
        ),
    ),
    (
        "IMPL",
        "an item of the node (`impl`, `op`, …)",
        frozenset(["IMPL", "WEIGHTS", "SHARDS", "KV", "SAMPLE", "CONTEXTS", "OP"]),
    ),
    (
        "ATTENDS",
        "an effect (`attends`, `writes`, …)",
        frozenset(
            ["ATTENDS", "WRITES", "READS", "ADVANCE", "RECEPTIVE", "SAMPLER", "STATEFUL", "COST"]
        ),
    ),
)


PLACE_NAMES = frozenset(only for only, _, _ in _PLACES)


def expected_text(situation: Situation) -> str:
    """What could stand there, as a list of words and marks; empty if nothing could."""
    taken = {t for t in situation.taken if situation.shown.get(t) != "//"} - {"$END", "_IN_DOMAIN"}
    words: list[str] = []
    if "WALK" in taken:
        return "a declaration"
    if {"PLUS", "STAR"} <= taken:
        taken -= _AFTER_VALUE
    if taken - {"AND", "OR"}:
        taken -= {"AND", "OR"}
    for only, place, whole in _PLACES:
        if only in taken:
            taken -= whole
            words.append(place)
    if {"INT", "NAME"} <= taken:
        taken -= _VALUE
        words.insert(0, "a value")
    elif {"INT", "STRING"} <= taken:
        taken -= _LITERAL
        words.insert(0, "a number, a string, `true`, `false` or a list")
    elif {"INT", "FLOAT"} <= taken:
        taken -= {"INT", "FLOAT", "MINUS"}
        words.insert(0, "a number")
    elif taken == {"NAME", "LPAR", "LSQB"}:
        taken = set()
        words.insert(0, "a type")
    elif {"LPAR", "LSQB"} < taken:
        taken -= {"LPAR", "LSQB"}
    for terminal, noun in (("NAME", "a name"), ("INT", "a whole number"), ("STRING", "a string")):
        if terminal in taken:
            taken.discard(terminal)
            words.insert(0, noun)
    shown = sorted((situation.shown.get(t, "a comparison") for t in taken), key=_marks_first)
    words = [*[f"`{text}`" for text in shown if not text.isalpha()], *words]
    words += [f"`{text}`" for text in shown if text.isalpha()]
    if len(words) > 1:
        return f"{', '.join(words[:-1])} or {words[-1]}"
    return words[0] if words else ""


def _marks_first(text: str) -> tuple[bool, str]:
    return text.isalpha(), text
