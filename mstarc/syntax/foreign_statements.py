"""Statements as other languages have them: one function a habit, each with a test."""

from mstarc.diagnostics import Edit, Fix
from mstarc.source import Span
from mstarc.syntax.foreign_words import STATEMENTS, ForeignWord
from mstarc.syntax.situation import (
    Finding,
    Situation,
    finding,
    finding_with_fix,
    foreign_word,
    innermost,
)
from mstarc.syntax.tokens import INT, NAME


def call_for_a_send(situation: Situation) -> Finding | None:
    """`send(codes, token)`, `emit(speech, pcm)`, `send token to codes`."""
    token, before = situation.token, situation.before
    if before is None:
        return None
    if token.text == "(" and before.text in ("send", "emit"):
        verb, end = before, situation.after_bracket(situation.number)
        inside = situation.tokens[situation.number + 1 : end - 1]
        names = [inner for inner in inside if inner.kind == NAME]
        is_plain = [inner.text for inner in inside if inner.kind != NAME] == [","]
    elif token.text in ("to", "into") and situation.takes("<-"):
        verb, end = situation.line[-3], situation.number + 2
        names, is_plain = [situation.ahead(1), before], True
        if verb.text not in ("send", "emit"):
            return None
    else:
        return None
    what = "stream" if verb.text == "send" else "output"
    written = f"{verb.text} {what} <- value"
    if is_plain and len(names) == 2:
        written = f"{verb.text} {names[0].text} <- {names[1].text}"
    last = situation.tokens[end - 1]
    span = Span(path=situation.path, start=verb.start, end=last.end)
    fix = Fix(
        message=f"write `{written}`", edits=(Edit(span=span, text=written),), applicability="safe"
    )
    diagnostic = finding(
        "MS0113",
        situation.span(token),
        f"`{verb.text}` is written as a call"
        if token.text == "("
        else "a send names its stream first",
        f"`{verb.text}` takes the {what}, `<-` and its value",
    ).help(f"write `{written}`")
    if not is_plain or len(names) != 2:
        return Finding(diagnostic=diagnostic, resume=end)
    instead = f"{names[0].text} <- {names[1].text}" if token.text == "(" else f"<- {names[0].text}"
    return Finding(diagnostic=diagnostic.with_fix(fix), instead=instead, resume=end)


def counting_loop(situation: Situation) -> Finding | None:
    """`for i in range(n) { … }`, `for i in 0 .. n`, `for (i = 0; …)`."""
    words = [token.text for token in situation.line]
    start = next((n for n, text in enumerate(words) if text == "for"), None)
    if start is None or innermost(situation) not in ("for_", "opcall", None, "opref"):
        return None
    if not (words[start + 2 : start + 3] == ["in"] or words[start + 1 : start + 2] == ["("]):
        return None
    token, begins = situation.token, situation.number - (len(words) - 1 - start)
    index = words[start + 1] if words[start + 1].isidentifier() else "i"
    bound = "n"
    at = begins + 3
    if words[start + 1] != "(" and situation.tokens[at].text == "range":
        inside = situation.tokens[at + 2 : situation.after_bracket(at + 1) - 1]
        if len(inside) == 1:
            bound = inside[0].text
    elif words[start + 1] != "(" and situation.tokens[at + 1].text == "..":
        bound = situation.tokens[at + 2].text
    elif words[start + 1] != "(" and token.kind != INT:
        return None
    diagnostic = finding(
        "MS0110",
        situation.span(situation.tokens[begins]),
        "`for` does not count",
        "goes over the parts of an input",
    ).help(f"write `loop {bound} times as {index} {{ … }}`")
    return Finding(diagnostic=diagnostic, resume=situation.after_statement(begins))


