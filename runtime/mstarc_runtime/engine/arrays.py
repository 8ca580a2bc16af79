"""Arrays of contexts: a call on n contexts of B requests is a call of B * n requests.

The cache knows each context by a name of its own, `dream[0]`, `dream[1]`, …; a request has as many
of them as it asked for, and the rest stay empty. Arguments that have an entry a context lose that
dim on the way in, what all contexts share is given to each, and results get the dim on the way out.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.errors import NoSuchContext
from mstarc_runtime.plan_api import ContextArray, Maybe

Index = int | Sequence[int] | None
Keys = NDArray[np.int64]


def context_names(contexts: Iterable[str], arrays: Mapping[str, ContextArray]) -> tuple[str, ...]:
    """The contexts of a slot by name, those of arrays one by one.

    >>> context_names(("main", "dream"), {"dream": ContextArray(count="n", most=2)})
    ('main', 'dream[0]', 'dream[1]')
    """
    names: list[str] = []
    for name in contexts:
        if name in arrays:
            names += [f"{name}[{at}]" for at in range(arrays[name].most)]
        else:
            names.append(name)
    return tuple(names)


class ContextArrays:
    """How many contexts of each array every slot has, and where they are in the cache."""

    def __init__(self, arrays: Mapping[str, ContextArray], cache: KVCache) -> None:
        self._arrays = arrays
        self._cache = cache
        self._counts = {name: np.zeros(cache.layout.slots, dtype=np.int64) for name in arrays}

    def __contains__(self, context: str) -> bool:
        return context in self._arrays

    def admit(self, slot: int, options: Mapping[str, Any]) -> None:
        """Gives a slot to a request: from its options follows how many contexts it has."""
        for name, array in self._arrays.items():
            count = array.count if isinstance(array.count, int) else int(options[array.count])
            assert 1 <= count <= array.most, f"{count} contexts `{name}` of at most {array.most}"
            self._counts[name][slot] = count

    def length(self, slots: NDArray[np.int64], context: str) -> int:
        """How many contexts each of `slots` has: as many, or they would not share a call."""
        counts = self._counts[context][slots]
        assert (counts == counts[0]).all(), f"requests with {counts.tolist()} contexts in one call"
        return int(counts[0])

    def names(self, slot: int, context: str, index: Index, row: int) -> list[str]:
        """The contexts of a slot that are meant; `row` is its place in `index`.

        Raises NoSuchContext.
        """
        if context not in self._arrays:
            return [context]
        count = int(self._counts[context][slot])
        if index is None:
            return [f"{context}[{at}]" for at in range(count)]
        at = index if isinstance(index, int) else index[row]
        if not 0 <= at < count:
            raise NoSuchContext(slot=slot, context=context, index=at, count=count)
        return [f"{context}[{at}]"]

    def keys(self, slots: NDArray[np.int64], context: str, index: Index) -> Keys:
        """The keys of the contexts that are meant, those of a slot beside one another."""
        if context not in self._arrays:
            return self._cache.tables.keys(slots, self._cache.context_index(context))
        if index is None:
            first = self._cache.context_index(f"{context}[0]")
            count = self.length(slots, context)
            keys = self._cache.tables.keys(slots, first)
            every: Keys = (keys[:, None] + np.arange(count)).reshape(-1)
            return every
        chosen = [
            self._cache.key(slot, name)
            for row, slot in enumerate(slots.tolist())
            for name in self.names(slot, context, index, row)
        ]
        return np.array(chosen, dtype=np.int64)


def spread(arguments: Sequence[Any], over: Sequence[str], count: int) -> list[Any]:
    """Arguments for a call of each context: `count` of them a request."""
    return [_spread(value, how, count) for value, how in zip(arguments, over, strict=True)]


def _spread(value: Any, how: str, count: int) -> Any:
    if isinstance(value, Maybe):
        there = value.there.repeat_interleave(count, dim=0)
        return Maybe(_spread(value.value, how, count), there)
    if not isinstance(value, Tensor) or value.dim() == 0:
        return value
    if how.startswith("each"):
        joined = value.flatten(0, 1)
    else:
        joined = value.repeat_interleave(count, dim=0)
    # Rows of one request's call: those of its contexts one behind the other.
    return joined.flatten(0, 1) if how.endswith("rows") else joined


def gathered(result: Any, rows: Sequence[int], count: int) -> Any:
    """Results with a leading dim of one entry a request, then one of the contexts'."""
    if isinstance(result, tuple):
        return tuple(_gathered(value, at in rows, count) for at, value in enumerate(result))
    return _gathered(result, 0 in rows, count)


def _gathered(value: Any, is_rows: bool, count: int) -> Any:
    if not isinstance(value, Tensor):
        return value
    each = value.unflatten(0, (count, -1)) if is_rows else value
    return each.unflatten(0, (-1, count))


def repeated(value: Any, times: int) -> Any:
    """An argument for several contexts, one whole batch behind the other."""
    if isinstance(value, Maybe):
        return Maybe(repeated(value.value, times), repeated(value.there, times))
    return torch.cat([value] * times) if isinstance(value, Tensor) else value


def parts_of(results: Any) -> tuple[Any, ...]:
    """The results of an op, however many it has."""
    return results if isinstance(results, tuple) else (results,)
