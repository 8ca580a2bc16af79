"""What processes hold in a soak, and whether it grows: memory of their own, and Python's objects.

Memory of a process that keeps nothing still goes up for a while: whenever more comes together than
ever before, allocators touch pages that they do not give back. That dies away, and the objects stay
as many. What somebody keeps by mistake does neither. So growth is `settling` only where both can be
seen: less in each part of the time than in the part before, and objects that are flat.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from tests.support.memory import Points, Slope, own_mb, parts_of, slope_of

LOOK_S = 5.0
# What a start needs is not growth, nor is what the first thousand requests need once.
SETTLES_MINUTES = 4.0
# A process that holds a page mostly holds it five seconds later: means of a minute are compared.
BLOCK_MINUTES = 1.0
_PARTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Of one process. `text`: what was seen."""

    name: str
    word: str
    text: str

    @property
    def is_good(self) -> bool:
        return self.word in ("flat", "shrinks", "settling")


@dataclass
class Held:
    """`processes` gives the ids of those that live, by name. Times are minutes since the start."""

    processes: Callable[[], Mapping[str, int]]
    began_s: float = field(default_factory=time.monotonic)
    # (name of the process, its id) → (minutes, MB): each incarnation for itself.
    memory: dict[tuple[str, int], list[tuple[float, float]]] = field(default_factory=dict)

    async def look(self) -> None:
        """Notes every process's memory, until it is cancelled."""
        while True:
            for name, number in self.processes().items():
                memory = own_mb(number)
                if memory is not None:
                    at = (time.monotonic() - self.began_s) / 60
                    self.memory.setdefault((name, number), []).append((at, memory))
            await asyncio.sleep(LOOK_S)

    def verdicts(
        self, objects: Mapping[str, Points], minutes: float, requests_a_minute: float
    ) -> list[Verdict]:
        """On each process. `objects`: (seconds, thousands of pieces of memory) by process."""
        found = []
        for name in sorted({name for name, _ in self.memory}):
            # The server is there all the time: its first half is its warming up.
            since = minutes / 2 if name == "server" else 0.0
            runs, pieces = self._runs(name, objects.get(name, ()), since)
            if runs:
                found.append(_verdict(name, runs, pieces, requests_a_minute))
        return found

    def _runs(self, name: str, objects: Points, since: float) -> tuple[list[Points], list[Points]]:
        """A process's memory and its objects, an incarnation a run, once it has settled."""
        runs: list[Points] = []
        pieces: list[Points] = []
        for (whose, _), points in self.memory.items():
            if whose != name:
                continue
            first = max(since, points[0][0] + SETTLES_MINUTES)
            last = points[-1][0]
            run = [(x, y) for x, y in points if x >= first]
            at = [((x - self.began_s) / 60, y) for x, y in objects]
            piece = [(x, y) for x, y in at if first <= x <= last]
            if len(run) > _PARTS:
                runs.append(run)
            if len(piece) > _PARTS:
                pieces.append(piece)
        return runs, pieces


def _verdict(
    name: str, runs: list[Points], pieces: list[Points], requests_a_minute: float
) -> Verdict:
    line = slope_of(runs, block=BLOCK_MINUTES)
    own = slope_of(pieces, block=BLOCK_MINUTES)
    parts = [sum(part) for part in zip(*(parts_of(run, _PARTS) for run in runs), strict=True)]
    word: str = line.verdict
    dies_away = all(after < before for before, after in pairwise(parts))
    if word == "grows" and dies_away and own.verdict in ("flat", "shrinks"):
        word = "settling"
    levels = [y for run in runs for _, y in run]
    text = (
        f"{_shown(line)} MB a minute ({1000 * line.slope / requests_a_minute:+.3f} MB every 1,000 "
        f"requests; {min(levels):.1f} … {max(levels):.1f} MB, {len(runs)} incarnations; by thirds "
        f"{', '.join(f'{part:+.2f}' for part in parts)} MB); objects {_shown(own)} thousand pieces "
        f"a minute: {own.verdict}"
    )
    return Verdict(name=name, word=word, text=text)


def _shown(line: Slope) -> str:
    return f"{line.slope:+.4f} ± {line.error:.4f}"