def condition_taken_for_a_suffix(situation: Situation) -> Finding | None:
    """`if c { … }` or `if c:` on the line after a `send`, which may end with `if c`."""
    token = situation.token
    if token.text not in ("{", ":", "break", "continue") or situation.line[0].text != "if":
        return None
    if not situation.takes("emit"):
        return None
    word = STATEMENTS["if"]
    begins = situation.number - len(situation.line) + 1
    if situation.ahead(1).text == "break" or any(
        other.text == "break" for other in situation.rest_of_line()
    ):
        shown = next(other for other in situation.tokens[begins:] if other.text == "break")
        diagnostic = foreign_word(situation, shown, STATEMENTS["break"])
        return Finding(diagnostic=diagnostic, resume=situation.after_statement(begins))
    word = ForeignWord(word.says, None, "write `when condition { … }`; the condition is static")
    diagnostic = foreign_word(situation, situation.line[0], word)
    return Finding(diagnostic=diagnostic, resume=situation.after_statement(begins))


def next_with_a_mark(situation: Situation) -> Finding | None:
    """`next = decode`, `-> decode`, `next -> decode`."""
    token, before, after = situation.token, situation.before, situation.after
    if after is None or after.kind != NAME:
        return None
    is_after_next = before is not None and before.text == "next" and token.text in ("=", "->", ":")
    if is_after_next and situation.ahead(2).text in ("(", "."):
        return None
    if not is_after_next and not (
        token.text == "->" and token.first_on_line and situation.takes("next")
    ):
        return None
    message = f"`{token.text}` stands where the next state is named"
    meant = "" if is_after_next else "next"
    shown = f"write `next {after.text}`"
    span = situation.span(token)
    start = before.end if is_after_next and before is not None else token.start
    edit = Edit(span=Span(path=situation.path, start=start, end=token.end), text=meant)
    fix = Fix(message=shown, edits=(edit,), applicability="safe")
    diagnostic = finding("MS0112", span, message, "`next` and the name of the state say it")
    diagnostic = diagnostic.help(shown).with_fix(fix)
    if is_after_next and not situation.takes(after.text) and "NAME" not in situation.taken:
        return Finding(diagnostic=diagnostic, resume=situation.after_line(situation.number))
    instead = after.text if is_after_next else f"next {after.text}"
    return Finding(diagnostic=diagnostic, instead=instead, resume=situation.number + 2)


def negated_operator(situation: Situation) -> Finding | None:
    """`token not in ends`, `token is not eos`."""
    token, after = situation.token, situation.after
    if after is None or (token.text, after.text) not in (("not", "in"), ("is", "not")):
        return None
    span = situation.span(token).cover(situation.span(after))
    if token.text == "is":
        diagnostic = finding_with_fix(
            "MS0112", span, "`is not` is no comparison here", "written `!=`", "!="
        )
        return Finding(diagnostic=diagnostic, instead="!=", resume=situation.number + 2)
    diagnostic = finding(
        "MS0112", span, "`not in` is two words here", "`not` stands before what it negates"
    ).help("write `not value in list`")
    return Finding(diagnostic=diagnostic, instead="in", resume=situation.number + 2)


def choice_by_a_question_mark(situation: Situation) -> Finding | None:
    """`next ready ? decode : done`."""
    if situation.token.text != "?":
        return None
    diagnostic = finding(
        "MS0112",
        situation.span(situation.token),
        "`?` chooses nothing",
        "stands for an unknown dim",
    ).help("write `next a if condition else b`, or `when condition { … } else { … }`")
    return Finding(diagnostic=diagnostic, resume=situation.after_statement(situation.number))


def statement_without_its_word(situation: Situation) -> Finding | None:
    """`codes <- token`, `decode(token)` for a walk."""
    token, before = situation.token, situation.before
    if before is None or before.kind != NAME or not (situation.takes("=") and situation.takes(".")):
        return None
    name = before.text
    if token.text == "<-":
        is_stream = situation.declares("stream", name)
        word, what = ("send", "stream") if is_stream else ("emit", "output")
        says = f"`{name}` is {'a' if is_stream else 'an'} {what}: expected `{word}` before this"
    elif token.text == "(" and situation.declares("walk", name):
        word, says = "run", f"`{name}` is a walk: expected `run` before this"
    else:
        return None
    at = Span(path=situation.path, start=before.start, end=before.start)
    shown = f"write `{word} {name} …`" if token.text == "<-" else f"write `run {name}(…)`"
    fix = Fix(message=shown, edits=(Edit(span=at, text=f"{word} "),), applicability="safe")
    diagnostic = finding(
        "MS0101", situation.span(before), "a statement stands without its word", says
    )
    return Finding(
        diagnostic=diagnostic.help(shown).with_fix(fix),
        resume=situation.after_statement(situation.number),
    )


