"""Statements as other languages have them: one function a habit, each with a test."""

from mstarc.diagnostics import Edit, Fix
from mstarc.source import Span
from mstarc.syntax.foreign_words import STATEMENTS, ForeignWord
from mstarc.syntax.situation import Finding, Situation, finding, foreign_word, innermost
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
    fix = Fix(message=shown, edits=(Edit(span=span, text=meant),), applicability="safe")
    diagnostic = finding("MS0112", span, message, "`next` and the name of the state say it")
    diagnostic = diagnostic.help(shown).with_fix(fix)
    if is_after_next and not situation.takes(after.text) and "NAME" not in situation.taken:
        return Finding(diagnostic=diagnostic, resume=situation.after_line(situation.number))
    instead = after.text if is_after_next else f"next {after.text}"
    return Finding(diagnostic=diagnostic, instead=instead, resume=situation.number + 2)


def negated_membership(situation: Situation) -> Finding | None:
    """`token not in ends`."""
    token, after = situation.token, situation.after
    if token.text != "not" or after is None or after.text != "in":
        return None
    span = situation.span(token).cover(situation.span(after))
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
