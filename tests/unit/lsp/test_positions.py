"""Positions of the protocol count UTF-16 units, offsets of ours code points."""

from hypothesis import given, settings
from hypothesis import strategies as st

from mstarc.lsp.positions import Place, offset_at, place_at
from mstarc.source import SourceFile

TEXT = "a = 1  # π\n# 🎙 voice 🎧 x\n\nlast"


def test_a_letter_outside_the_basic_plane_counts_two() -> None:
    source = SourceFile(path="x", text=TEXT)
    assert place_at(source, TEXT.index("voice")) == Place(1, 5)
    assert place_at(source, TEXT.index("x")) == Place(1, 14)
    assert offset_at(source, Place(1, 14)) == TEXT.index("x")
    assert place_at(source, len(TEXT)) == Place(3, 4)


def test_places_outside_the_text_are_its_ends() -> None:
    source = SourceFile(path="x", text=TEXT)
    assert offset_at(source, Place(9, 0)) == len(TEXT)
    assert offset_at(source, Place(0, 99)) == TEXT.index("\n")


@settings(deadline=None)
@given(text=st.text(alphabet="aé🎙\n", max_size=40), data=st.data())
def test_there_and_back(text: str, data: st.DataObject) -> None:
    source = SourceFile(path="x", text=text)
    offset = data.draw(st.integers(0, len(text)))
    place = place_at(source, offset)
    assert offset_at(source, place) == offset
    line = text.split("\n")[place.line]
    assert place.character <= len(line.encode("utf-16-le")) // 2
