"""What people write who come from other languages: one function a habit, each with a test.

A habit looks at a token that does not fit and answers if it knows what was meant.
"""

from collections.abc import Callable
from itertools import pairwise

from mstarc.diagnostics import Edit, Fix
from mstarc.source import Span
from mstarc.syntax.foreign_code import (
    alias_after_parameters,
    dash_in_a_name,
    definition,
    generic_type,
    literal,
    model_as_a_block,
    op_without_its_word,
    order_of_a_declaration,
    range_as_a_call,
    results_without_parentheses,
    settings_without_commas,
    text_without_quotes,
    type_left_out,
)
from mstarc.syntax.foreign_statements import (
    call_for_a_send,
    choice_by_a_question_mark,
    condition_taken_for_a_suffix,
    counting_loop,
    each_in_another_order,
    flow_of_calls,
    negated_operator,
    next_with_a_mark,
    run_of_an_op,
    statement_without_its_word,
    typed_value,
)
from mstarc.syntax.foreign_words import (
    DECLARATIONS,
    FIELDS,
    NODE_ITEMS,
    PLACES_OF_ITEMS,
    STATEMENTS,
)
from mstarc.syntax.left_out import (
    argument_with_a_colon,
    context_without_node,
    loop_without_times,
    prefix_behind_a_size,
    size_without_unit,
)
from mstarc.syntax.situation import (
    Finding,
    Situation,
    expected_text,
    finding,
    finding_with_fix,
    foreign_word,
    form_of,
    innermost,
)
from mstarc.syntax.tokens import FLOAT, INT, NAME
from mstarc.syntax.words import RESERVED


def slashes_for_a_comment(situation: Situation) -> Finding | None:
    """`layers : int = 28 // a comment`."""
    slashes = [number for number, token in enumerate(situation.line) if token.text == "//"]
    if not slashes:
        return None
    # A text that fits as far as the line goes is a comment if two of its words are side by side.
    is_over = situation.token.first_on_line
    rest = [token.kind in (NAME, INT, FLOAT) for token in situation.line[slashes[0] : -1]]
    if is_over and not any(one and other for one, other in pairwise(rest)):
        return None
    span = situation.span(situation.line[slashes[0]])
    return Finding(
        diagnostic=finding_with_fix(
            "MS0111", span, "`//` does not begin a comment", "a comment begins with `#`", "#"
        ),
        skip_line=not is_over,
        is_certain=True,
    )


def word_of_another_language(situation: Situation) -> Finding | None:
    """`component lm : kv_cache`, `if wants speech { … }`."""
    token, before = situation.token, situation.before
    if situation.takes("walk"):
        words = DECLARATIONS
    elif situation.takes("emit"):
        words = STATEMENTS
    elif situation.takes("impl"):
        words = NODE_ITEMS
        if before is not None and before.first_on_line and before.text in ("def", "fn", "func"):
            # Taken for a context that the op before writes.
            token = before
    elif situation.takes("opt"):
        words = FIELDS
    elif before is not None and situation.takes("=") and situation.takes("."):
        # The word was taken for the name of a value or of a node.
        token, words = before, STATEMENTS
    else:
        return None
    if token.kind != NAME or token.text not in words:
        return None
    word = words[token.text]
    if token.text == "if" and words is STATEMENTS:
        end = situation.after_statement(situation.number)
        for inner in situation.tokens[situation.number : end]:
            if inner.text in ("break", "continue"):
                # Which is what the condition is for.
                diagnostic = foreign_word(situation, inner, words[inner.text])
                return Finding(diagnostic=diagnostic, resume=end)
    number = situation.number - (token is not situation.token)
    has_braces = any(other.text == "{" for other in situation.rest_of_line(number))
    is_read_as_meant = word.meant is not None and not word.help and number == situation.number
    if is_read_as_meant and (token.text != "if" or has_braces):
        assert word.meant is not None
        message = f"`{token.text}` is not a word of this language"
        span = situation.span(token)
        diagnostic = finding_with_fix("MS0110", span, message, word.says, word.meant)
        return Finding(diagnostic=diagnostic, instead=word.meant)
    diagnostic = foreign_word(situation, token, word)
    if has_braces and words is STATEMENTS:
        # What stands in the block is read: it may hold mistakes of its own.
        return Finding(diagnostic=diagnostic, is_certain=True)
    return Finding(diagnostic=diagnostic, resume=situation.after_statement(number))


def item_at_the_top(situation: Situation) -> Finding | None:
    """`op step(…)` outside a node, `emit …` outside a walk."""
    token = situation.token
    if not situation.takes("walk") or token.kind != NAME or token.text not in PLACES_OF_ITEMS:
        return None
    place = PLACES_OF_ITEMS[token.text]
    return Finding(
        diagnostic=finding(
            "MS0109",
            situation.span(token),
            f"`{token.text}` stands outside of any block",
            f"belongs in {place}",
        ),
        is_certain=True,
    )


def comma_between_items(situation: Situation) -> Finding | None:
    """`config { a : int = 1, b : int = 2 }`."""
    token, after = situation.token, situation.after
    items = ("config_item", "config", "request", "in_field", "out_field", "opt_field")
    if token.text != "," or not situation.takes("}") or innermost(situation) not in items:
        return None
    if after is None or after.kind != NAME:
        return None
    span = situation.span(token)
    fix = Fix(message="remove `,`", edits=(Edit(span=span, text=""),), applicability="safe")
    says = "items stand one after the other"
    diagnostic = finding("MS0112", span, "items of a block have no comma between them", says)
    return Finding(diagnostic=diagnostic.help("remove `,`").with_fix(fix), instead="")


