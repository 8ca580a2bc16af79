"""The first line of a spec: which version of the language it is written in."""

from mstarc.diagnostics import Diagnostic, DiagnosticSink, Edit, Fix, Label
from mstarc.source import SourceFile, Span
from mstarc.syntax.braces import deepest_bracket
from mstarc.syntax.tokens import END_OF_TEXT, FLOAT, INT, NAME, STRING, Token, TokenList

LANGUAGE_VERSION = 1


def checked_start(
    read: TokenList, source: SourceFile, sink: DiagnosticSink
) -> tuple[Token, ...] | None:
    """The tokens, if they can be those of a spec of this version (MS0107, MS0108, MS0121)."""
    tokens = read.tokens
    first = tokens[0]
    if first.kind == END_OF_TEXT:
        primary = Label(span=source.end_span, text="expected `mstar 1`")
        empty = Diagnostic(code="MS0107", message="the spec is empty", primary=primary)
        sink.report(empty.help("`mstarc new NAME` writes a spec to start from"))
        return None
    too_deep = deepest_bracket(tokens)
    if too_deep is not None:
        span = Span(path=source.path, start=too_deep.start, end=too_deep.end)
        primary = Label(span=span, text="one too many")
        deep = Diagnostic(code="MS0121", message="brackets are nested too deeply", primary=primary)
        sink.report(deep.help("give a part of it a name of its own: `let part = …`"))
        return None
    if first.text != "mstar" and not _names_a_version(tokens):
        _report_no_version(first, source, sink)
        return tokens
    number = tokens[1]
    if number.kind != INT or first.text != "mstar":
        return _with_version(tokens, source, sink)
    if int(number.text[:9]) != LANGUAGE_VERSION or len(number.text) > 9:
        span = Span(path=source.path, start=number.start, end=number.end)
        message = f"the spec is written in version {number.text[:20]} of the language"
        primary = Label(span=span, text=f"this compiler reads version {LANGUAGE_VERSION}")
        sink.report(
            Diagnostic(code="MS0108", message=message, primary=primary).help(
                "use a compiler that reads that version"
            )
        )
        return None
    return tokens


def _names_a_version(tokens: tuple[Token, ...]) -> bool:
    """`version 1`, `language "1.0"`: what is meant, in other words."""
    is_named = tokens[0].text in ("version", "language", "lang", "syntax")
    return is_named and tokens[1].kind in (INT, FLOAT, STRING) and not tokens[1].first_on_line


def _with_version(
    tokens: tuple[Token, ...], source: SourceFile, sink: DiagnosticSink
) -> tuple[Token, ...]:
    """The tokens with a first line as it should be; what stands there is reported."""
    first, line = tokens[0], f"mstar {LANGUAGE_VERSION}"
    end = 1
    while tokens[end].kind != END_OF_TEXT and not tokens[end].first_on_line:
        end += 1
    last = tokens[end - 1]
    message, label = "`mstar` says no version", f"expected `{line}`"
    if end > 1:
        message = "the version of the language is written in another way"
    span = Span(path=source.path, start=first.start, end=last.end)
    fix = Fix(message=f"write `{line}`", edits=(Edit(span=span, text=line),), applicability="safe")
    primary = Label(span=span, text=label)
    diagnostic = Diagnostic(code="MS0107", message=message, primary=primary, fix=fix)
    sink.report(diagnostic.help(f"begin the file with `{line}`"))
    word = Token(NAME, "mstar", first.start, first.end, True)
    virtual = Token(INT, str(LANGUAGE_VERSION), last.end, last.end, False, virtual=True)
    return (word, virtual, *tokens[end:])


def _report_no_version(first: Token, source: SourceFile, sink: DiagnosticSink) -> None:
    line = f"mstar {LANGUAGE_VERSION}"
    at = Span(path=source.path, start=0, end=0)
    sink.report(
        Diagnostic(
            code="MS0107",
            message="the spec does not say its version",
            primary=Label(
                span=Span(path=source.path, start=first.start, end=first.end),
                text=f"expected `{line}` before this",
            ),
            helps=(f"begin the file with `{line}`",),
            fix=Fix(
                message=f"write `{line}`",
                edits=(Edit(span=at, text=f"{line}\n\n"),),
                applicability="safe",
            ),
        )
    )
