"""A range of code points in one source file."""

from mstarc.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Half-open range `[start, end)` of code-point offsets in the file named `path`.

    `start == end` is a zero-width span: a place between two characters.
    """

    path: str
    start: int
    end: int

    def cover(self, other: "Span") -> "Span":
        """The smallest span that holds both; both must lie in the same file."""
        assert self.path == other.path
        return Span(
            path=self.path, start=min(self.start, other.start), end=max(self.end, other.end)
        )
