"""Where the parser stands when a token does not fit, and what it could have taken there."""

from mstarc.diagnostics import Diagnostic, Edit, Fix, Label
from mstarc.records import dataclass
from mstarc.source import Span
from mstarc.syntax.forms import FORMS, Form
from mstarc.syntax.tokens import Token


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Where the parser stands: at `token`, after `before`, able to take `taken`.

    `shown` gives the text of a terminal; `constructs` are the rules under way, innermost first;
    `opener` is the parenthesis or bracket that is open, `line` the tokens of its line up to
    `token`, or of the line before if `token` is the first.
    """

    path: str
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

    def takes(self, text: str) -> bool:
        """Whether a word or mark of the language could stand here."""
        return any(self.shown.get(terminal) == text for terminal in self.taken)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A diagnostic; `instead` is the text that the token is read as, if that is certain (empty:
    left out), `skip_line` says that the rest of the line means nothing, and `is_certain` that
    putting in a mark can't be right."""

    diagnostic: Diagnostic
    instead: str | None = None
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
    """The same, with `meant` to be written in its place."""
    fix = Fix(
        message=f"write `{meant}`", edits=(Edit(span=span, text=meant),), applicability="safe"
    )
    return finding(code, span, message, label).help(f"write `{meant}`").with_fix(fix)


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
