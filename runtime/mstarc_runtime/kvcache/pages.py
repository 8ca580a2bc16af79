"""Which pages are free, and how many contexts share each of the others."""

import numpy as np
from numpy.typing import NDArray

from mstarc_runtime.kvcache.errors import OutOfPages

Pages = NDArray[np.int32]


class PageAllocator:
    """A free list with reference counts. A page is free exactly when nobody references it."""

    def __init__(self, pages: int) -> None:
        self._free: Pages = np.arange(pages - 1, -1, -1, dtype=np.int32)
        self._free_count = pages
        self._references: NDArray[np.int32] = np.zeros(pages, dtype=np.int32)

    @property
    def free_count(self) -> int:
        return self._free_count

    @property
    def shared_count(self) -> int:
        """Pages that more than one context holds."""
        return int(np.count_nonzero(self._references > 1))

    def allocate(self, count: int) -> Pages:
        """`count` pages, referenced once each. Raises OutOfPages and takes none."""
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

    def is_shared(self, pages: Pages) -> NDArray[np.bool_]:
        """For each of `pages`, whether another context holds it too. The dummy page is not."""
        held = pages < self._references.size
        return held & (self._references[np.where(held, pages, 0)] > 1)
