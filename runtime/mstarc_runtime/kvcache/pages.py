"""Which pages are free, and how many contexts share each of the others."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mstarc_runtime.kvcache.errors import OutOfPages

Pages = NDArray[np.int32]


class PageAllocator:
    """A free list with reference counts. A page is free exactly when nobody references it.

    Contexts reference pages, and so does an index of prompts (`prefixes`), which `reclaim` asks to
    give up as many as are short.
    """

    def __init__(self, pages: int) -> None:
        self._free: Pages = np.arange(pages - 1, -1, -1, dtype=np.int32)
        self._free_count = pages
        self._references: NDArray[np.int32] = np.zeros(pages, dtype=np.int32)
        self._kept: NDArray[np.bool_] = np.zeros(pages, dtype=np.bool_)
        self.reclaim: Callable[[int], None] | None = None

    @property
    def page_count(self) -> int:
        return self._references.size

    @property
    def free_count(self) -> int:
        return self._free_count

    @property
    def held_count(self) -> int:
        """Pages that contexts hold."""
        return int(np.count_nonzero(self._references > self._kept))

    @property
    def shared_count(self) -> int:
        """Pages that more than one context holds."""
        return int(np.count_nonzero(self._references - self._kept > 1))

    @property
    def kept_count(self) -> int:
        """Pages that an index of prompts holds, and no context."""
        return int(np.count_nonzero(self._kept & (self._references == 1)))

    def allocate(self, count: int) -> Pages:
        """`count` pages, referenced once each. Raises OutOfPages and takes none."""
        if count > self._free_count and self.reclaim is not None:
            self.reclaim(count - self._free_count)
        if count > self._free_count:
            raise OutOfPages(needed=count, free=self._free_count, pool=self)
        left = self._free_count - count
        pages = self._free[left : self._free_count][::-1].copy()
        self._free_count = left
        self._references[pages] = 1
        return pages

    def retain(self, pages: Pages) -> None:
        """Counts one reference more on each of `pages`, which hold no page twice."""
        self._references[pages] += 1

    def release(self, pages: Pages) -> None:
        """Gives back one reference on each of `pages`, which hold no page twice."""
        references = self._references[pages] - 1
        assert references.size == 0 or references.min() >= 0, "a page was given back twice"
        self._references[pages] = references
        freed = pages[references == 0]
        self._free[self._free_count : self._free_count + freed.size] = freed
        self._free_count += freed.size

    def keep(self, pages: Pages) -> None:
        """The index of prompts references pages, which it does not yet."""
        assert not self._kept[pages].any(), "a page was kept twice"
        self.retain(pages)
        self._kept[pages] = True

    def give_up(self, pages: Pages) -> None:
        """It references them no more."""
        self._kept[pages] = False
        self.release(pages)

    def is_only_kept(self, pages: Pages) -> bool:
        """Whether nobody but the index references any of `pages`."""
        return bool((self._references[pages] == 1).all())

    def is_shared(self, pages: Pages) -> NDArray[np.bool_]:
        """For each of `pages`, whether another context holds it too. The dummy page is not."""
        held = pages < self._references.size
        return held & (self._references[np.where(held, pages, 0)] > 1)
