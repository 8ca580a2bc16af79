"""What is wrong in a text that is no YAML, in our words.

The library says at which place its scanner stopped and in which of its states. From both, and from
the lines around, this tells what was written wrongly: a tab, an indentation, something never
closed. `explain` always has an answer; where it knows no better one, it points at the place.
"""

import re
from collections.abc import Callable
from typing import Any

from mstarc.deployment.malformed_lines import (
    deeper,
    misindented,
    no_colon,
    tight_colon,
    tight_dash,
)
from mstarc.deployment.malformed_place import Place
from mstarc.diagnostics import Diagnostic, Edit, Fix
from mstarc.source import SourceFile

_CLOSING = {"[": "]", "{": "}"}


def explain(file: SourceFile, error: Any, code: str) -> Diagnostic:
    """The finding for an error of the library: a `MarkedYAMLError` or a `ReaderError`."""
    place = Place(file, error, code)
    if not hasattr(error, "problem_mark"):
        return place.found(
            error.position,
            "a character that YAML does not allow",
            f"U+{ord(file.text[error.position]):04X}" if error.position < len(file.text) else "",
            "remove it, or write it with an escape in double quotes",
        )
    for tell in _TELLERS:
        if (finding := tell(place)) is not None:
            return finding
    return place.found(place.at, "this is not YAML", "nothing of this kind can stand here")


def _tab(place: Place) -> Diagnostic | None:
    before = place.text(place.line)[: place.at - place.file.line_starts[place.line - 1] + 1]
    if place.character != "\t" or "cannot start any token" not in place.problem:
        return None
    end = place.at + 1
    while place.file.text[end : end + 1] == "\t":
        end += 1
    span = place.span(place.at, end)
    edits = (Edit(span=span, text="  " * (end - place.at) if not before.strip() else " "),)
    fix = Fix(message="write spaces", edits=edits, applicability="unsafe")
    if before.strip():
        return place.found(span, "a tab stands before a value", "a tab", "write a space", fix=fix)
    found = place.found(
        span, "a line is indented with a tab", "a tab", "indent it with spaces", fix=fix
    )
    return found.note("YAML is indented with spaces only: how wide a tab is, nobody knows")


def _quote(place: Place) -> Diagnostic | None:
    if "quoted scalar" not in place.context or place.begun is None:
        return None
    quote = place.file.text[place.begun : place.begun + 1]
    if "unknown escape character" in place.problem:
        return place.found(
            place.span(place.at - 1, place.at + 1),
            f"`\\{place.character}` means nothing in double quotes",
            "not an escape",
            "write `\\\\` for a backslash, or put the text in single quotes",
        )
    line = place.file.position(place.begun).line
    end = place.line_span(line).end
    text = place.file.text[place.begun : end].rstrip()
    place_of_end = place.begun + len(text)
    edits = (Edit(span=place.span(place_of_end, place_of_end), text=quote),)
    fix = Fix(message=f"close it with `{quote}`", edits=edits, applicability="unsafe")
    return place.found(
        place.span(place.begun, place_of_end),
        "a text in quotes is never closed",
        "opened here",
        f"close it with `{quote}`",
        fix=fix,
    )


def _bracket(place: Place) -> Diagnostic | None:
    kind = place.context.removeprefix("while parsing a ")
    if kind == "flow node" and "<stream end>" in place.problem:
        place.begun = place.open_bracket()
    elif kind not in ("flow sequence", "flow mapping"):
        return None
    if place.begun is None:
        return None
    opened = place.file.text[place.begun : place.begun + 1]
    closing = _CLOSING.get(opened, "]")
    first = place.file.position(place.begun).line
    if first == place.line and place.character:
        if place.character in ("]", "}"):
            return place.found(
                place.at,
                f"`{place.character}` closes a `{opened}`",
                f"`{closing}` would close it",
                f"write `{closing}`",
            ).label(place.span(place.begun), "opened here")
        return place.found(
            place.at,
            "two items stand next to each other",
            "expected `,` before this",
            f"write `,` between items, and `{closing}` after the last",
        ).label(place.span(place.begun), "in what is opened here")
    end = place.line_span(first).end
    edits = (Edit(span=place.span(end, end), text=closing),)
    fix = Fix(message=f"close it with `{closing}`", edits=edits, applicability="unsafe")
    return place.found(
        place.begun,
        f"a `{opened}` is never closed",
        "opened here",
        f"close it with `{closing}`",
        fix=fix,
    )


