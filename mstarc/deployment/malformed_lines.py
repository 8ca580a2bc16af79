"""Lines of a YAML file that stand in the wrong column, or whose key is not told from its value."""

import re

from mstarc.deployment.malformed_place import KEY, Place
from mstarc.diagnostics import Diagnostic, Edit, Fix

_TIGHT_COLON = re.compile(r"\s*(?:- +)?([A-Za-z_][\w-]*):(?=[^\s/])")


def tight_colon(place: Place) -> Diagnostic | None:
    """`model:orpheus` is one text, and no key."""
    lines = [place.line]
    if place.begun is not None:
        lines.insert(0, place.file.position(place.begun).line)
    if (before := place.line_before()) is not None:
        lines.append(before)
    for line in lines:
        match = _TIGHT_COLON.match(place.text(line))
        if match is None or not _wants_key(place):
            continue
        end = place.file.line_starts[line - 1] + match.end()
        edits = (Edit(span=place.span(end, end), text=" "),)
        return place.found(
            place.span(end - 1, end),
            f"no space follows the `:` of `{match[1]}`",
            "without one, this is a text and no key",
            f"write `{match[1]}: `",
            fix=Fix(message="write a space", edits=edits, applicability="safe"),
        )
    return None


def _wants_key(place: Place) -> bool:
    return (
        "could not find expected ':'" in place.problem
        or "mapping values are not allowed" in place.problem
        or "expected <block end>" in place.problem
    )


def tight_dash(place: Place) -> Diagnostic | None:
    """`-node_names:` is a key with a dash in its name, and no item."""
    for line in (place.line, place.line_before()):
        if line is None or not re.match(r"\s*-[A-Za-z_\[{\"']", place.text(line)):
            continue
        start = place.file.line_starts[line - 1] + place.indent(line)
        edits = (Edit(span=place.span(start + 1, start + 1), text=" "),)
        return place.found(
            start,
            "no space follows a `-`",
            "without one, this begins no item",
            "write `- `",
            fix=Fix(message="write a space", edits=edits, applicability="unsafe"),
        )
    return None


def deeper(place: Place) -> Diagnostic | None:
    """A line that stands deeper than the line that it should stand beside."""
    before = place.line_before()
    if "mapping values are not allowed" not in place.problem or before is None:
        return None
    key, above = KEY.match(place.text(place.line)), KEY.match(place.text(before))
    if key is None or above is None or ":" not in place.text(before):
        return None
    if place.indent(place.line) <= place.indent(before):
        return None
    return _misplaced(place, key[1], before, above[1])


def _misplaced(place: Place, name: str, beside: int, other: str) -> Diagnostic:
    indent, wanted = place.indent(place.line), place.indent(beside)
    if place.text(beside).lstrip().startswith("- ") and not place.text(
        place.line
    ).lstrip().startswith("- "):
        wanted += 2
    start = place.file.line_starts[place.line - 1]
    fix = Fix(
        message=f"indent it by {_spaces(wanted)}",
        edits=(Edit(span=place.span(start, start + indent or start), text=" " * wanted),),
        applicability="unsafe",
    )
    shown = place.line_span(place.line)
    return (
        place.found(
            place.span(shown.start, shown.start + len(name)),
            f"`{name}` is not indented like what it stands beside",
            f"indented by {_spaces(indent)}",
            f"indent it by {_spaces(wanted)}",
            fix=fix if indent else None,
        )
        .label(place.line_span(beside), f"`{other}` is indented by {_spaces(wanted)}")
        .note("what belongs together begins in the same column")
    )


def no_colon(place: Place) -> Diagnostic | None:
    """A line that could be a key and has no colon."""
    line: int | None
    if "could not find expected ':'" in place.problem and place.begun is not None:
        line = place.file.position(place.begun).line
    elif "mapping values are not allowed" in place.problem:
        line = place.line_before()
    else:
        return None
    if line is None or ":" in place.text(line):
        return None
    return _without_colon(place, line)


def _without_colon(place: Place, line: int) -> Diagnostic:
    key = KEY.match(place.text(line))
    name = key[1] if key is not None else "key"
    span = place.line_span(line)
    return place.found(
        span, f"`{place.file.slice(span)}` has no `:`", "a key ends with `:`", f"write `{name}: …`"
    )


def misindented(place: Place) -> Diagnostic | None:
    """A line whose indentation belongs to nothing above it."""
    if not ("expected <block end>" in place.problem or "<document start>" in place.problem):
        return None
    start = place.file.line_starts[place.line - 1]
    if place.file.text[start : place.at].strip(" -"):
        quoted = place.file.text[start : place.at].rstrip().endswith(('"', "'"))
        return place.found(
            place.at,
            "a value goes on after its end" if quoted else "a value ends before this",
            "the text in quotes has ended" if quoted else "not a part of the value",
            "put the whole value in quotes",
        )
    line = place.line_before()
    key = KEY.match(place.text(place.line))
    # The line that it stands beside: the nearest above that is not deeper, else the nearest.
    beside = line
    while beside is not None and place.indent(beside) > place.indent(place.line):
        beside = place.line_above(beside)
    is_item = place.text(place.line).lstrip().startswith("-")
    if line is None or key is None:
        return None
    if (
        is_item
        and place.begun is not None
        and "expected <block end>, but found '-'" in (place.problem)
    ):
        first = place.line_span(place.file.position(place.begun).line)
        return place.found(
            place.at,
            "an item of a list stands among keys",
            "a `-` begins an item",
            "indent it below its key, or remove the `-`",
        ).label(first, "the keys begin here")
    anchor = _nearest(place, is_item=is_item) or beside or line
    if not is_item and ":" not in place.text(anchor):
        return _without_colon(place, anchor)
    other = KEY.match(place.text(anchor))
    return _misplaced(place, key[1], anchor, other[1] if other is not None else "this")


def _nearest(place: Place, *, is_item: bool) -> int | None:
    """The line above of the same kind whose indentation is nearest."""
    found: list[tuple[int, int]] = []
    line = place.line_before()
    while line is not None and len(found) < 8:
        text = place.text(line)
        if text.lstrip().startswith("-") == is_item or not is_item:
            wanted = place.indent(line) + (
                2 if text.lstrip().startswith("- ") and not is_item else 0
            )
            found.append((abs(wanted - place.indent(place.line)), line))
        line = place.line_above(line)
    return min(found, key=lambda entry: (entry[0], -entry[1]))[1] if found else None


def _spaces(count: int) -> str:
    return "1 space" if count == 1 else f"{count or 'no'} spaces"