def run_of_an_op(situation: Situation) -> Finding | None:
    """`ids = run frontend.encode(prompt)`."""
    words = [token.text for token in situation.line[-3:]]
    if len(words) < 3 or words[0] != "run" or words[2] != "." or not situation.takes("("):
        return None
    run = situation.line[-3]
    span = Span(path=situation.path, start=run.start, end=situation.line[-2].start)
    shown = f"write `{words[1]}.{situation.ahead(1).text}(…)`"
    fix = Fix(message=shown, edits=(Edit(span=span, text=""),), applicability="safe")
    diagnostic = finding(
        "MS0101", situation.span(run), "`run` stands before an op", "only walks are run"
    )
    return Finding(
        diagnostic=diagnostic.help(shown).with_fix(fix),
        resume=situation.after_statement(situation.number),
    )


def typed_value(situation: Situation) -> Finding | None:
    """`pcm: f32[2048] = codec.decode(window)`."""
    token, before = situation.token, situation.before
    if token.text != ":" or before is None or not before.first_on_line:
        return None
    if not (situation.takes("=") and situation.takes(".") and situation.takes(",")):
        return None
    rest = situation.rest_of_line()
    length = next((n for n, other in enumerate(rest) if other.text == "="), 0)
    if not length:
        return None
    span = Span(path=situation.path, start=token.start, end=rest[length - 1].end)
    fix = Fix(message="remove the type", edits=(Edit(span=span, text=""),), applicability="safe")
    diagnostic = finding(
        "MS0112", span, "a value is declared with a type", "the op that gives it says its type"
    ).help(f"write `{before.text} = …`")
    return Finding(
        diagnostic=diagnostic.with_fix(fix), instead="", resume=situation.number + length
    )


def flow_of_calls(situation: Situation) -> Finding | None:
    """`window -> codec.decode -> pcm`, `window |> codec.decode`, `token += …`."""
    token, after = situation.token, situation.after
    if not (situation.takes("=") and situation.takes(".") and situation.takes(",")):
        return None
    if after is None or innermost(situation) in ("param", "args"):
        return None
    is_arrow = token.text == "->" or (token.text in ("|", ">") and token.end == after.start)
    is_change = token.text in ("+", "-", "*", "/") and after.text == "="
    if is_arrow:
        message, says = "calls stand one behind the other", "a call takes its values in parentheses"
        shown = "write `a = node.op(x)`, and then `b = other.op(a)`"
    elif is_change:
        message, says = "a value is changed in place", "walks compute nothing by themselves"
        shown = "write `name = node.op(name)`: arithmetic is an op's"
    else:
        return None
    diagnostic = finding("MS0112", situation.span(token), message, says).help(shown)
    return Finding(diagnostic=diagnostic, resume=situation.after_statement(situation.number))


def each_in_another_order(situation: Situation) -> Finding | None:
    """`each window in codes run vocode(window)`."""
    token, before, after = situation.token, situation.before, situation.after
    if token.text != "in" or not situation.takes("as"):
        return None
    if before is None or after is None or after.kind != NAME:
        return None
    if len(situation.line) < 3 or situation.line[-3].text != "each":
        return None
    written = f"{after.text} as {before.text}"
    span = situation.span(before).cover(situation.span(after))
    says = "stream and chunk stand the other way round"
    diagnostic = finding_with_fix("MS0101", span, "an `each` names its stream first", says, written)
    return Finding(diagnostic=diagnostic, instead=f"as {before.text}", resume=situation.number + 2)
