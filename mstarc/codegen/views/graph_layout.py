"""Where the calls of a drawing stand: lanes cut into lines, frames with room for what they say.

Widths are about those of the letters: a sans-serif of the reader's machine draws them. Where a lane
is too long it goes on in the next line, between walks if it can.
"""

from collections.abc import Iterator, Sequence
from dataclasses import field

from mstarc.codegen.views.graph_cells import Cell, Frame, Lane, Link
from mstarc.records import dataclass

CALL_HEIGHT = 46.0
LEAST_CALL = 104.0
LEAST_GAP = 40.0
MOST_WIDTH = 1120.0
PADDING = 8.0
LABEL = 15.0
LINE = 13.0
TAG = 18.0

_NARROW, _WIDE = "iljtf.,:;|!'()[]{}/ ", "mwMW@%…"


def width_of(text: str, size: float = 11.0, *, bold: bool = False) -> float:
    """How wide a text is drawn, about."""
    total = 0.0
    for letter in text:
        if letter in _NARROW:
            total += 0.36
        elif letter in _WIDE:
            total += 0.93
        else:
            total += 0.68 if letter.isupper() else 0.6
    return total * size * (1.08 if bold else 1.0)


def wrapped(text: str, room: float, size: float = 11.0) -> tuple[str, ...]:
    """A text in lines that have room, cut between words; a word alone may be wider."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and width_of(f"{lines[-1]} {word}", size) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return tuple(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A frame in one line. `first`: it begins here; else it goes on from the line above."""

    frame: Frame
    left: float
    right: float
    above: float
    below: float
    first: bool
    notes: tuple[str, ...]


@dataclass(slots=True, kw_only=True, eq=False)
class Line:
    """Calls beside each other: `x` and `width` by call, `pieces` from the outside in.

    `above` and `below` are what frames take over and under the calls.
    """

    lane: Lane
    first: bool
    last: bool
    x: dict[Cell, float]
    width: dict[Cell, float]
    pieces: tuple[Piece, ...] = ()
    above: float = 0.0
    below: float = 0.0
    top: float = 0.0
    arrivals: list[Link] = field(default_factory=list)
    departures: list[Link] = field(default_factory=list)

    @property
    def right(self) -> float:
        """Where the last call or frame ends."""
        ends = [self.x[cell] + self.width[cell] for cell in self.x]
        return max([*ends, *(piece.right for piece in self.pieces)])


def lines_of(lane: Lane, links: Sequence[Link]) -> list[Line]:
    """The lines of a lane, with x from 0 on and no top yet."""
    measure = _Measure(lane, links)
    rows: list[list[Cell]] = []
    room = 0.0
    for unit in measure.units():
        for cells in measure.cut(unit):
            width = measure.span(cells)
            if rows and room + LEAST_GAP + width <= MOST_WIDTH and not measure.is_cut(unit):
                rows[-1].extend(cells)
                room += LEAST_GAP + width
            else:
                rows.append(list(cells))
                room = width
    return [measure.line(cells, index, len(rows)) for index, cells in enumerate(rows)]


