"""graph.svg: for each placement its ranks as bands, and in them the calls of every machine.

Each state of a machine is a lane, and each arm of a `match`: its calls go from left to right, and
on in the next line where there are many. Walks, loops and capture regions are frames around them.
A hop leads from rank to rank, a stream from the call that sends to the call that reads: down beside
the calls, in the gap between two lines, and where it goes further, along the right edge.
"""

from collections.abc import Sequence

from mstarc.codegen.views.amounts import amount_of_bytes, count_of
from mstarc.codegen.views.graph_cells import Cell, Drawing, Link, drawing
from mstarc.codegen.views.graph_layout import CALL_HEIGHT, LINE, Line, Piece, lines_of, width_of
from mstarc.codegen.views.layouts import beside
from mstarc.plan.plan import Plan
from mstarc.records import dataclass

MARGIN = 28.0
BAND_HEAD = 34.0
BAND_FOOT = 14.0
LANE_GAP = 14.0
MACHINE_GAP = 26.0
TRACK = 30.0
"""The height of a gap for each arrow that arrives in it: its line, and its name over that."""
CHANNEL = 12.0
LEGEND_WIDTH = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A rectangle with round corners. `facts` say what it shows, for who looks it up."""

    x: float
    y: float
    width: float
    height: float
    radius: float
    style: str
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """One line; `anchor` is SVG's."""

    x: float
    y: float
    text: str
    style: str
    anchor: str = "start"


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A path with an arrow at its end."""

    path: str
    style: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphView:
    """Everything in `graph.svg`, in drawing order."""

    title: str
    description: str
    width: float
    height: float
    boxes: tuple[Box, ...]
    curves: tuple[Curve, ...]
    calls: tuple[Box, ...]
    texts: tuple[Text, ...]


def graph_view(plan: Plan) -> GraphView:
    """The view of the drawing: one panel a placement, one below the other."""
    drawings = [drawing(placed) for placed in plan.placements]
    painter = _Painter(plan, drawings)
    for shown in drawings:
        painter.panel(shown)
    painter.legend()
    return painter.view()


class _Painter:
    def __init__(self, plan: Plan, drawings: Sequence[Drawing]) -> None:
        self.plan = plan
        self.boxes: list[Box] = []
        self.curves: list[Curve] = []
        self.calls: list[Box] = []
        self.texts: list[Text] = []
        self.lines = {
            id(d): [x for lane in d.lanes for x in lines_of(lane, d.links)] for d in drawings
        }
        every = [line for lines in self.lines.values() for line in lines]
        labels = [width_of(line.lane.machine, 13, bold=True) for line in every] + [
            width_of(_lane_name(line), 11) for line in every
        ]
        self.left = MARGIN + 16 + max(labels, default=60.0) + 26
        content = max((line.right + _after_width(line) for line in every), default=400.0)
        self.edge = max(self.left + content + 14, LEGEND_WIDTH)
        far = max(len(self._far(d)) for d in drawings)
        self.right = self.edge + (CHANNEL * far + 10 if far else 0)
        self.width = self.right + MARGIN
        self.y = MARGIN
        self.text(MARGIN, self.y + 14, plan.program.model, "title")
        self.y += 34

    def view(self) -> GraphView:
        names = ", ".join(placed.placement.name for placed in self.plan.placements)
        return GraphView(
            title=f"{self.plan.program.model} on {names}",
            description="Ranks are bands; walks, loops and regions are frames around calls; "
            "streams and hops are arrows between them.",
            width=round(self.width, 1),
            height=round(self.y + MARGIN, 1),
            boxes=tuple(self.boxes),
            curves=tuple(self.curves),
            calls=tuple(self.calls),
            texts=tuple(self.texts),
        )

    def text(self, x: float, y: float, text: str, style: str, anchor: str = "start") -> None:
        self.texts.append(Text(x=round(x, 1), y=round(y, 1), text=text, style=style, anchor=anchor))

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        radius: float,
        style: str,
        facts: tuple[tuple[str, str], ...] = (),
    ) -> Box:
        return Box(
            x=round(x, 1),
            y=round(y, 1),
            width=round(width, 1),
            height=round(height, 1),
            radius=radius,
            style=style,
            facts=facts,
        )

    # A placement

    def panel(self, shown: Drawing) -> None:
        placement = shown.placed.placement
        how = "placed by exact search" if placement.source == "automatic" else placement.source
        self.text(MARGIN, self.y + 12, placement.name, "placement")
        aside = f"{count_of(len(placement.ranks), 'rank')}, {how}"
        self.text(
            MARGIN + 14 + width_of(placement.name, 15, bold=True), self.y + 12, aside, "aside"
        )
        self.y += 26
        lines = self.lines[id(shown)]
        self._book(shown, lines)
        for device in placement.devices:
            if device.rank not in placement.ranks:
                continue  # it holds a replica, which looks like its rank
            own = [line for line in lines if line.lane.rank == device.rank]
            top = self.y
            used = sum(r.bytes for r in shown.placed.program.memory if r.rank == device.rank)
            # The band lies behind its lines: its boxes come before theirs.
            behind = len(self.boxes)
            self.y += BAND_HEAD
            for index, line in enumerate(own):
                self._line(line, own[index - 1] if index else None, placement.name)
            self.y += BAND_FOOT
            height = self.y - top
            edge = self.box(MARGIN, top + 12, 4, height - 24, 2, f"edge{device.rank % 6}")
            style = f"band band{device.rank % 6}"
            facts = (("placement", placement.name), ("rank", str(device.rank)))
            band = self.box(MARGIN, top, self.right - MARGIN, height, 12, style, facts)
            self.boxes[behind:behind] = [band, edge]
            rank = f"rank {device.rank}"
            self.text(MARGIN + 16, top + 20, rank, "rank")
            memory = f"{amount_of_bytes(used)} of {amount_of_bytes(device.memory_bytes)}"
            memory = f"{device.kind}, {memory}" + beside(placement, device.rank)
            self.text(MARGIN + 28 + width_of(rank, 12, bold=True), top + 20, memory, "aside")
            self.y += 14
        self._links(shown, lines)
        self.y += 18

    def _book(self, shown: Drawing, lines: Sequence[Line]) -> None:
        """Tell each line which arrows come in over it and go out under it."""
        at = {cell: line for line in lines for cell in line.x}
        for link in shown.links:
            if link.kind in ("stream", "hop"):
                at[link.target].arrivals.append(link)
        for link in self._far(shown):
            at[link.source].departures.append(link)

    def _far(self, shown: Drawing) -> list[Link]:
        """The arrows that do not just lead to the next line."""
        lines = self.lines[id(shown)]
        number = {cell: index for index, line in enumerate(lines) for cell in line.x}
        arrows = [link for link in shown.links if link.kind in ("stream", "hop")]
        return [link for link in arrows if number[link.target] != number[link.source] + 1]

    def _line(self, line: Line, before: Line | None, placement: str) -> None:
        is_new = before is None or before.lane.machine != line.lane.machine
        if before is not None:
            self.y += MACHINE_GAP if is_new else LANE_GAP
        self.y += TRACK * len(line.arrivals)
        line.top = self.y + line.above
        for cell, x in line.x.items():
            self._cell(cell, self.left + x, line.width[cell], line.top, placement)
        middle = line.top + CALL_HEIGHT / 2
        if is_new:
            self.text(MARGIN + 16, middle - 3, line.lane.machine, "machine")
        name = _lane_name(line)
        if name and line.first:
            self.text(MARGIN + 16, middle + (13 if is_new else 4), name, "aside")
        if line.last and line.lane.after:
            self.text(self.left + line.right + 10, middle + 4, f"→ {line.lane.after}", "aside")
        for piece in line.pieces:
            self._piece(piece, line.top)
        self.y = line.top + CALL_HEIGHT + line.below + 10 * len(line.departures)

    def _cell(self, cell: Cell, x: float, width: float, y: float, placement: str) -> None:
        facts = (("placement", placement), ("rank", str(cell.rank)), ("step", cell.step.name))
        self.calls.append(self.box(x, y, width, CALL_HEIGHT, 8, f"call {cell.engine}", facts))
        middle = x + width / 2
        self.text(middle, y + 19, f"{cell.call.node}.{cell.call.op}", "op", "middle")
        self.text(middle, y + 35, cell.engine.replace("_", " "), "engine", "middle")
        tags = [f"{name} ▸" for name in dict.fromkeys(cell.inputs)]
        tags += [f"▸ {name}" for name in dict.fromkeys(cell.outputs)]
        if tags:
            lower = 8 if cell.step.region is not None else 0
            self.text(middle, y + CALL_HEIGHT + 14 + lower, "  ".join(tags), "tag", "middle")

    def _piece(self, piece: Piece, top: float) -> None:
        x, right = self.left + piece.left, self.left + piece.right
        y, bottom = top - piece.above, top + CALL_HEIGHT + piece.below
        kind = piece.frame.kind
        self.boxes.append(self.box(x, y, right - x, bottom - y, 10, f"frame {kind}"))
        if kind in ("walk", "each"):
            text = piece.frame.text if piece.first else f"{piece.frame.text}, continued"
            self.text(x + 4, y - 4, text, "walkname halo")
        for index, note in enumerate(reversed(piece.notes)):
            self.text((x + right) / 2, bottom - 7 - index * LINE, note, "loopname", "middle")

    # Links

    def _links(self, shown: Drawing, lines: Sequence[Line]) -> None:
        at = {cell: line for line in lines for cell in line.x}
        reached: set[Cell] = set()
        for link in shown.links:
            if link.kind == "next" and self._next(link, at[link.source], at[link.target]):
                reached.add(link.target)
        skips: dict[Cell, Link] = {}
        for link in sorted(shown.links, key=lambda link: link.source.order):
            if link.kind == "next" and link.target not in reached:
                skips[link.target] = link  # the last one, which is the nearest
        for number, link in enumerate(skips.values()):
            if at[link.source] is at[link.target]:
                self._skip(link, at[link.source], 9.0 + 3 * (number % 3))
        far = self._far(shown)
        for line in lines:
            for index, link in enumerate(line.arrivals):
                channel = self.edge + CHANNEL * far.index(link) if link in far else None
                self._arrow(link, at[link.source], line, index, channel)

    def _next(self, link: Link, source: Line, target: Line) -> bool:
        """To the next call of the lane, in the same line or from its end to the next one.

        False where it leads elsewhere.
        """
        is_next = link.target.order == _following(link, source.lane.cells)
        if source.lane is not target.lane or not is_next:
            return False
        x1, y1 = self._end(link.source, source), source.top + CALL_HEIGHT / 2
        x2, y2 = self.left + target.x[link.target] - 3, target.top + CALL_HEIGHT / 2
        if source is target:
            self.curves.append(Curve(path=f"M{x1:.1f} {y1:.1f} L{x2:.1f} {y2:.1f}", style="next"))
            if link.text:
                self.text((x1 + x2) / 2, y1 - 6, link.text, "value halo", "middle")
            return True
        out, into = self.left + source.right + 8, self.left - 12
        turn = target.top - target.above - LANE_GAP / 2
        points = [(x1, y1), (out, y1), (out, turn), (into, turn), (into, y2), (x2, y2)]
        self.curves.append(Curve(path=_rounded(points), style="next"))
        return True

    def _skip(self, link: Link, line: Line, height: float) -> None:
        """Past calls that may be left out: an arch over them."""
        x1 = self._end(link.source, line) - 14
        x2, top = self.left + line.x[link.target] + 14, line.top
        points = [(x1, top), (x1, top - height), (x2, top - height), (x2, top - 3)]
        self.curves.append(Curve(path=_rounded(points), style="next"))

    def _arrow(
        self, link: Link, source: Line, target: Line, index: int, channel: float | None
    ) -> None:
        """A stream or a hop: out at the side, through the gap over its target, in at its top."""
        sent = source.departures + source.arrivals
        x1 = self._end(link.source, source)
        y1 = (
            source.top
            + CALL_HEIGHT
            - 11
            - 7 * (len([a for a in sent if a.source is link.source]) % 3)
        )
        count = len([one for one in target.arrivals[:index] if one.target is link.target])
        # On the right, since the names of frames stand on the left.
        x2 = self.left + target.x[link.target] + target.width[link.target] - 12 - 14 * count
        turn = target.top - target.above - TRACK * (len(target.arrivals) - index - 1) - 6
        points = [(x1, y1), (x1 + 11, y1)]
        if channel is None:
            points += [(x1 + 11, turn)]
        else:
            under = source.top + CALL_HEIGHT + source.below
            under += 6 + 10 * source.departures.index(link)
            points += [(x1 + 11, under), (channel, under), (channel, turn)]
        points += [(x2, turn), (x2, target.top - 3)]
        self.curves.append(Curve(path=_rounded(points), style=link.kind))
        self._name(link, x2, max(points[-3][0], x2), turn)

    def _name(self, link: Link, left: float, right: float, y: float) -> None:
        """Over the level part of an arrow, and to its left where that is short."""
        if link.kind == "hop":
            name, more = "hop", link.text
        else:
            name, _, more = link.text.partition(": ")
        room = width_of(name, bold=True) + 8 + width_of(more)
        x = left + 12
        if x + room > self.edge - 6 or (right - left < room and left - room - 12 > self.left):
            x = min(left - 8, self.edge - 6) - room
        self.text(x, y - 5, name, f"{link.kind}name halo")
        self.text(x + width_of(name, bold=True) + 8, y - 5, more, "aside halo")

    def _end(self, cell: Cell, line: Line) -> float:
        return self.left + line.x[cell] + line.width[cell]

    # The legend

    def legend(self) -> None:
        x, y = MARGIN, self.y + 4
        for engine, text in (
            ("kv_cache", "keeps a KV cache"),
            ("stateless", "keeps nothing"),
            ("host", "Python on the host"),
        ):
            self.calls.append(self.box(x, y, 22, 14, 4, f"call {engine}"))
            self.text(x + 30, y + 11, text, "key")
            x += 50 + width_of(text)
        for kind, text in (("region", "one CUDA graph"), ("loop", "loop"), ("walk", "walk")):
            self.boxes.append(self.box(x, y, 22, 14, 4, f"frame {kind}"))
            self.text(x + 30, y + 11, text, "key")
            x += 50 + width_of(text)
        for style, text in (("stream", "stream"), ("hop", "hop to another rank")):
            path = f"M{x:.1f} {y + 7:.1f} L{x + 24:.1f} {y + 7:.1f}"
            self.curves.append(Curve(path=path, style=style))
            self.text(x + 36, y + 11, text, "key")
            x += 56 + width_of(text)
        self.width = max(self.width, x + MARGIN)
        self.y = y + 14


def _lane_name(line: Line) -> str:
    """The state, and the arm in it."""
    return f"{line.lane.state}: {line.lane.arm}" if line.lane.arm else line.lane.state


def _after_width(line: Line) -> float:
    return width_of(f"→ {line.lane.after}") + 14 if line.last and line.lane.after else 0.0


def _following(link: Link, cells: Sequence[Cell]) -> int | None:
    """The order of the call after a link's source in its lane."""
    index = cells.index(link.source) + 1
    return cells[index].order if index < len(cells) else None


def _rounded(points: Sequence[tuple[float, float]]) -> str:
    """A path along points, level or upright between two, with round corners."""
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x, y), (x1, y1) in zip(points, points[1:], points[2:], strict=False):
        before, after = abs(x - x0) + abs(y - y0), abs(x1 - x) + abs(y1 - y)
        r = min(9.0, before / 2, after / 2)
        sx, sy = _sign(x - x0), _sign(y - y0)
        tx, ty = _sign(x1 - x), _sign(y1 - y)
        path += (
            f" L{x - sx * r:.1f} {y - sy * r:.1f}"
            f" Q{x:.1f} {y:.1f} {x + tx * r:.1f} {y + ty * r:.1f}"
        )
    return f"{path} L{points[-1][0]:.1f} {points[-1][1]:.1f}"


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
