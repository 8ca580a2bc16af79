"""Pages of prompts that other requests may use: found by what stands in them.

A *unit* is as many whole pages as prompts are shared by. Its digest is of all tokens up to its end,
so equal digests mean equal rows, and a prompt's units are found one behind the other. The index
holds a reference on its pages like a context does, so they outlive the request that wrote them;
they are full, and nobody writes to a full page. When the pool runs short, units that no context
uses are given up, the longest unused first: a unit is used whenever one behind it is. With a unit
go those behind it, which could not be found any more: a context may still use them, which has
pages of its own for what stands before, if it was read twice at once.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mstarc_runtime.kvcache.pages import PageAllocator, Pages

# Of the pool, what is given up at once: so that a pool which is full of prompts is not searched for
# each page that a step begins.
_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """`seen`: ids that the samplers of these names were told of its rows."""

    pages: Pages
    seen: tuple[tuple[str, Tensor], ...]


@dataclass(slots=True, kw_only=True)
class PrefixCounts:
    """Rows of prompts that were looked for and found; units that were kept and given up."""

    asked_rows: int = 0
    found_rows: int = 0
    kept: int = 0
    given_up: int = 0


class PrefixIndex:
    """The units of one pool. A pool with one gives up units before it is out of pages, and
    `dropped` hears which; one that `is_told` leaves that to another rank."""

    def __init__(
        self,
        allocator: PageAllocator,
        *,
        is_told: bool = False,
        dropped: Callable[[Sequence[bytes]], None] | None = None,
    ) -> None:
        self._allocator = allocator
        self._dropped = dropped
        if not is_told:
            allocator.reclaim = self._give_up
        # The longest unused first.
        self._units: OrderedDict[bytes, Unit] = OrderedDict()
        # Of a unit that is not the first of its prompts, the one before it.
        self._before: dict[bytes, bytes] = {}
        self.counts = PrefixCounts()

    def find(self, digests: Sequence[bytes]) -> list[Unit]:
        """The units with which a prompt of these digests begins, as many as there are."""
        found: list[Unit] = []
        for digest in digests:
            unit = self._units.get(digest)
            if unit is None:
                break
            found.append(unit)
        self._use(digests[: len(found)])
        return found

    def keep(self, digests: Sequence[bytes], unit: Unit) -> None:
        """Keeps the unit of the last digest; those of the others stand before it."""
        digest = digests[-1]
        if digest not in self._units:
            self._units[digest] = unit
            if len(digests) > 1:
                self._before[digest] = digests[-2]
            self._allocator.keep(unit.pages)
            self.counts.kept += 1
        self._use(digests)

    def drop(self, digests: Sequence[bytes]) -> None:
        """Gives up these units."""
        for digest in digests:
            self._allocator.give_up(self._units.pop(digest).pages)
            self._before.pop(digest, None)
        self.counts.given_up += len(digests)

    def clear(self) -> None:
        """Gives up every unit that no context uses."""
        self._give_up(self._allocator.page_count)

    def _use(self, digests: Sequence[bytes]) -> None:
        """The first one is the last to go."""
        for digest in reversed(digests):
            if digest in self._units:
                self._units.move_to_end(digest)

    def _give_up(self, pages: int) -> None:
        """Frees so many pages, if as many lie here unused."""
        wanted = max(pages, self._allocator.page_count // _AT_ONCE)
        going: list[bytes] = []
        for digest, unit in self._units.items():
            if wanted <= 0:
                break
            if self._allocator.is_only_kept(unit.pages):
                going.append(digest)
                wanted -= unit.pages.size
        going += self._behind(set(going))
        self.drop(going)
        if going and self._dropped is not None:
            self._dropped(going)

    def _behind(self, gone: set[bytes]) -> list[bytes]:
        """The units that are found through others of `gone`, which grows by them."""
        found: list[bytes] = []
        # A unit is used later than those behind it.
        for digest in reversed(self._units) if gone else ():
            if digest not in gone and self._before.get(digest) in gone:
                gone.add(digest)
                found.append(digest)
        return found


def digests_of(salt: str, rows: Sequence[NDArray[np.generic]], unit: int) -> list[bytes]:
    """A digest of each unit of a prompt and of all before it; `rows` are its values, [T, …]."""
    total = min(value.shape[0] for value in rows) // unit
    made = hashlib.blake2b(salt.encode(), digest_size=16)
    for value in rows:
        made.update(f"{value.dtype}{value.shape[1:]}".encode())
    digests = []
    for index in range(total):
        for value in rows:
            made.update(np.ascontiguousarray(value[index * unit : (index + 1) * unit]).tobytes())
        digests.append(made.digest())
    return digests
