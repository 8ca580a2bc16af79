"""Declarations, types and items as other languages have them: a function a habit, with a test.

Where a habit is sure how far the piece goes, it says where to go on, so that the piece is one
mistake. `habits` has those of single words and marks.
"""

import re

from mstarc.diagnostics import Edit, Fix
from mstarc.source import Span
from mstarc.syntax.braces import DECLARATION_WORDS
from mstarc.syntax.foreign_words import DECLARATIONS, DEFINITIONS, LITERALS
from mstarc.syntax.situation import (
    Finding,
    Situation,
    finding,
    finding_with_fix,
    foreign_word,
    form_of,
    innermost,
)
from mstarc.syntax.tokens import END_OF_TEXT, FLOAT, INT, NAME, STRING, Token

_UNQUOTED = re.compile(r"[^\s{}()\[\]\"'#]+")
_ENGINES = ("kv_cache", "stateless", "host")
_EFFECTS = ("attends", "writes", "reads", "advance", "receptive", "sampler", "stateful", "cost")


def definition(situation: Situation) -> Finding | None:
    """`def f(x):`, `import torch`, `class LM(Node):`, at the top."""
    token, before = situation.token, situation.before
    if before is not None and before.text == "from" and before.first_on_line:
        # `model echo` goes on with `from`, and so does Python's import.
        token = before
    elif not situation.takes("walk"):
        return None
    if token.text == "model" and token.first_on_line:
        diagnostic = finding(
            "MS0101", situation.span(token), "a spec has one model", "a second one"
        )
        diagnostic = diagnostic.help(
            "give each model its own file, or write a `variant` of this one"
        )
        return Finding(diagnostic=diagnostic, resume=situation.next_declaration(situation.number))
    word = DEFINITIONS.get(token.text)
    if word is None or not token.first_on_line:
        return None
    shown = token
    if token.text in ("@", "async"):
        name = situation.ahead(1)
        shown = Token(token.kind, token.text + name.text, token.start, name.end, True)
        if token.text == "async":
            shown = token
    diagnostic = foreign_word(situation, shown, word)
    return Finding(diagnostic=diagnostic, resume=situation.next_declaration(situation.number))


def order_of_a_declaration(situation: Situation) -> Finding | None:
    """`kv_cache lm : node { … }`, `lm node : kv_cache { … }`."""
    token, after = situation.token, situation.after
    if not situation.takes("walk") or not token.first_on_line or after is None:
        return None
    if token.text in _ENGINES and after.kind == NAME:
        says = "an engine stands after the name"
        shown = f"write `node {after.text} : {token.text} {{ … }}`"
    elif (
        token.kind == NAME
        and after.text in DECLARATION_WORDS
        and token.text not in (*DECLARATION_WORDS, *DECLARATIONS)
    ):
        says = f"`{after.text}` stands before the name"
        shown = f"write `{after.text} {token.text} …`"
    else:
        return None
    message = "the words of a declaration stand in another order"
    diagnostic = finding("MS0101", situation.span(token), message, says).help(shown)
    return Finding(diagnostic=diagnostic, resume=situation.next_declaration(situation.number))


def model_as_a_block(situation: Situation) -> Finding | None:
    """`model orpheus { from "…" }`."""
    before = situation.before
    if situation.token.text != "{" or before is None or innermost(situation) not in (None, "model"):
        return None
    if "model" not in [token.text for token in situation.line[:2]]:
        return None
    diagnostic = finding(
        "MS0101", situation.span(situation.token), "`model` takes no block", "opens a block"
    ).help('write `model name from "org/checkpoint"`; the other declarations stand beside it')
    return Finding(diagnostic=diagnostic, resume=situation.after_bracket(situation.number))