class _Measure:
    def __init__(self, lane: Lane, links: Sequence[Link]) -> None:
        self.lane = lane
        self.names = {
            (link.source, link.target): link.text for link in links if link.kind == "next"
        }
        self.width = {cell: _call_width(cell) for cell in lane.cells}
        self.inner = {
            id(frame): [other for other in lane.frames if _is_inside(other, frame, lane)]
            for frame in lane.frames
        }
        self.pads = {id(frame): self._pad(frame) for frame in lane.frames}

    def units(self) -> Iterator[list[Cell]]:
        """Calls that should stay in one line: those of an outermost frame, or one alone."""
        done: set[Cell] = set()
        for cell in self.lane.cells:
            if cell in done:
                continue
            outer = [frame for frame in self.lane.frames if cell in frame.cells]
            cells = max((frame.cells for frame in outer), key=len, default=(cell,))
            done.update(cells)
            yield [c for c in self.lane.cells if c in cells]

    def is_cut(self, unit: list[Cell]) -> bool:
        return self.span(unit) > MOST_WIDTH

    def cut(self, unit: list[Cell]) -> Iterator[list[Cell]]:
        """A unit that is too wide, in parts that are not."""
        part: list[Cell] = []
        for cell in unit:
            if part and self.span([*part, cell]) > MOST_WIDTH:
                yield part
                part = []
            part.append(cell)
        yield part

    def span(self, cells: Sequence[Cell]) -> float:
        x, width = self._places(cells)
        last = cells[-1]
        return x[last] + width[last] + self._side(last, cells, -1)

    def line(self, cells: list[Cell], index: int, count: int) -> Line:
        x, width = self._places(cells)
        line = Line(lane=self.lane, first=index == 0, last=index == count - 1, x=x, width=width)
        pieces = [self._piece(frame, line) for frame in self.lane.frames]
        found = [piece for piece in pieces if piece is not None]
        line.pieces = tuple(sorted(found, key=lambda piece: -len(self.inner[id(piece.frame)])))
        line.above = max((piece.above + _label(piece.frame) for piece in found), default=0.0)
        tags = TAG if any(cell.inputs or cell.outputs for cell in cells) else 0.0
        line.below = max((piece.below for piece in found), default=tags)
        return line

    def _places(self, cells: Sequence[Cell]) -> tuple[dict[Cell, float], dict[Cell, float]]:
        x: dict[Cell, float] = {}
        end = 0.0
        before: Cell | None = None
        for cell in cells:
            if before is not None:
                name = width_of(self.names.get((before, cell), "")) + 20
                frames = self._side(before, cells, -1) + self._side(cell, cells, 0)
                end += max(LEAST_GAP, name) + frames
            else:
                end += self._side(cell, cells, 0)
            x[cell] = end
            end += self.width[cell]
            before = cell
        return x, {cell: self.width[cell] for cell in cells}

    def _side(self, cell: Cell, cells: Sequence[Cell], end: int) -> float:
        """How far frames that begin (0) or end (-1) with a call stand off it."""
        pads = [0.0]
        for frame in self.lane.frames:
            inside = [c for c in cells if c in frame.cells]
            if inside and inside[end] is cell:
                pads.append(self.pads[id(frame)])
        return max(pads)

    def _pad(self, frame: Frame) -> float:
        return PADDING + max((self._pad(other) for other in self.inner[id(frame)]), default=0.0)

    def _piece(self, frame: Frame, line: Line) -> Piece | None:
        inside = [cell for cell in line.x if cell in frame.cells]
        if not inside:
            return None
        pad = self.pads[id(frame)]
        left = line.x[inside[0]] - pad
        right = line.x[inside[-1]] + line.width[inside[-1]] + pad
        return Piece(
            frame=frame,
            left=left,
            right=right,
            above=self._above(frame, line),
            below=self._below(frame, line),
            first=inside[0] is frame.cells[0],
            notes=self._notes(frame, inside, right - left),
        )

    def _inside(self, frame: Frame, line: Line) -> list[Frame]:
        return [f for f in self.inner[id(frame)] if any(cell in f.cells for cell in line.x)]

    def _above(self, frame: Frame, line: Line) -> float:
        heights = [self._above(f, line) + _label(f) for f in self._inside(frame, line)]
        return PADDING + max(heights, default=0.0)

    def _below(self, frame: Frame, line: Line) -> float:
        if frame.kind == "region":
            return PADDING + max(
                (self._below(f, line) for f in self._inside(frame, line)), default=0.0
            )
        has_region = any(f.kind == "region" for f in self._inside(frame, line))
        tags = TAG if any(cell.inputs or cell.outputs for cell in line.x) else 0.0
        inner = self._inside(frame, line)
        heights = [self._below(f, line) for f in inner if f.kind != "region" or self.inner[id(f)]]
        inside = [cell for cell in line.x if cell in frame.cells]
        pad = 2 * self.pads[id(frame)]
        room = line.x[inside[-1]] + line.width[inside[-1]] - line.x[inside[0]] + pad
        notes = LINE * len(self._notes(frame, inside, room))
        return max([(PADDING if has_region else 0.0) + tags, *heights]) + notes + PADDING

    def _notes(self, frame: Frame, inside: list[Cell], room: float) -> tuple[str, ...]:
        """What stands at the foot of a loop, where it begins."""
        if frame.kind != "loop" or inside[0] is not frame.cells[0]:
            return ()
        return wrapped(f"↻ {frame.text}", room - 12)


def _is_inside(inner: Frame, outer: Frame, lane: Lane) -> bool:
    """Whether one frame is drawn in another: fewer calls, or the same and of a smaller kind."""
    if inner is outer:
        return False
    one, other = set(inner.cells), set(outer.cells)
    if one != other:
        return one < other
    order = ("region", "loop", "walk", "each")
    if inner.kind != outer.kind:
        return order.index(inner.kind) < order.index(outer.kind)
    return lane.frames.index(inner) > lane.frames.index(outer)


def _label(frame: Frame) -> float:
    return LABEL if frame.kind in ("walk", "each") else 0.0


def _call_width(cell: Cell) -> float:
    name = width_of(f"{cell.call.node}.{cell.call.op}", 12, bold=True) + 22
    tags = "  ".join([*cell.inputs, *cell.outputs])
    return max(LEAST_CALL, name, width_of(tags, bold=True) + 16 * bool(tags))
