"""Say what is wrong at a token that does not fit, in the language's words.

The parser gives the place and what it could have taken there; the answer is a diagnostic, and
where it is sure what was meant, the text to go on with.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mstarc.diagnostics import Diagnostic, Edit, Fix, Label
from mstarc.source import Span
from mstarc.syntax.forms import FORMS, Form
from mstarc.syntax.tokens import END_OF_TEXT, FLOAT, INT, NAME, STRING, Token
from mstarc.syntax.words import RESERVED


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Where the parser stands: at `token`, after `before`, able to take `taken`.

    `shown` gives the text of a terminal; `constructs` are the rules under way, innermost first;
    `opener` is the parenthesis or bracket that is open, `line` the tokens of the statement's line
    up to `token`.
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
    """A diagnostic; `instead` is the text that the token is read as, if that is certain, and
    `skip_line` says that the rest of the line means nothing."""

    diagnostic: Diagnostic
    instead: str | None = None
    skip_line: bool = False


def explain(situation: Situation) -> Finding:
    """What to say about a token that does not fit."""
    for habit in HABITS:
        finding = habit(situation)
        if finding is not None:
            return finding
    return Finding(diagnostic=_unexpected(situation))


# What people write who come from other languages: one function a habit, each with a test.


def slashes_for_a_comment(situation: Situation) -> Finding | None:
    """`layers : int = 28 // a comment`."""
    slashes = [token for token in situation.line if token.text == "//"]
    if not slashes:
        return None
    span = situation.span(slashes[0])
    return Finding(
        diagnostic=_with_fix(
            "MS0111", span, "`//` does not begin a comment", "a comment begins with `#`", "#"
        ),
        skip_line=True,
    )


def word_of_another_language(situation: Situation) -> Finding | None:
    """`component lm : kv_cache`, `if wants speech { … }`."""
    token = situation.token
    if token.kind != NAME:
        token = situation.before or token
        if token.kind != NAME or situation.token.text not in ("=", ":"):
            return None
    if situation.takes("walk") and situation.token.text != ":":
        words = _DECLARATION_WORDS
    elif situation.takes("emit") or "assign" in situation.constructs[:2]:
        words = _STATEMENT_WORDS
    elif situation.takes("impl"):
        words = _NODE_WORDS
    else:
        return None
    if token.text not in words:
        return None
    says, meant = words[token.text]
    message = f"`{token.text}` is not a word of this language here"
    span = situation.span(token)
    if meant is None or token is not situation.token:
        return Finding(diagnostic=_finding("MS0110", span, message, says))
    return Finding(diagnostic=_with_fix("MS0110", span, message, says, meant), instead=meant)


def equals_for_an_arrow(situation: Situation) -> Finding | None:
    """`emit speech = pcm`."""
    token = situation.token
    if token.text not in ("=", "->", "<", ":") or not situation.takes("<-"):
        return None
    verb = situation.line[0].text if situation.line else "send"
    return Finding(
        diagnostic=_with_fix(
            "MS0113",
            situation.span(token),
            f"`{token.text}` stands where a value is sent",
            f"`{verb}` takes its value after `<-`",
            "<-",
        ),
        instead="<-",
    )


def block_by_indentation(situation: Situation) -> Finding | None:
    """`node lm : kv_cache:` or a block that only its indentation shows."""
    token = situation.token
    if not situation.takes("{") or not (token.text == ":" or situation.is_indented):
        return None
    form = _form(situation)
    text = (
        "a block begins with `{`" if form is None else f"the block of {form.noun} begins with `{{`"
    )
    diagnostic = _finding(
        "MS0114", situation.span(token), "a block stands without braces", text
    ).help("put the block in `{ … }`; line breaks and indentation mean nothing")
    return Finding(diagnostic=diagnostic, instead="{" if token.text == ":" else None)


def yaml_key(situation: Situation) -> Finding | None:
    """`model: orpheus`, `nodes:`."""
    token, before = situation.token, situation.before
    if token.text != ":" or before is None or before.kind != NAME or not before.first_on_line:
        return None
    if not (situation.takes("walk") or before.text in ("model", "config", "request", "machine")):
        return None
    says = "declarations have no `:` after their word"
    if before.text in ("nodes", "walks", "streams", "machines", "states"):
        says = f"each {before.text[:-1]} is declared by itself"
    return Finding(
        diagnostic=_finding(
            "MS0114",
            situation.span(before).cover(situation.span(token)),
            "this is written as YAML",
            says,
        ).help("`model name`, `config { … }`, `request { … }`, `node name : engine { … }`")
    )


def reserved_name(situation: Situation) -> Finding | None:
    """`next = 3`, or a word of the language where a value is expected."""
    token, before = situation.token, situation.before
    word = token
    if token.text == "=" and before is not None and before.text in RESERVED:
        word = before
    elif token.text not in RESERVED or not ({"NAME"} <= situation.taken):
        return None
    expected = _expected(situation)
    text = f"expected {expected}" if word is token and expected else "cannot be the name of a value"
    return Finding(
        diagnostic=_finding(
            "MS0106", situation.span(word), f"`{word.text}` is a word of the language", text
        )
    )


def stream_without_policy(situation: Situation) -> Finding | None:
    """`stream codes : i64 tail drop`."""
    if not situation.takes("chunk") or _innermost(situation) != "stream":
        return None
    if not situation.token.first_on_line and situation.token.text not in ("tail", "empty", "}"):
        return None
    before = situation.before
    assert before is not None
    return Finding(
        diagnostic=_finding(
            "MS0116",
            situation.span(before),
            "a stream says nothing about its chunks",
            "expected `chunk` after this",
        ).help("write `chunk fixed(1)` for one item at a time")
    )


def loop_without_bound(situation: Situation) -> Finding | None:
    """`loop { … }`, `loop while token != eos { … }`."""
    before = situation.before
    if before is None or before.text != "loop" or not situation.takes("max"):
        return None
    return Finding(
        diagnostic=_finding(
            "MS0117", situation.span(before), "a loop has no bound", "may never end"
        ).help("write `loop n times`, or `loop max n` with a condition")
    )


HABITS: tuple[Callable[[Situation], Finding | None], ...] = (
    slashes_for_a_comment,
    yaml_key,
    word_of_another_language,
    equals_for_an_arrow,
    stream_without_policy,
    loop_without_bound,
    block_by_indentation,
    reserved_name,
)

_DECLARATION_WORDS: dict[str, tuple[str, str | None]] = {
    "component": ("a block of a model is a `node`", "node"),
    "submodule": ("a block of a model is a `node`", "node"),
    "module": ("a block of a model is a `node`", "node"),
    "graph": ("a path through the nodes is a `walk`", "walk"),
    "pipeline": ("a path through the nodes is a `walk`", "walk"),
    "def": ("a path through the nodes is a `walk`", "walk"),
    "fn": ("a path through the nodes is a `walk`", "walk"),
    "partition": ("what chooses walks is a `machine`", "machine"),
    "schedule": ("what chooses walks is a `machine`", "machine"),
    "edge": ("calls are joined by the names of their values", None),
    "inputs": ("inputs stand in `request { in … }`", None),
    "outputs": ("outputs stand in `request { out … }`", None),
    "import": ("a spec is one whole file", None),
    "state": ("a state stands in a `machine`", None),
    "const": ("constants stand in `config { … }`", None),
    "var": ("a static value is declared with `let`", "let"),
}

_STATEMENT_WORDS: dict[str, tuple[str, str | None]] = {
    "if": ("a static choice is a `when`", "when"),
    "elif": ("the other branch is `else when`", None),
    "while": ("a loop has a bound: `loop max n while …`", None),
    "repeat": ("a loop is `loop n times`", None),
    "return": ("results are the values of their names when the walk ends", None),
    "yield": ("`emit` gives a value to the client, `send` to a stream", None),
    "switch": ("kinds of parts are told apart by `match`", "match"),
    "goto": ("the next state is named by `next`", "next"),
    "var": ("a value has a name by `name = …`", None),
    "const": ("a value has a name by `name = …`", None),
    "await": ("a stream's next item is `pull stream`", None),
}

_NODE_WORDS: dict[str, tuple[str, str | None]] = {
    "class": ("the class is named by `impl`", "impl"),
    "def": ("what a node can do is an `op`", "op"),
    "fn": ("what a node can do is an `op`", "op"),
    "method": ("what a node can do is an `op`", "op"),
    "kv_cache": ("the cache's sizes stand in `kv { … }`", "kv"),
    "sampling": ("a sampler is `sample { … }`", "sample"),
    "context": ("contexts are named by `contexts`", "contexts"),
    "checkpoint": ("a checkpoint is named by `weights`", "weights"),
}


def _unexpected(situation: Situation) -> Diagnostic:
    token, before = situation.token, situation.before
    expected = _expected(situation)
    found = _found(token)
    message = f"expected {expected}, found {found}" if expected else f"{found} has no place here"
    form = _form(situation)
    if form is not None:
        label = f"{form.noun} goes on with {expected}" if expected else f"does not fit {form.noun}"
    elif before is not None:
        label = f"cannot follow `{before.text}`" if before.text else "cannot stand here"
    else:
        label = "cannot stand here"
    diagnostic = _finding("MS0101", situation.span(token), message, label)
    if situation.opener is not None and ("`)`" in expected or "`]`" in expected):
        diagnostic = diagnostic.label(situation.span(situation.opener), "opened here")
    if form is not None:
        diagnostic = diagnostic.help(f"{form.noun} reads {form.text}")
    return diagnostic


def _innermost(situation: Situation) -> str | None:
    return next((name for name in situation.constructs if name in FORMS), None)


def _form(situation: Situation) -> Form | None:
    name = _innermost(situation)
    return None if name is None else FORMS[name]


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


def _expected(situation: Situation) -> str:
    taken = set(situation.taken) - {"$END", "_IN_DOMAIN"}
    words: list[str] = []
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
    elif {"NAME", "LPAR", "LSQB"} <= taken:
        taken -= {"NAME", "LPAR", "LSQB"}
        words.insert(0, "a type")
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


def _found(token: Token) -> str:
    if token.kind == END_OF_TEXT:
        return "the end of the file"
    if token.kind == STRING:
        return "a string"
    if token.kind in (INT, FLOAT):
        return f"the number `{token.text}`"
    return f"`{token.text}`"


def _finding(code: str, span: Span, message: str, label: str) -> Diagnostic:
    return Diagnostic(code=code, message=message, primary=Label(span=span, text=label))


def _with_fix(code: str, span: Span, message: str, label: str, meant: str) -> Diagnostic:
    fix = Fix(
        message=f"write `{meant}`", edits=(Edit(span=span, text=meant),), applicability="safe"
    )
    return _finding(code, span, message, label).help(f"write `{meant}`").with_fix(fix)
