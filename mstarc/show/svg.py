"""A picture as a drawing: machines below one another, their states from left to right."""

import re
from xml.sax.saxutils import escape, quoteattr

from mstarc.show.layout import (
    LETTER,
    NOTE,
    PAD,
    SIDE_BY_SIDE,
    TITLE,
    Placed,
    every,
    label,
    placed,
)
from mstarc.show.picture import Picture

MARGIN = 28.0
HEAD = 44.0
MACHINE_GAP = 46.0
LANE = 20.0
LINE = 16.0

# Written out for light and for dark: programs that make pictures of files know no variables.
_LIGHT = {
    "ground": "#fbfbfd",
    "panel": "#fff",
    "line": "#cbd5e1",
    "text": "#0f172a",
    "soft": "#64748b",
    "kv": "#e0e7ff",
    "kv-line": "#6366f1",
    "pure": "#ccfbf1",
    "pure-line": "#14b8a6",
    "host": "#fef3c7",
    "host-line": "#d97706",
    "stream": "#db2777",
    "stream-fill": "#fce7f3",
    "out": "#15803d",
    "out-fill": "#dcfce7",
    "frame": "#f1f5f9",
}
_DARK = {
    "ground": "#0b1020",
    "panel": "#131a2e",
    "line": "#334155",
    "text": "#e2e8f0",
    "soft": "#94a3b8",
    "kv": "#272a63",
    "kv-line": "#818cf8",
    "pure": "#123f3b",
    "pure-line": "#2dd4bf",
    "host": "#45320b",
    "host-line": "#fbbf24",
    "stream": "#f472b6",
    "stream-fill": "#4a1432",
    "out": "#4ade80",
    "out-fill": "#12361f",
    "frame": "#1a2340",
}
_SHAPES = """\
text { font: 12px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.title { font: 600 18px system-ui, sans-serif; }
.note, .aside { font-size: 11px; }
.name, .flowname { font-weight: 600; }
.loop, .each, .for { stroke-dasharray: 5 4; }
.set, .context { stroke-dasharray: 2 2; }
path { stroke-width: 1.5; }
.flow { stroke-width: 2; }
.halo { paint-order: stroke; stroke-width: 5px; }
"""
_COLOURS = """\
text { fill: $text; }
rect { stroke: $line; fill: $panel; }
.ground { fill: $ground; }
.note, .aside { fill: $soft; }
.machine, .run, .walk { fill: $frame; }
.loop, .each, .for { fill: none; stroke: $soft; }
.parallel, .when, .match, .branch { fill: none; }
.kv_cache { fill: $kv; stroke: $kv-line; }
.stateless { fill: $pure; stroke: $pure-line; }
.host { fill: $host; stroke: $host-line; }
.send, .pull, .mark { fill: $stream-fill; stroke: $stream; }
.emit { fill: $out-fill; stroke: $out; }
path { fill: none; stroke: $soft; }
.flow { stroke: $stream; }
.halo { stroke: $ground; }
.flowname { fill: $stream; }
#arrow path { fill: $soft; stroke: none; }
#flow path { fill: $stream; stroke: none; }
"""


def _style() -> str:
    dark = "".join(f"  {line}\n" for line in _coloured(_DARK).splitlines())
    return f"{_SHAPES}{_coloured(_LIGHT)}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"


def _coloured(colours: dict[str, str]) -> str:
    return re.sub(r"\$([a-z-]+)", lambda found: colours[found[1]], _COLOURS)


def svg(picture: Picture) -> str:
    """The text of an SVG file, light or dark as its reader likes."""
    return _Drawing(picture).text()


