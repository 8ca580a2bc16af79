"""What chunk policies hand over, worked out by hand: the compiler and the runtime are held to it.

Items are 0, 1, 2, …; a chunk is (items repeated, items handed over for the first time, padding).
"""

from dataclasses import dataclass

Chunk = tuple[tuple[int, ...], tuple[int, ...], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkCase:
    """`policy` and `tail` as a spec writes them; `marks` stand before the item of their number.

    `stops` are the items for which the condition of an `until` holds.
    """

    policy: str
    tail: str
    count: int
    chunks: tuple[Chunk, ...]
    marks: tuple[int, ...] = ()
    stops: tuple[int, ...] = ()


def fresh(*groups: range | tuple[int, ...]) -> tuple[Chunk, ...]:
    """Chunks that repeat nothing."""
    return tuple(((), tuple(group), 0) for group in groups)


LEFT = "left_context(chunk = 4, context = 2)"
FAR = "left_context(chunk = 2, context = 3)"
RAMP = "left_context(chunk = 4, context = 1, ramp = (1, 2))"
SLIDING = "sliding(window = 4, stride = 2)"

CHUNK_CASES: tuple[ChunkCase, ...] = (
    ChunkCase(policy="fixed(3)", tail="drop", count=0, chunks=()),
    ChunkCase(policy="fixed(3)", tail="short", count=0, chunks=()),
    ChunkCase(policy="fixed(3)", tail="pad(0)", count=0, chunks=()),
    ChunkCase(policy="fixed(3)", tail="drop", count=7, chunks=fresh((0, 1, 2), (3, 4, 5))),
    ChunkCase(policy="fixed(3)", tail="short", count=7, chunks=fresh((0, 1, 2), (3, 4, 5), (6,))),
    ChunkCase(policy="fixed(3)", tail="pad(0)", count=4, chunks=(*fresh((0, 1, 2)), ((), (3,), 2))),
    ChunkCase(policy="fixed(3)", tail="pad(0)", count=6, chunks=fresh((0, 1, 2), (3, 4, 5))),
    ChunkCase(policy="fixed(1)", tail="drop", count=3, chunks=fresh((0,), (1,), (2,))),
    ChunkCase(policy=SLIDING, tail="drop", count=3, chunks=()),
    ChunkCase(policy=SLIDING, tail="short", count=3, chunks=fresh((0, 1, 2))),
    ChunkCase(policy=SLIDING, tail="pad(0)", count=3, chunks=(((), (0, 1, 2), 1),)),
    # Covered to the last item: there is no tail.
    ChunkCase(policy=SLIDING, tail="short", count=4, chunks=fresh((0, 1, 2, 3))),
    # The tail begins where the next window would: what was covered is repeated.
    ChunkCase(
        policy=SLIDING, tail="short", count=5, chunks=(*fresh((0, 1, 2, 3)), ((2, 3), (4,), 0))
    ),
    ChunkCase(
        policy=SLIDING, tail="pad(0)", count=5, chunks=(*fresh((0, 1, 2, 3)), ((2, 3), (4,), 1))
    ),
    ChunkCase(
        policy=SLIDING, tail="drop", count=7, chunks=(*fresh((0, 1, 2, 3)), ((2, 3), (4, 5), 0))
    ),
    ChunkCase(policy=LEFT, tail="short", count=3, chunks=fresh((0, 1, 2))),
    ChunkCase(
        policy=LEFT,
        tail="short",
        count=9,
        chunks=(*fresh((0, 1, 2, 3)), ((2, 3), (4, 5, 6, 7), 0), ((6, 7), (8,), 0)),
    ),
    ChunkCase(
        policy=LEFT, tail="pad(0)", count=5, chunks=(*fresh((0, 1, 2, 3)), ((2, 3), (4,), 3))
    ),
    # Nothing is left: no chunk of context alone.
    ChunkCase(
        policy=LEFT, tail="short", count=8, chunks=(*fresh((0, 1, 2, 3)), ((2, 3), (4, 5, 6, 7), 0))
    ),
    ChunkCase(
        policy=FAR,
        tail="drop",
        count=6,
        chunks=(*fresh((0, 1)), ((0, 1), (2, 3), 0), ((1, 2, 3), (4, 5), 0)),
    ),
    ChunkCase(
        policy=RAMP,
        tail="short",
        count=8,
        chunks=(*fresh((0,)), ((0,), (1, 2), 0), ((2,), (3, 4, 5, 6), 0), ((6,), (7,), 0)),
    ),
    ChunkCase(policy=RAMP, tail="drop", count=2, chunks=fresh((0,))),
    ChunkCase(
        policy="until(%item == 1, max = 3)",
        tail="short",
        count=7,
        stops=(1, 2),
        chunks=fresh((0, 1), (2,), (3, 4, 5), (6,)),
    ),
    ChunkCase(
        policy="until(%item == 1, max = 3)", tail="drop", count=4, stops=(), chunks=fresh((0, 1, 2))
    ),
    ChunkCase(
        policy="fixed(1)", tail="drop", count=3, marks=(0, 2, 3), chunks=fresh((0,), (1,), (2,))
    ),
    ChunkCase(
        policy="until(mark end, max = 4)",
        tail="short",
        count=9,
        marks=(2, 7),
        chunks=fresh((0, 1), (2, 3, 4, 5), (6,), (7, 8)),
    ),
    # A mark ends the chunk before it; the next window begins behind it.
    ChunkCase(
        policy=SLIDING,
        tail="drop",
        count=9,
        marks=(5,),
        chunks=(*fresh((0, 1, 2, 3)), ((2, 3), (4,), 0), ((), (5, 6, 7, 8), 0)),
    ),
)
