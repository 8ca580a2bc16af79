"""The first line of a spec: which version of the language it is written in."""

from mstarc.diagnostics import Diagnostic, DiagnosticSink, Edit, Fix, Label
from mstarc.source import SourceFile, Span
from mstarc.syntax.braces import deepest_bracket
from mstarc.syntax.tokens import END_OF_TEXT, INT, Token, TokenList

LANGUAGE_VERSION = 1


def checked_start(
    read: TokenList, source: SourceFile, sink: DiagnosticSink
) -> tuple[Token, ...] | None:
    """The tokens, if they can be those of a spec of this version (MS0107, MS0108, MS0121)."""
    tokens = read.tokens
    first = tokens[0]
    if first.kind == END_OF_TEXT:
        sink.error("MS0107", source.end_span, "the spec is empty", "expected `mstar 1`")
        return None
    too_deep = deepest_bracket(tokens)
    if too_deep is not None:
        span = Span(path=source.path, start=too_deep.start, end=too_deep.end)
        sink.error("MS0121", span, "brackets are nested too deeply", "one too many")
        return None
    if first.text != "mstar":
        _report_no_version(first, source, sink)
        return tokens
    number = tokens[1]
    if number.kind != INT:
        span = Span(path=source.path, start=first.start, end=first.end)
        sink.error(
            "MS0107", span, "`mstar` says no version", f"expected `mstar {LANGUAGE_VERSION}`"
        )
        virtual = Token(INT, str(LANGUAGE_VERSION), first.end, first.end, False, virtual=True)
        return (first, virtual, *tokens[1:])
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
