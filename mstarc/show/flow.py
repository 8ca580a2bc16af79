"""A picture as a graph: calls and statements are its nodes, blocks its frames, for graph tools."""

from collections.abc import Iterator
from dataclasses import field
from typing import Literal, TypeAlias

from mstarc.records import dataclass
from mstarc.show.picture import Block, Picture

EdgeKind: TypeAlias = Literal["order", "next", "again", "stream", "output"]

# What frames others; the rest are nodes.
_FRAMES = frozenset(
    ("machine", "state", "walk", "run", "loop", "parallel", "branch", "when", "each", "for")
) | {"match"}


@dataclass(slots=True, kw_only=True)
class Point:
    """A node of the graph."""

    id: str
    block: Block


@dataclass(slots=True, kw_only=True)
class Frame:
    """A block with others in it. A frame without any has one point of its own."""

    id: str
    block: Block
    points: list[Point] = field(default_factory=list)
    frames: list["Frame"] = field(default_factory=list)
    order: list["Point | Frame"] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """From node to node, by id."""

    source: str
    target: str
    kind: EdgeKind
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Frames at the top, the outputs that something emits to, and all edges."""

    frames: tuple[Frame, ...]
    outputs: tuple[tuple[str, str], ...]
    edges: tuple[Edge, ...]


def flow(picture: Picture) -> Flow:
    """The graph of a picture. Ids are the same for the same picture."""
    return _Builder(picture).run()


class _Builder:
    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        self.count = 0
        self.edges: list[Edge] = []

    def run(self) -> Flow:
        frames = tuple(self.frame(block) for block in self.picture.blocks)
        for frame in frames:
            self.connect(frame)
            if frame.block.kind == "machine":
                self.connect_states(frame)
        outputs = self.connect_streams(frames)
        return Flow(frames=frames, outputs=outputs, edges=tuple(self.edges))

    def new_id(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def frame(self, block: Block) -> Frame:
        frame = Frame(id=self.new_id("f"), block=block)
        for inner in block.blocks:
            if inner.kind in _FRAMES:
                made = self.frame(inner)
                frame.frames.append(made)
                frame.order.append(made)
            else:
                point = Point(id=self.new_id("n"), block=inner)
                frame.points.append(point)
                frame.order.append(point)
        if not frame.order:
            point = Point(id=self.new_id("n"), block=Block(kind="set", key="", title="nothing"))
            frame.points.append(point)
            frame.order.append(point)
        return frame

    # Order inside frames

    def connect(self, frame: Frame) -> None:
        for inner in frame.frames:
            self.connect(inner)
        kind = frame.block.kind
        if kind in ("machine", "parallel", "when", "match"):
            return
        for before, after in zip(frame.order, frame.order[1:], strict=False):
            for source in last_points(before):
                for target in first_points(after):
                    self.edges.append(Edge(source=source.id, target=target.id, kind="order"))
        if kind in ("loop", "each", "for"):
            source, target = last_points(frame)[-1], first_points(frame)[0]
            text = "each chunk" if kind == "each" else "each part" if kind == "for" else "again"
            self.edges.append(Edge(source=source.id, target=target.id, kind="again", text=text))

    def connect_states(self, machine: Frame) -> None:
        states = {frame.block.name: frame for frame in machine.frames}
        for frame in machine.frames:
            for target, condition in frame.block.next:
                if target in states:
                    self.edges.append(
                        Edge(
                            source=last_points(frame)[-1].id,
                            target=first_points(states[target])[0].id,
                            kind="next",
                            text=condition,
                        )
                    )

    # Streams and outputs

    def connect_streams(self, frames: tuple[Frame, ...]) -> tuple[tuple[str, str], ...]:
        channels = {channel.name: channel for channel in self.picture.channels}
        sends: dict[str, list[str]] = {}
        reads: dict[str, list[str]] = {}
        outputs: dict[str, str] = {}
        for frame in (inner for top in frames for inner in all_frames(top)):
            if frame.block.kind == "each":
                for name in frame.block.name.split(", "):
                    reads.setdefault(name, []).append(first_points(frame)[0].id)
            for point in frame.points:
                match point.block.kind:
                    case "send":
                        sends.setdefault(point.block.name, []).append(point.id)
                    case "pull":
                        reads.setdefault(point.block.name, []).append(point.id)
                    case "emit":
                        name = point.block.name
                        target = outputs.setdefault(name, f"out_{name}")
                        self.edges.append(Edge(source=point.id, target=target, kind="output"))
                    case _:
                        pass
        for name in sends:
            for source in sends[name]:
                for target in reads.get(name, []):
                    text = f"{name}: {channels[name].policy}"
                    self.edges.append(Edge(source=source, target=target, kind="stream", text=text))
        return tuple((identifier, name) for name, identifier in outputs.items())


def all_frames(frame: Frame) -> Iterator[Frame]:
    """A frame and all in it, outer ones first."""
    yield frame
    for inner in frame.frames:
        yield from all_frames(inner)


def first_points(part: Point | Frame) -> list[Point]:
    """Where a part begins: several points where branches do."""
    return _ends(part, 0)


def last_points(part: Point | Frame) -> list[Point]:
    """Where a part ends."""
    return _ends(part, -1)


def _ends(part: Point | Frame, which: int) -> list[Point]:
    if isinstance(part, Point):
        return [part]
    if part.block.kind in ("parallel", "when", "match"):
        return [point for inner in part.order for point in _ends(inner, which)]
    return _ends(part.order[which], which)
