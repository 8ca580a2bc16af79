"""A picture as a drawing: machines below one another, their states from left to right."""

from xml.sax.saxutils import escape, quoteattr

from mstarc.show.layout import LETTER, NOTE, PAD, STATE_GAP, TITLE, Placed, every, label, placed
from mstarc.show.picture import Picture

MARGIN = 28.0
HEAD = 44.0
MACHINE_GAP = 46.0
LANE = 20.0
LINE = 16.0

_STYLE = """
:root { --ground: #fbfbfd; --panel: #fff; --line: #cbd5e1; --text: #0f172a; --soft: #64748b;
  --kv: #e0e7ff; --kv-line: #6366f1; --pure: #ccfbf1; --pure-line: #14b8a6; --host: #fef3c7;
  --host-line: #d97706; --stream: #db2777; --stream-fill: #fce7f3; --out: #15803d;
  --out-fill: #dcfce7; --frame: #f1f5f9; }
@media (prefers-color-scheme: dark) { :root { --ground: #0b1020; --panel: #131a2e; --line: #334155;
  --text: #e2e8f0; --soft: #94a3b8; --kv: #272a63; --kv-line: #818cf8; --pure: #123f3b;
  --pure-line: #2dd4bf; --host: #45320b; --host-line: #fbbf24; --stream: #f472b6;
  --stream-fill: #4a1432; --out: #4ade80; --out-fill: #12361f; --frame: #1a2340; } }
text { font: 12px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  fill: var(--text); }
.ground { fill: var(--ground); } .title { font: 600 18px system-ui, sans-serif; }
.note, .aside { fill: var(--soft); font-size: 11px; }
.name { font-weight: 600; }
rect { stroke: var(--line); fill: var(--panel); }
.machine { fill: var(--frame); } .state { fill: var(--panel); }
.run, .walk { fill: var(--frame); } .loop, .each, .for { fill: none; stroke-dasharray: 5 4;
  stroke: var(--soft); } .parallel, .when, .match, .branch { fill: none; }
.kv_cache { fill: var(--kv); stroke: var(--kv-line); }
.stateless { fill: var(--pure); stroke: var(--pure-line); }
.host { fill: var(--host); stroke: var(--host-line); }
.send, .pull, .mark { fill: var(--stream-fill); stroke: var(--stream); }
.emit { fill: var(--out-fill); stroke: var(--out); }
.set, .context { stroke-dasharray: 2 2; }
path { fill: none; stroke: var(--soft); stroke-width: 1.5; }
.flow { stroke: var(--stream); stroke-width: 2; }
.halo { paint-order: stroke; stroke: var(--ground); stroke-width: 5px; }
.flowname { fill: var(--stream); font-weight: 600; }
#arrow path { fill: var(--soft); stroke: none; } #flow path { fill: var(--stream); stroke: none; }
"""


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
                f"<style>{_STYLE}</style>",
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
                y = machine.y + TITLE + 34 + 16 * number
                if machine.inner[index + 1 : index + 2] == (target,):
                    self.path(f"M{state.right:.0f} {y:.0f} H{target.x - 4:.0f}", "arrow")
                    if condition:
                        middle = state.right + STATE_GAP / 2
                        self.curves.append(_text(middle, y - 5, condition, "aside halo", "middle"))
                    continue
                low = machine.bottom - 5 - 3 * (index % 3)
                start, end = state.x + state.width / 2, target.x + target.width / 2
                self.path(
                    f"M{start:.0f} {state.bottom:.0f} V{low:.0f} H{end:.0f} "
                    f"V{target.bottom + 3:.0f}",
                    "arrow",
                )

    def streams(self) -> None:
        lane = dict.fromkeys((box.block.name for box in self.boxes), 0)
        for channel in self.picture.channels:
            reader = self.reader(channel.name)
            machine = next((b for b in self.boxes if b.block.name == channel.consumer), None)
            if reader is None or machine is None:
                continue
            senders = [
                (state, box)
                for top in self.boxes
                for state in top.inner
                for box in every(state)
                if box.block.kind == "send" and box.block.name == channel.name
            ]
            number = lane[channel.consumer]
            lane[channel.consumer] += 1
            y = machine.y - LANE * (number + 1)
            x = reader.x + reader.width - 22 - 14 * number
            for state, sender in senders:
                out = state.right + 16 + 6 * number
                self.path(
                    f"M{sender.right:.0f} {sender.y + sender.height / 2:.0f} "
                    f"H{out:.0f} V{y:.0f} H{x:.0f} V{reader.y - 4:.0f}",
                    "flow",
                )
                self.width = max(self.width, out + MARGIN)
            text = f"{channel.name}  {channel.policy}"
            self.curves.append(_text(x + 10, y - 5, text, "flowname halo"))
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