def text_without_quotes(situation: Situation) -> Finding | None:
    """`impl orpheus:LanguageModel`, `model m from org/checkpoint`."""
    token = situation.token
    if not situation.takes_only_text() or (token.kind != NAME and token.text not in ("/", ".")):
        return None
    if token.first_on_line and situation.column(token) == 1:
        return None
    if situation.after is not None and situation.after.kind == STRING:
        if situation.after.start != token.end:
            return None
        return _prefix_of_a_string(situation)
    found = _UNQUOTED.match(situation.source.text, token.start)
    assert found is not None
    text = found[0].rstrip(":;,")
    end = situation.number
    while situation.tokens[end].start < token.start + len(text):
        end += 1
    span = Span(path=situation.path, start=token.start, end=token.start + len(text))
    fix = Fix(
        message=f'write `"{text}"`',
        edits=(Edit(span=span, text=f'"{text}"'),),
        applicability="safe",
    )
    form = form_of(situation)
    noun = "this" if form is None else form.noun
    diagnostic = finding(
        "MS0101", span, "a text stands without quotes", f"{noun} goes on with a string"
    )
    if form is not None:
        diagnostic = diagnostic.help(f"{form.noun} reads {form.text}")
    return Finding(diagnostic=diagnostic.with_fix(fix), instead='""', resume=end)


def _prefix_of_a_string(situation: Situation) -> Finding:
    """`impl f"orpheus:{name}"`."""
    span = situation.span(situation.token)
    letter = situation.token.text
    fix = Fix(message=f"remove `{letter}`", edits=(Edit(span=span, text=""),), applicability="safe")
    diagnostic = finding("MS0112", span, "a string has no prefix", "nothing is put into strings")
    diagnostic = diagnostic.help(f"remove `{letter}`, and write the text out").with_fix(fix)
    return Finding(diagnostic=diagnostic, instead="", resume=situation.number + 1)


def range_as_a_call(situation: Situation) -> Finding | None:
    """`opt temperature : float = 0.6 in range(0, 2)`."""
    token, before = situation.token, situation.before
    if token.text != "(" or before is None or before.text != "range":
        return None
    if innermost(situation) != "in_field" or before.first_on_line:
        return None
    end = situation.after_bracket(situation.number)
    inside = situation.tokens[situation.number + 1 : end - 1]
    numbers = [inner.text for inner in inside if inner.kind in (INT, FLOAT)]
    low, high = numbers if len(numbers) == 2 else ("low", "high")
    diagnostic = finding(
        "MS0110", situation.span(before), "a range is no function", "both ends belong to a range"
    ).help(f"write `in {low} .. {high}`")
    return Finding(diagnostic=diagnostic, instead=": text", resume=end)


def generic_type(situation: Situation) -> Finding | None:
    """`tensor<28xi64>`, `Optional<text>`."""
    token, before = situation.token, situation.before
    if token.text != "<" or before is None or before.kind != NAME or not situation.takes("["):
        return None
    if innermost(situation) not in ("param", "params", "result", "type_field", "stream"):
        return None
    end = situation.number
    while situation.tokens[end].text != ">" and not situation.tokens[end + 1].first_on_line:
        if situation.tokens[end + 1].kind == END_OF_TEXT:
            break
        end += 1
    diagnostic = finding(
        "MS0110", situation.span(before), "a type takes nothing in `<…>`", "followed by `<`"
    ).help("a tensor is its element type and its dims, `f32[T, 512]`; `type or none` is optional")
    return Finding(diagnostic=diagnostic, instead="", resume=end + 1)


def dash_in_a_name(situation: Situation) -> Finding | None:
    """`model orpheus-3b`, `node my-lm : kv_cache`."""
    token, before, after = situation.token, situation.before, situation.after
    if token.text not in ("-", ".") or before is None or before.kind != NAME or after is None:
        return None
    if token.text == "." and innermost(situation) not in ("node", "model", "stream", "walk", None):
        return None
    if (
        before.end != token.start
        or token.end != after.start
        or after.kind not in (NAME, INT, FLOAT)
    ):
        return None
    end = situation.after_word(situation.number)
    if situation.tokens[end - 1].text == ":":
        end -= 1
    text = before.text + situation.text(situation.number, end)
    meant = "".join(letter if letter.isalnum() else "_" for letter in text)
    span = Span(path=situation.path, start=before.start, end=situation.tokens[end - 1].end)
    message = f"`{text}` is no name"
    says = "a name holds letters, digits and `_`"
    diagnostic = finding_with_fix("MS0101", span, message, says, meant)
    return Finding(diagnostic=diagnostic, instead="", resume=end)