def _stray_bracket(place: Place) -> Diagnostic | None:
    if place.character not in ("]", "}", ",") or not (
        "expected the node content" in place.problem or "expected <block end>" in place.problem
    ):
        return None
    if place.character == ",":
        return place.found(place.at, "a `,` follows nothing", "one too many", "remove it")
    opener = "[" if place.character == "]" else "{"
    message = f"a `{place.character}` closes nothing"
    return place.found(place.at, message, f"no `{opener}` is open here", "remove it")


def _two_colons(place: Place) -> Diagnostic | None:
    if "mapping values are not allowed" not in place.problem:
        return None
    start = place.file.line_starts[place.line - 1]
    before = place.file.text[start : place.at]
    if ": " not in before:
        return None
    value = start + before.index(": ") + 2
    return place.found(
        place.at,
        "a value holds a `:`",
        "a line has one key",
        "put the value in quotes, or write the second key on a line of its own",
    ).label(place.span(value, place.at), "the value begins here")


def _list_on_a_keys_line(place: Place) -> Diagnostic | None:
    if "sequence entries are not allowed" not in place.problem:
        return None
    return place.found(
        place.at,
        "a list begins on the line of its key",
        "a `-` begins an item on a line of its own",
        "write the items below the key, or all of them in `[…]`",
    )


def _strange_beginning(place: Place) -> Diagnostic | None:
    if "cannot start any token" not in place.problem:
        return None
    return place.found(
        place.at,
        f"a value cannot begin with `{place.character}`",
        "YAML has another use for it",
        "put the value in quotes",
    )


def _mapping_key(place: Place) -> Diagnostic | None:
    if "mapping keys are not allowed" not in place.problem:
        return None
    return place.found(
        place.at, "a `?` stands before a value", "it begins a key", "put the value in quotes"
    )


def _reference(place: Place) -> Diagnostic | None:
    if "undefined alias" in place.problem:
        name = re.match(r"\*([\w-]+)", place.file.text[place.at :])
        shown = name[0] if name is not None else "*"
        return place.found(
            place.span(place.at, place.at + len(shown)),
            f"`{shown}` repeats what nothing is called",
            f"there is no `&{shown[1:]}` above",
            "write the value, or put a text that begins with `*` in quotes",
        )
    if "while scanning an a" in place.context and place.begun is not None:
        mark = place.file.text[place.begun : place.begun + 1]
        return place.found(
            place.begun,
            f"`{mark}` has no name",
            "YAML reads it as the mark of a value",
            "put the value in quotes",
        )
    return None


def _block_text(place: Place) -> Diagnostic | None:
    if "block scalar" not in place.context:
        return None
    return place.found(
        place.at,
        "a text of several lines begins on its key's line",
        "nothing follows the `|` or `>`",
        "write the text on the lines below, or on this line without the mark",
    )


def _second_document(place: Place) -> Diagnostic | None:
    if "another document" not in place.problem:
        return None
    return place.found(
        place.span(place.at, place.at + 3),
        "the file holds a second document",
        "it begins here",
        "write it to a file of its own, or remove the `---`",
    )


def _tag(place: Place) -> Diagnostic | None:
    if "tag" not in place.problem or place.character != "!":
        return None
    tag = re.match(r"![^\s,\]}]*", place.file.text[place.at :])
    shown = tag[0] if tag is not None else "!"
    return place.found(
        place.span(place.at, place.at + len(shown)),
        f"`{shown}` means nothing here",
        "a tag",
        "leave it out, or put a text that begins with `!` in quotes",
    )


_TELLERS: tuple[Callable[[Place], Diagnostic | None], ...] = (
    _tab,
    _quote,
    _tag,
    _reference,
    _block_text,
    _second_document,
    _bracket,
    _stray_bracket,
    _strange_beginning,
    _mapping_key,
    _list_on_a_keys_line,
    _two_colons,
    tight_colon,
    tight_dash,
    deeper,
    no_colon,
    misindented,
)
