"""Where the blocks of a picture go: boxes in boxes, states side by side, machines below another."""

from collections.abc import Iterator

from mstarc.records import dataclass
from mstarc.show.picture import Block

LETTER = 7.25
"""The width of a letter of the drawing's font; the widest of those that it names."""
LEAF_HEIGHT = 26.0
PAD = 12.0
TITLE = 24.0
NOTE = 16.0
GAP = 8.0
STATE_GAP = 56.0
BRANCH_GAP = 14.0
WIDEST = 900.0
"""Branches stand side by side as far as they are not wider than this together."""
WIDEST_ROW = 1800.0
"""And so do the states of a machine, which have several rows where they are many."""
ROW_GAP = 52.0
SIDE = 24.0
"""At the right of several rows: what leads from one to another."""

SIDE_BY_SIDE = frozenset(("machine", "parallel", "when", "match"))
_LEAVES = frozenset(("call", "set", "send", "pull", "emit", "mark", "context"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A block with its box; `inner` lie inside."""

    block: Block
    x: float
    y: float
    width: float
    height: float
    inner: tuple["Placed", ...]

    @property
    def right(self) -> float:
        """The right edge."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.y + self.height

    @property
    def is_leaf(self) -> bool:
        """Whether it is one statement."""
        return self.block.kind in _LEAVES


def placed(block: Block, x: float, y: float) -> Placed:
    """The box of a block whose upper left corner is at `x`, `y`, and the boxes in it."""
    if block.kind in _LEAVES:
        width = LETTER * len(label(block)) + 2 * PAD
        return Placed(block=block, x=x, y=y, width=width, height=LEAF_HEIGHT, inner=())
    beside = block.kind in SIDE_BY_SIDE
    box = _laid_out(block, x, y, beside=beside)
    if beside and block.kind != "machine" and box.width > WIDEST:
        # Arms of a `match` say long things: below one another they stay on a page.
        return _laid_out(block, x, y, beside=False)
    return box


def _laid_out(block: Block, x: float, y: float, *, beside: bool) -> Placed:
    gap = _state_gap(block) if block.kind == "machine" else BRANCH_GAP if beside else GAP
    top = y + TITLE + (NOTE if block.note else 0.0)
    across, down = x + PAD, top
    inner: list[Placed] = []
    for entry in block.blocks:
        box = placed(entry, across, down)
        if block.kind == "machine" and inner and box.right > x + WIDEST_ROW:
            # States that have no room go on below, as words do in a text.
            across, down = x + PAD, max(one.bottom for one in inner) + ROW_GAP
            box = placed(entry, across, down)
        inner.append(box)
        if beside:
            across = box.right + gap
        else:
            down = box.bottom + gap
    title = LETTER * max(len(block.title), len(block.note)) + 2 * PAD
    right = max([x + title, *(box.right + PAD for box in inner)])
    if beside and inner and down > top:
        right += SIDE
    bottom = max([top, *(box.bottom for box in inner)]) + PAD
    return Placed(block=block, x=x, y=y, width=right - x, height=bottom - y, inner=tuple(inner))


def _state_gap(machine: Block) -> float:
    """The gap between states: wide enough for what stands over the arrows there."""
    words = [condition for state in machine.blocks for _, condition in state.next]
    return max([STATE_GAP, *(LETTER * len(text) + 16 for text in words)])


def label(block: Block) -> str:
    """What stands in the box of a statement."""
    ranks = ", ".join(map(str, block.ranks))
    return f"{block.title}  ·  rank {ranks}" if ranks else block.title


def every(box: Placed) -> Iterator[Placed]:
    """A box and all in it, outer ones first."""
    yield box
    for inner in box.inner:
        yield from every(inner)