def literal(situation: Situation) -> Finding | None:
    """`opt voice : str = None`, `wide : bool = True`."""
    token = situation.token
    if token.text not in LITERALS or not situation.takes("true"):
        return None
    meant = LITERALS[token.text]
    if meant == "none":
        diagnostic = finding(
            "MS0110",
            situation.span(token),
            f"`{token.text}` is not a word of this language",
            "a default is a value",
        ).help("leave `= …` out, or write a value of the type")
        return Finding(diagnostic=diagnostic, instead="0", is_certain=True)
    diagnostic = finding_with_fix(
        "MS0110",
        situation.span(token),
        f"`{token.text}` is not a word of this language",
        f"written `{meant}`",
        meant,
    )
    return Finding(diagnostic=diagnostic, instead=meant)


def results_without_parentheses(situation: Situation) -> Finding | None:
    """`op step(token: i64) -> i64`, `-> token: i64`."""
    token, before = situation.token, situation.before
    if before is None or before.text != "->" or not situation.takes("("):
        return None
    if token.text == "[" or token.kind == NAME:
        end = situation.number
        while situation.tokens[end].kind != END_OF_TEXT and not (
            situation.tokens[end].text in ("{", "}", "op", *_EFFECTS)
            or (situation.tokens[end].first_on_line and end > situation.number)
        ):
            end = situation.after_bracket(end)
        text = situation.text(situation.number, end).rstrip(":").rstrip()
        named = text if ":" in text else f"result: {text}"
        span = Span(path=situation.path, start=token.start, end=token.start + len(text))
        says = "a result has a name and a type, in parentheses"
    elif token.text == "{":
        end, span, named = situation.number, situation.span(token), "result: type"
        says = "what is given stands before the block"
    else:
        return None
    diagnostic = finding("MS0101", span, "the results stand without parentheses", says)
    form = form_of(situation)
    if form is not None:
        diagnostic = diagnostic.help(f"{form.noun} reads {form.text}")
    fix = Fix(
        message=f"write `({named})`",
        edits=(Edit(span=span, text=f"({named})"),),
        applicability="unsafe",
    )
    if token.text != "{" and ":" in text:
        diagnostic = diagnostic.with_fix(fix)
    if situation.tokens[end - 1].text == ":":
        end -= 1
    return Finding(diagnostic=diagnostic, instead="( )", resume=end)


def type_left_out(situation: Situation) -> Finding | None:
    """`in prompt`, `op step(token)`, `config { layers = 28 }`, `stream codes chunk fixed(1)`."""
    token, before = situation.token, situation.before
    if not situation.takes(":") or before is None or before.kind != NAME:
        return None
    kinds = {
        "in_field": ("the input", "text"),
        "out_field": ("the output", "text"),
        "opt_field": ("the option", "float"),
        "config_item": ("the config item", "int"),
        "param": ("the parameter", "i64"),
        "params": ("the parameter", "i64"),
        "result": ("the result", "i64"),
        "results": ("the result", "i64"),
        "stream": ("the stream", "i64"),
    }
    name = innermost(situation)
    if name not in kinds:
        return None
    if token.text == "=" and situation.after is not None and situation.after.kind == NAME:
        # `layers = int`: a type stands there, behind the wrong mark.
        return None
    is_over = token.first_on_line or token.text in (")", ",", "=", "}", "chunk", "optional", "if")
    if not is_over:
        return None
    noun, example = kinds[name]
    if token.text == "=" and situation.after is not None:
        example = _TYPES_OF_LITERALS.get(situation.after.kind, example)
    form = form_of(situation)
    diagnostic = finding(
        "MS0101",
        situation.span(before),
        f"{noun} `{before.text}` has no type",
        f"expected `:` and a type after this, as in `{before.text} : {example}`"
        if name not in ("param", "params", "result", "results")
        else f"expected `:` and a type after this, as in `{before.text}: {example}`",
    )
    if form is not None:
        diagnostic = diagnostic.help(f"{form.noun} reads {form.text}")
    return Finding(diagnostic=diagnostic, instead=f": {example}", resume=situation.number)


