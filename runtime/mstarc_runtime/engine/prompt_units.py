"""What one rank holds of the prompts of a node: units by their digest, in pages of its cache.

Of a node that is cut over ranks each holds its part of the same units. The leader alone looks for
prompts and gives units up; the others are told of each (`mirroring`), in the order in which it was
done, so that all have the same units and the same pages free.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from mstarc_runtime.engine.kv_cache import KVEngine
from mstarc_runtime.kvcache.prefixes import PrefixIndex, Unit

Seen = Sequence[tuple[str, Tensor]]


class PromptUnits:
    """The units of one node on one rank. `dropped` hears of those that were given up; a rank that
    is told which ones go gives up none by itself."""

    def __init__(
        self,
        engine: KVEngine,
        *,
        is_told: bool = False,
        dropped: Callable[[Sequence[bytes]], None] | None = None,
    ) -> None:
        allocator = engine.cache.tables.allocator
        self.index = PrefixIndex(allocator, is_told=is_told, dropped=dropped)
        self._engine = engine

    def take(self, slot: int, context: str, digests: Sequence[bytes]) -> int:
        """Gives an empty context those units with which `digests` begin; how many there are."""
        units = self.index.find(digests)
        if not units:
            return 0
        cache = self._engine.cache
        pages = np.concatenate([unit.pages for unit in units])
        cache.tables.adopt(cache.key(slot, context), pages)
        seen: dict[str, list[Tensor]] = {}
        for unit in units:
            for sampler, ids in unit.seen:
                seen.setdefault(sampler, []).append(ids)
        for sampler, parts in seen.items():
            told = torch.cat(parts)
            self._engine.samplers[sampler].observe(torch.full_like(told, slot), told)
        return len(units)

    def hold(
        self,
        slot: int,
        context: str,
        unit: int,
        read: tuple[int, int],
        digests: Sequence[bytes],
        seen: Seen,
    ) -> None:
        """Keeps the units of `unit` rows that a run has filled of a prompt: rows from `read[0]` to
        below `read[1]`, of which samplers were told the ids `seen`; nothing if these are none."""
        cache = self._engine.cache
        key, size = cache.key(slot, context), unit // cache.layout.page_size
        tables = cache.tables
        start, stop = read
        for number in range(start // unit, stop // unit):
            first = number * unit - start
            made = Unit(
                pages=tables.table[key, number * size : (number + 1) * size].copy(),
                seen=tuple((name, ids[first : first + unit]) for name, ids in seen),
            )
            self.index.keep(digests[: number + 1], made)

    def whole(self, slot: int, context: str, rows: int) -> None:
        """With how many rows a context begins that may be in pages of others as well."""
        cache = self._engine.cache
        cache.tables.prompts[cache.key(slot, context)] = rows
