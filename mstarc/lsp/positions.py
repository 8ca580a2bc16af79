"""Offsets of code points and positions of the protocol, which counts a line's UTF-16 units."""

from mstarc.records import dataclass
from mstarc.source import SourceFile, Span


@dataclass(frozen=True, slots=True)
class Place:
    """A position as the protocol counts: `line` from 0, `character` in UTF-16 units."""

    line: int
    character: int


def offset_at(source: SourceFile, place: Place) -> int:
    """The offset of a position; past the end of a line or the text, that end."""
    if place.line >= len(source.line_starts):
        return len(source.text)
    text = source.line_text(place.line + 1)
    start = source.line_starts[place.line]
    if text.isascii():
        return start + min(place.character, len(text))
    units = 0
    for index, char in enumerate(text):
        if units >= place.character:
            return start + index
        units += _units(char)
    return start + len(text)


def place_at(source: SourceFile, offset: int) -> Place:
    """The position of an offset."""
    position = source.position(offset)
    start = source.line_starts[position.line - 1]
    before = source.text[start : start + position.column - 1]
    units = len(before) if before.isascii() else sum(map(_units, before))
    return Place(position.line - 1, units)


def places_of(source: SourceFile, span: Span) -> tuple[Place, Place]:
    """The positions of a span's ends."""
    return place_at(source, span.start), place_at(source, span.end)


def _units(char: str) -> int:
    return 2 if ord(char) > 0xFFFF else 1