def equals_for_an_arrow(situation: Situation) -> Finding | None:
    """`emit speech = pcm`."""
    token = situation.token
    if token.text not in ("=", "->", "<", ":") or not situation.takes("<-"):
        return None
    verbs = [token.text for token in situation.line if token.text in ("send", "emit")]
    verb = verbs[-1] if verbs else "send"
    value, target = situation.before, situation.after
    declared = {
        name.text
        for word, name in pairwise(situation.tokens)
        if word.text in ("stream", "out") and name.kind == NAME
    }
    if token.text == "->" and value is not None and target is not None and target.text in declared:
        # The arrow points to where the value goes.
        said, label = "`->` stands where a value is sent", f"`{verb}` takes its value after `<-`"
        diagnostic = finding("MS0113", situation.span(token), said, label)
        meant = f"write `{verb} {target.text} <- {value.text}`"
        return Finding(diagnostic=diagnostic.help(meant), instead="<-")
    return Finding(
        diagnostic=finding_with_fix(
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
    form = form_of(situation)
    text = (
        "a block begins with `{`" if form is None else f"the block of {form.noun} begins with `{{`"
    )
    diagnostic = finding(
        "MS0114", situation.span(token), "a block stands without braces", text
    ).help("put the block in `{ … }`; line breaks and indentation mean nothing")
    before = situation.before
    if token.text != ":" and before is not None:
        gap = Span(path=situation.path, start=before.end, end=before.end)
        diagnostic = diagnostic.label(gap, "`{` belongs here")
    return Finding(diagnostic=diagnostic, is_certain=True)


def yaml_key(situation: Situation) -> Finding | None:
    """`model: orpheus`, `nodes:`."""
    key, colon = situation.before, situation.token
    if situation.takes("walk") and situation.after is not None:
        key, colon = situation.token, situation.after
    if colon.text != ":" or key is None or key.kind != NAME or not key.first_on_line:
        return None
    if key is situation.before and key.text not in ("model", "config", "request", "machine"):
        return None
    says = "declarations have no `:` after their word"
    if key.text in ("nodes", "walks", "streams", "machines", "states"):
        says = f"each {key.text[:-1]} is declared by itself"
    return Finding(
        diagnostic=finding(
            "MS0114",
            situation.span(key).cover(situation.span(colon)),
            "this is written as YAML",
            says,
        ).help("`model name`, `config { … }`, `request { … }`, `node name : engine { … }`"),
        is_certain=True,
    )


def reserved_name(situation: Situation) -> Finding | None:
    """`next = 3`, or a word of the language where a value is expected."""
    token, before = situation.token, situation.before
    word = token
    if token.text == "=" and before is not None and before.text in RESERVED:
        word = before
    elif token.text not in RESERVED or not {"NAME", "INT"} <= situation.taken:
        return None
    expected = expected_text(situation)
    text = f"expected {expected}" if word is token and expected else "cannot be the name of a value"
    return Finding(
        diagnostic=finding(
            "MS0106", situation.span(word), f"`{word.text}` is a word of the language", text
        ),
        is_certain=True,
    )


def stream_without_policy(situation: Situation) -> Finding | None:
    """`stream codes : i64 tail drop`."""
    if not situation.takes("chunk") or innermost(situation) != "stream":
        return None
    if not situation.token.first_on_line and situation.token.text not in ("tail", "empty", "}"):
        return None
    before = situation.before
    assert before is not None
    return Finding(
        diagnostic=finding(
            "MS0116",
            situation.span(before),
            "a stream says nothing about its chunks",
            "expected `chunk` after this",
        ).help("write `chunk fixed(1)` for one item at a time")
    )


def loop_without_bound(situation: Situation) -> Finding | None:
    """`loop { … }`, `loop while token != eos { … }`."""
    words = [token.text for token in situation.line[-3:-1]]
    if words[-1:] == ["loop"] and situation.takes("max"):
        loop = situation.line[-2]
    elif words[:1] == ["loop"] and words[-1] in ("while", "until", "as", "carry", "collect"):
        loop = situation.line[-3]
    else:
        return None
    return Finding(
        diagnostic=finding(
            "MS0117", situation.span(loop), "a loop has no bound", "may never end"
        ).help("write `loop n times`, or `loop max n` with a condition"),
        is_certain=True,
    )


HABITS: tuple[Callable[[Situation], Finding | None], ...] = (
    definition,
    order_of_a_declaration,
    model_as_a_block,
    size_without_unit,
    prefix_behind_a_size,
    argument_with_a_colon,
    context_without_node,
    next_with_a_mark,
    run_of_an_op,
    statement_without_its_word,
    typed_value,
    flow_of_calls,
    each_in_another_order,
    counting_loop,
    loop_without_times,
    condition_taken_for_a_suffix,
    call_for_a_send,
    negated_operator,
    choice_by_a_question_mark,
    dash_in_a_name,
    range_as_a_call,
    generic_type,
    literal,
    text_without_quotes,
    results_without_parentheses,
    alias_after_parameters,
    op_without_its_word,
    settings_without_commas,
    slashes_for_a_comment,
    yaml_key,
    word_of_another_language,
    item_at_the_top,
    comma_between_items,
    equals_for_an_arrow,
    stream_without_policy,
    loop_without_bound,
    type_left_out,
    block_by_indentation,
    reserved_name,
)
