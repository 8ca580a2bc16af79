"""graph.svg: for each placement its ranks as bands, and in them the calls of every machine.

A machine's calls go from left to right; walks, loops and capture regions are frames around them. A
hop leads from band to band, a stream from the call that sends to the call that reads.
"""

from mstarc.codegen.views.amounts import amount_of_bytes, count_of
from mstarc.codegen.views.graph_cells import Cell, Drawing, Frame, Link, Row, drawing
from mstarc.codegen.views.layouts import beside
from mstarc.plan.plan import Plan
from mstarc.records import dataclass

BOX_WIDTH, BOX_HEIGHT = 128.0, 46.0
COLUMN = 194.0
MARGIN = 28.0
BAND_HEAD = 30.0
ROW_LABEL = 92.0
# How far a frame stands off its calls, from the inside out.
PADDING = {"region": 7.0, "loop": 16.0, "walk": 22.0, "each": 30.0}
LABEL = 16.0
LINE = 14.0
GUTTER = 36.0
LEGEND_WIDTH = 960.0
# The width of a letter, about.
SMALL = 6.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A rectangle with round corners."""

    x: float
    y: float
    width: float
    height: float
    radius: float
    style: str


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
    painter = _Painter(plan, max(shown.columns for shown in drawings))
    for shown in drawings:
        painter.panel(shown)
    painter.legend()
    return painter.view()


class _Painter:
    def __init__(self, plan: Plan, columns: int) -> None:
        self.plan = plan
        self.right = max(MARGIN + ROW_LABEL + columns * COLUMN + 12, LEGEND_WIDTH)
        self.boxes: list[Box] = []
        self.curves: list[Curve] = []
        self.calls: list[Box] = []
        self.texts: list[Text] = []
        self.places: dict[Cell, tuple[float, float]] = {}
        self.width = 0.0
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
        self, x: float, y: float, width: float, height: float, radius: float, style: str
    ) -> Box:
        return Box(
            x=round(x, 1),
            y=round(y, 1),
            width=round(width, 1),
            height=round(height, 1),
            radius=radius,
            style=style,
        )

    # A placement

    def panel(self, shown: Drawing) -> None:
        placement = shown.placed.placement
        how = "placed by exact search" if placement.source == "automatic" else placement.source
        self.text(MARGIN, self.y + 12, placement.name, "placement")
        aside = f"{count_of(len(placement.ranks), 'rank')}, {how}"
        self.text(MARGIN + 14 + len(placement.name) * 9, self.y + 12, aside, "aside")
        self.y += 26
        right = self.right
        self.width = max(self.width, right + MARGIN)
        for device in placement.devices:
            if device.rank not in placement.ranks:
                continue  # it holds a replica, which looks like its rank
            rows = [row for row in shown.rows if row.rank == device.rank]
            top = self.y
            used = sum(r.bytes for r in shown.placed.program.memory if r.rank == device.rank)
            # The band lies behind its rows: its boxes come before theirs.
            behind = len(self.boxes)
            self.y += BAND_HEAD
            for index, row in enumerate(rows):
                self.y += GUTTER if index else 0.0
                self.row(row)
            self.y += 14
            style = f"band band{device.rank % 6}"
            height = self.y - top
            edge = self.box(MARGIN, top + 12, 4, height - 24, 2, f"edge{device.rank % 6}")
            band = self.box(MARGIN, top, right - MARGIN, height, 12, style)
            self.boxes[behind:behind] = [band, edge]
            self.text(MARGIN + 16, top + 20, f"rank {device.rank}", "rank")
            memory = f"{amount_of_bytes(used)} of {amount_of_bytes(device.memory_bytes)}"
            memory = f"{device.kind}, {memory}"
            self.text(MARGIN + 70, top + 20, memory + beside(placement, device.rank), "aside")
            self.y += 14
        for link in shown.links:
            self.link(link)
        self.y += 18

    def row(self, row: Row) -> None:
        kinds = {frame.kind for frame in row.frames}
        above = max((PADDING[kind] for kind in kinds), default=0.0) + LABEL
        tags = LINE + 4 if any(cell.inputs or cell.outputs for cell in row.cells) else 0.0
        notes = 2 * LINE + 6 if "loop" in kinds else 0.0
        top = self.y + above + (LABEL if "each" in kinds else 0.0)
        for cell in row.cells:
            x = MARGIN + ROW_LABEL + cell.column * COLUMN + (COLUMN - BOX_WIDTH) / 2
            self.places[cell] = (x, top)
            self.cell(cell, x, top)
        self.text(MARGIN + 16, top + BOX_HEIGHT / 2 + 4, row.machine, "machine")
        for frame in row.frames:
            self.frame(frame, top, tags, notes)
        deepest = max((PADDING[kind] for kind in kinds), default=0.0)
        self.y = top + BOX_HEIGHT + tags + notes + deepest

    def cell(self, cell: Cell, x: float, y: float) -> None:
        self.calls.append(self.box(x, y, BOX_WIDTH, BOX_HEIGHT, 8, f"call {cell.engine}"))
        middle = x + BOX_WIDTH / 2
        self.text(middle, y + 19, f"{cell.call.node}.{cell.call.op}", "op", "middle")
        self.text(middle, y + 35, cell.engine.replace("_", " "), "engine", "middle")
        tags = [f"{name} ▸" for name in cell.inputs]
        tags += [f"▸ {name}" for name in dict.fromkeys(cell.outputs)]
        if tags:
            self.text(middle, y + BOX_HEIGHT + 21, "  ".join(tags), "tag", "middle")

    def frame(self, frame: Frame, top: float, tags: float, notes: float) -> None:
        xs = [self.places[cell][0] for cell in frame.cells]
        padding = PADDING[frame.kind]
        x, right = min(xs) - padding, max(xs) + BOX_WIDTH + padding
        room = right - x
        y = top - padding
        bottom = top + BOX_HEIGHT + tags + notes + padding
        if frame.kind == "each":
            # Room for the name of a walk that begins with it.
            y -= LABEL
        if frame.kind == "region":
            y, bottom = top - padding, top + BOX_HEIGHT + padding
        self.boxes.append(self.box(x, y, room, bottom - y, 10, f"frame {frame.kind}"))
        if frame.kind in ("walk", "each"):
            self.text(x + 2, y - 5, frame.text, "walkname")
        elif frame.kind == "loop":
            below = top + BOX_HEIGHT + tags + LINE + 5
            for index, line in enumerate(_two_lines(frame.text)):
                text = _shortened(line, room - 12, SMALL)
                self.text(x + room / 2, below + index * LINE, text, "loopname", "middle")

    # Links

    def link(self, link: Link) -> None:
        if link.kind == "stream":
            self.stream(link)
            return
        x1, y1 = self.places[link.source]
        x2, y2 = self.places[link.target]
        x1 += BOX_WIDTH
        y1 += BOX_HEIGHT / 2
        y2 += BOX_HEIGHT / 2
        end = x2 - 3
        if y1 == y2:
            path = f"M{x1:.1f} {y1:.1f} L{end:.1f} {y2:.1f}"
        else:
            bend = (x1 + end) / 2
            path = f"M{x1:.1f} {y1:.1f} C{bend:.1f} {y1:.1f} {bend:.1f} {y2:.1f} {end:.1f} {y2:.1f}"
        self.curves.append(Curve(path=path, style=link.kind))
        if not link.text:
            return
        text = _shortened(link.text, end - x1 - 6, SMALL)
        if link.kind == "hop":
            middle = (x1 + end) / 2
            self.text(middle - 8, (y1 + y2) / 2, f"hop: {link.text}", "hopname halo", "end")
        else:
            self.text((x1 + end) / 2, y1 - 6, text, "value halo", "middle")

    def stream(self, link: Link) -> None:
        x1, y1 = self.places[link.source]
        x2, y2 = self.places[link.target]
        down = y2 > y1
        # Out at the side, so that it does not cross what stands below a call; in at top or bottom.
        start = y1 + (BOX_HEIGHT - 10 if down else 10)
        x1, corner = x1 + BOX_WIDTH, x1 + BOX_WIDTH + 12
        x2 += BOX_WIDTH * 0.75
        end = y2 - 3 if down else y2 + BOX_HEIGHT + 3
        turn = end - 78 if down else end + 58
        sign = 1 if down else -1
        side = 1 if x2 > corner else -1
        r = min(10.0, abs(x2 - corner) / 2)
        path = (
            f"M{x1:.1f} {start:.1f} Q{corner:.1f} {start:.1f} {corner:.1f} {start + sign * 10:.1f} "
            f"L{corner:.1f} {turn - sign * r:.1f} "
            f"Q{corner:.1f} {turn:.1f} {corner + side * r:.1f} {turn:.1f} "
            f"L{x2 - side * r:.1f} {turn:.1f} "
            f"Q{x2:.1f} {turn:.1f} {x2:.1f} {turn + sign * r:.1f} L{x2:.1f} {end:.1f}"
        )
        self.curves.append(Curve(path=path, style="stream"))
        name, _, policy = link.text.partition(": ")
        x, y, anchor = min(corner, x2) - 10, turn - 1, "end"
        if not down:
            x, y, anchor = max(corner, x2) + 10, turn + 16, "start"
        self.text(x, y, name, "streamname halo", anchor)
        parts = [policy] if down else policy.rsplit(", ", 1)
        for index, part in enumerate(parts, 1):
            self.text(x, y + index * LINE, part, "aside halo", anchor)

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
            x += 44 + len(text) * SMALL
        for kind, text in (("region", "one CUDA graph"), ("loop", "loop"), ("walk", "walk")):
            self.boxes.append(self.box(x, y, 22, 14, 4, f"frame {kind}"))
            self.text(x + 30, y + 11, text, "key")
            x += 50 + len(text) * SMALL
        for style, text in (("stream", "stream"), ("hop", "hop to another rank")):
            path = f"M{x:.1f} {y + 7:.1f} L{x + 24:.1f} {y + 7:.1f}"
            self.curves.append(Curve(path=path, style=style))
            self.text(x + 36, y + 11, text, "key")
            x += 54 + len(text) * SMALL
        self.width = max(self.width, x + MARGIN)
        self.y = y + 14


def _two_lines(text: str) -> tuple[str, ...]:
    """A loop's bound, and what else ends it."""
    for word in (" while ", " until "):
        head, found, rest = text.partition(word)
        if found:
            return (f"↻ {head}", f"{word.strip()} {rest}")
    return (f"↻ {text}",)


def _shortened(text: str, room: float, width: float) -> str:
    """As much of a text as there is room for."""
    most = int(room / width)
    return text if len(text) <= most else text[: max(most - 1, 1)].rstrip() + "…"
