"""What no spec holds, and tools leave in texts: comments of other languages, unfinished merges,
blocks of Markdown, invisible characters, variables of the shell.

Each is read to its end, so that it is one mistake.
"""

import re

from mstarc.diagnostics import Diagnostic, Edit, Fix, Label
from mstarc.source import SourceFile, Span
from mstarc.syntax.foreign_marks import FOREIGN_COMMENTS, INVISIBLE

_VARIABLE = re.compile(r"\$(?:\{[^}\n]*\}|[A-Za-z_]\w*)")


def read_odd(source: SourceFile, piece: str, start: int) -> tuple[Diagnostic | None, int]:
    """What is wrong about the text that begins with `piece`, and where it ends."""
    if piece in INVISIBLE:
        return _invisible(source, start)
    if piece == "<<<<<<<":
        return _merge_conflict(source, start)
    if piece == "```":
        return _fence(source, start)
    return _comment(source, "-- " if piece == "-" else piece, start)


def read_variable(source: SourceFile, start: int) -> tuple[Diagnostic | None, int]:
    """The same for `$NAME` and `${NAME}`, where one stands at `start`."""
    found = _VARIABLE.match(source.text, start)
    if found is None:
        return None, start
    primary = Label(span=_span(source, start, found.end()), text="a spec is read as it stands")
    message = "variables of the shell mean nothing in a spec"
    says = "declare a config item; `model_kwargs` of a deployment file give it other values"
    diagnostic = Diagnostic(code="MS0105", message=message, primary=primary, helps=(says,))
    return diagnostic, found.end()


def _comment(source: SourceFile, opener: str, start: int) -> tuple[Diagnostic, int]:
    text = source.text
    closer = FOREIGN_COMMENTS[opener]
    close = text.find(closer, start + len(opener))
    line_end = _line_end(text, start)
    end = line_end if close < 0 or closer == "\n" else close + len(closer)
    inner = text[start + len(opener) : end].removesuffix(closer)
    lines = [line.strip(" \t*") for line in inner.strip().split("\n")]
    indent = " " * (source.position(start).column - 1)
    meant = f"\n{indent}".join(f"# {line}".rstrip() for line in lines)
    shown = opener.strip()
    diagnostic = Diagnostic(
        code="MS0111",
        message=f"`{shown}` does not begin a comment",
        primary=Label(
            span=_span(source, start, start + len(shown)),
            text="a comment begins with `#` and ends with its line",
        ),
        helps=("write `# …` on each line, or `## …` to document what comes next",),
    )
    if text[end : _line_end(text, end)].strip():
        return diagnostic, end
    return diagnostic.with_fix(_replacing(source, start, end, meant, "write `#`")), end


def _invisible(source: SourceFile, start: int) -> tuple[Diagnostic | None, int]:
    if start == 0 and source.text[0] == "\ufeff":
        return None, 1
    code = f"U+{ord(source.text[start]):04X}"
    end = start + 1
    diagnostic = Diagnostic(
        code="MS0105",
        message=f"a character that no one sees, {code}, stands in the spec",
        primary=Label(span=_span(source, start, end), text="comes along with copied text"),
        helps=("remove it",),
        fix=_replacing(source, start, end, "", f"remove {code}"),
    )
    return diagnostic, end


def _merge_conflict(source: SourceFile, start: int) -> tuple[Diagnostic, int]:
    last = source.text.find("\n>>>>>>>", start)
    diagnostic = Diagnostic(
        code="MS0112",
        message="a merge was not finished",
        primary=Label(
            span=_span(source, start, start + len("<<<<<<<")), text="git put both versions here"
        ),
        helps=(
            "keep one of the two versions, and remove the lines `<<<<<<<`, `=======` and `>>>>>>>`",
        ),
    )
    return diagnostic, _line_end(source.text, start if last < 0 else last + 1)


def _fence(source: SourceFile, start: int) -> tuple[Diagnostic, int]:
    diagnostic = Diagnostic(
        code="MS0112",
        message="the spec stands in a block of Markdown",
        primary=Label(
            span=_span(source, start, start + len("```")), text="not a mark of this language"
        ),
        helps=("leave out the lines that begin with three backticks",),
    )
    return diagnostic, _line_end(source.text, start)


def _replacing(source: SourceFile, start: int, end: int, text: str, message: str) -> Fix:
    edit = Edit(span=_span(source, start, end), text=text)
    return Fix(message=message, edits=(edit,), applicability="safe")


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _span(source: SourceFile, start: int, end: int) -> Span:
    return Span(path=source.path, start=start, end=end)