class _Drawing:
    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        self.frames: list[str] = []
        self.parts: list[str] = []
        self.curves: list[str] = []
        self.boxes: list[Placed] = []
        y = MARGIN + HEAD
        for block in picture.blocks:
            lanes = LANE * sum(1 for c in picture.channels if c.consumer == block.name)
            y += lanes
            box = placed(block, MARGIN, y)
            self.boxes.append(box)
            y = box.bottom + MACHINE_GAP
        self.journeys = y - MACHINE_GAP + 34
        self.height = self.journeys + LINE * len(picture.journeys) + MARGIN
        self.width = max([560.0, *(box.right + MARGIN for box in self.boxes)])

    def text(self) -> str:
        for box in self.boxes:
            self.box(box)
        if all(box.block.kind == "machine" for box in self.boxes):
            for box in self.boxes:
                self.transitions(box)
            self.streams()
        self.legend()
        model = escape(self.picture.model)
        aside = f" on {escape(self.picture.placement)}" if self.picture.placement else ""
        width, height = round(self.width), round(self.height)
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
                f'viewBox="0 0 {width} {height}" role="img" aria-labelledby="title description">',
                f'<title id="title">{model}{aside}</title>',
                f'<desc id="description">{escape(self.description())}</desc>',
                f"<style>\n{_style()}</style>",
                "<defs>",
                *(_arrow(name) for name in ("arrow", "flow")),
                "</defs>",
                '<rect class="ground" width="100%" height="100%" stroke="none"/>',
                _text(MARGIN, MARGIN + 16, f"{self.picture.model}{aside}", "title"),
                *self.frames,
                # Under the statements, whose text a line would cross out.
                *self.curves,
                *self.parts,
                "</svg>",
                "",
            ]
        )

    def description(self) -> str:
        """The drawing in a sentence a stream and machine, for who cannot see it."""
        machines = [
            f"{box.block.title} has {', '.join(inner.block.title for inner in box.inner)}."
            for box in self.boxes
        ]
        streams = [
            f"Stream {c.name} goes from {c.producer} to {c.consumer}."
            for c in self.picture.channels
        ]
        return " ".join([*machines, *streams])

    def box(self, box: Placed) -> None:
        block = box.block
        style = block.engine if block.kind == "call" and block.engine else block.kind
        radius = 6 if box.is_leaf else 10
        parts = self.parts if box.is_leaf else self.frames
        parts.append(
            f'<rect class="{style}" x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" '
            f'height="{box.height:.0f}" rx="{radius}"/>'
        )
        if box.is_leaf:
            self.parts.append(_text(box.x + PAD, box.y + 17, label(block), ""))
            return
        name = "name" if block.kind in ("machine", "state", "walk", "run") else "aside"
        self.frames.append(_text(box.x + PAD, box.y + 16, block.title, name))
        if block.note:
            self.frames.append(_text(box.x + PAD, box.y + TITLE + NOTE - 10, block.note, "note"))
        for inner in box.inner:
            self.box(inner)

    def transitions(self, machine: Placed) -> None:
        states = {inner.block.name: inner for inner in machine.inner}
        for index, state in enumerate(machine.inner):
            for number, (name, condition) in enumerate(state.block.next):
                if name not in states:
                    continue
                target = states[name]
                y = state.y + 34 + 16 * number
                if machine.inner[index + 1 : index + 2] == (target,) and target.y == state.y:
                    self.path(f"M{state.right:.0f} {y:.0f} H{target.x - 4:.0f}", "arrow")
                    if condition:
                        middle = (state.right + target.x) / 2
                        self.curves.append(_text(middle, y - 5, condition, "aside halo", "middle"))
                    continue
                self.detour(machine, state, target, 3 * (index % 3) + 12 * number, condition)

    def detour(
        self, machine: Placed, state: Placed, target: Placed, shift: float, condition: str
    ) -> None:
        """A transition that does not just lead to the next state: under the row, and up or down."""
        rows = sorted({one.y for one in machine.inner})
        low = max(one.bottom for one in machine.inner if one.y == state.y) + 7 + shift
        start, end = state.x + state.width / 2, target.x + target.width / 2
        path = f"M{start:.0f} {state.bottom:.0f} V{low:.0f}"
        if target.y == state.y:
            path += f" H{end:.0f} V{target.bottom + 3:.0f}"
        elif rows.index(target.y) == rows.index(state.y) + 1:
            path += f" H{end:.0f} V{target.y - 4:.0f}"
        else:
            side, over = machine.right - 8 - shift, target.y - 12 - shift
            path += f" H{side:.0f} V{over:.0f} H{end:.0f} V{target.y - 4:.0f}"
        self.path(path, "arrow")
        if condition and target.y != state.y:
            self.curves.append(_text(start + 8, low - 3, condition, "aside halo"))

    def streams(self) -> None:
        lane = dict.fromkeys((box.block.name for box in self.boxes), 0)
        for channel in self.picture.channels:
            reader = self.reader(channel.name)
            machine = next((b for b in self.boxes if b.block.name == channel.consumer), None)
            if reader is None or machine is None:
                continue
            senders = [
                (top, state, box)
                for top in self.boxes
                for state in top.inner
                for box in every(state)
                if box.block.kind == "send" and box.block.name == channel.name
            ]
            number = lane[channel.consumer]
            lane[channel.consumer] += 1
            y = machine.y - LANE * (number + 1)
            x = reader.x + reader.width - 22 - 14 * number
            for top, state, sender in senders:
                out = state.right + 16 + 6 * number
                way = f"{_way_out(sender, state)} H{out:.0f}"
                if any(other.y > state.y for other in top.inner):
                    # There are rows below: through the gap under its own, and down beside them.
                    low = max(other.bottom for other in top.inner if other.y == state.y) + 20
                    out = top.right + 10 + 6 * number
                    way += f" V{low:.0f} H{out:.0f}"
                self.path(f"{way} V{y:.0f} H{x:.0f} V{reader.y - 4:.0f}", "flow")
                self.width = max(self.width, out + MARGIN)
            text = f"{channel.name}  {channel.policy}"
            self.curves.append(_text(x + 10, y - 7, text, "flowname halo"))
            self.width = max(self.width, x + 10 + LETTER * len(text) + MARGIN)

    def reader(self, stream: str) -> Placed | None:
        for top in self.boxes:
            for box in every(top):
                names = box.block.name.split(", ")
                if box.block.kind in ("each", "pull") and stream in names:
                    return box
        return None

    def path(self, path: str, kind: str) -> None:
        self.curves.append(f'<path class="{kind}" d="{path}" marker-end="url(#{kind})"/>')

    def legend(self) -> None:
        for index, journey in enumerate(self.picture.journeys):
            taken = ", ".join((*journey.values, *(f"KV {name}" for name in journey.contexts)))
            text = f"{journey.machine}: rank {journey.source} → {journey.target} at {journey.place}"
            text += f" with {taken}" if taken else ""
            self.parts.append(_text(MARGIN, self.journeys + LINE * index, text, "aside"))
            self.width = max(self.width, 2 * MARGIN + LETTER * len(text))
        x, y = MARGIN, self.height - MARGIN
        for style, text in (
            ("kv_cache", "keeps a KV cache"),
            ("stateless", "keeps nothing"),
            ("host", "Python on the host"),
            ("send", "stream"),
            ("emit", "output"),
        ):
            self.parts.append(
                f'<rect class="{style}" x="{x:.0f}" y="{y - 10:.0f}" width="18" height="12" '
                'rx="3"/>'
            )
            self.parts.append(_text(x + 24, y, text, "aside"))
            x += 44 + LETTER * len(text)
        self.width = max(self.width, x)


def _way_out(sender: Placed, state: Placed) -> str:
    """The path from a statement to where nothing stands between it and the state's right edge."""
    level = sender.y + sender.height / 2
    if not any(
        box.is_leaf and box.x > sender.right and box.y <= level <= box.bottom
        for box in every(state)
    ):
        return f"M{sender.right:.0f} {level:.0f}"
    # Down beside it, to the padding of what holds the branches that stand side by side.
    around = [b for b in every(state) if _holds(b, sender) and b.block.kind in SIDE_BY_SIDE]
    low = around[0].bottom - PAD / 2
    return f"M{sender.right:.0f} {level:.0f} h7 V{low:.0f}"


def _holds(outer: Placed, inner: Placed) -> bool:
    return any(box is inner for box in every(outer)) and outer is not inner


def _arrow(name: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker>'
    )


def _text(x: float, y: float, text: str, style: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" class={quoteattr(style)} text-anchor="{anchor}" '
        f'xml:space="preserve">{escape(text)}</text>'
    )