_TYPES_OF_LITERALS = {INT: "int", FLOAT: "float", STRING: "str"}


def op_without_its_word(situation: Situation) -> Finding | None:
    """`step(token: i64) -> (next: i64)` in a node."""
    token, before = situation.token, situation.before
    named = situation.tokens[situation.number : situation.number + 1] if token.kind == NAME else ()
    name = before
    if named and situation.after is not None and situation.after.text == "(":
        name = token
    elif token.text != "(":
        return None
    if name is None or not name.first_on_line or not situation.takes("impl"):
        return None
    start = situation.number if name is token else situation.number - 1
    span = situation.span(name)
    at = Span(path=situation.path, start=name.start, end=name.start)
    fix = Fix(message="write `op`", edits=(Edit(span=at, text="op "),), applicability="safe")
    diagnostic = finding(
        "MS0101", span, "an op stands without its word", "expected `op` before this"
    )
    diagnostic = diagnostic.help(f"write `op {name.text}(…)`").with_fix(fix)
    if name is token:
        return Finding(diagnostic=diagnostic, instead=f"op {name.text}", resume=start + 1)
    return Finding(diagnostic=diagnostic, instead=f"op {name.text}", resume=start + 1)


def alias_after_parameters(situation: Situation) -> Finding | None:
    """`walk decode(first: i64) as "step" { … }`."""
    token, after = situation.token, situation.after
    if token.text != "as" or innermost(situation) != "walk" or after is None:
        return None
    if after.kind != STRING:
        return None
    name = next((other.text for other in situation.line[1:] if other.kind == NAME), "name")
    span = situation.span(token).cover(situation.span(after))
    diagnostic = finding(
        "MS0101",
        span,
        "a public name stands after the parameters",
        "belongs before the `(` of the parameters",
    ).help(f"write `walk {name} as {after.text} (…)`")
    return Finding(diagnostic=diagnostic, instead="", resume=situation.number + 2)


def settings_without_commas(situation: Situation) -> Finding | None:
    """`kv { layers = 2  heads = 2 }`."""
    token, before, after = situation.token, situation.before, situation.after
    if not situation.takes(",") or not situation.takes("}") or token.kind != NAME:
        return None
    if innermost(situation) not in ("setting", "settings") or before is None or after is None:
        return None
    if after.text != "=":
        return None
    gaps = []
    number = situation.number
    while situation.tokens[number].text not in ("}", "{") and number < len(situation.tokens) - 1:
        gap = situation.tokens[number - 1].end
        begins = situation.tokens[number].kind == NAME and situation.tokens[number + 1].text == "="
        if begins and situation.tokens[number - 1].text != ",":
            gaps.append(Span(path=situation.path, start=gap, end=gap))
        number += 1
    fix = Fix(
        message="write `,`",
        edits=tuple(Edit(span=gap, text=",") for gap in gaps),
        applicability="safe",
    )
    diagnostic = finding(
        "MS0101", situation.span(token), "settings stand without commas", "expected `,` before this"
    ).help("settings read `{ name = value, name = value }`")
    return Finding(
        diagnostic=diagnostic.with_fix(fix),
        instead=f", {token.text}",
        resume=situation.number + 1,
        is_once=True,
    )
