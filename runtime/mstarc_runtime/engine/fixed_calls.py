"""Calls of one node with as many rows a request in each: where they stand, and their contexts.

What a call has is known by its bucket, its context, whether its rows stay, and how many they are;
so arrays and contexts are made once and found again, by regions that were captured with them too.
Prompts whose op is run `by_shape` are such calls: padded to as many rows, or one prompt by itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mstarc_runtime.attention.backend import AttentionBackend
from mstarc_runtime.attention.mask import Mask
from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.context import FixedContext
from mstarc_runtime.engine.op_graphs import OpGraphs
from mstarc_runtime.engine.padded_prompts import PaddedPrompts
from mstarc_runtime.engine.spans import Span
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.fixed import FixedRows
from mstarc_runtime.kvcache.mirror import FixedMirror
from mstarc_runtime.layers.sampler import SamplerState

Key = tuple[int, str, bool, int]
"""Bucket, context, whether rows stay, rows a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptsRead:
    """What a call on prompts has given, and what samplers were told of its rows: an id each.

    `row_indptr` i64[B + 1] cuts the rows by request.
    """

    given: Any
    row_indptr: NDArray[np.int64]
    observed: Sequence[tuple[str, Tensor]] = ()


class FixedCalls:
    """The calls of one node."""

    def __init__(
        self,
        cache: KVCache,
        backend: AttentionBackend,
        samplers: Mapping[str, SamplerState],
    ) -> None:
        self._cache = cache
        self._backend = backend
        self._samplers = samplers
        self._rows: dict[Key, tuple[FixedRows, FixedMirror]] = {}
        self._contexts: dict[tuple[Key, Mask], FixedContext] = {}
        # By op and key: the samplers that it tells of its rows.
        self._told: dict[tuple[str, Key], list[str]] = {}
        # Of the step at hand, by context.
        self._each: dict[str, int] = {}

    def prepare(
        self, batch: StepBatch, rows: int | Sequence[int], context: str, *, keep: bool
    ) -> FixedMirror:
        """Makes room for as many rows of each request, and says where they are.

        Raises OutOfPages or ContextFull, and then nothing was changed.
        """
        assert isinstance(rows, int), f"step {batch.step.name}: requests of a step are alike"
        arrays, mirror = self._of((batch.bucket, context, keep, rows))
        self._each[context] = rows
        arrays.prepare(batch.slots, batch.passes)
        mirror.update()
        return mirror

    def context(self, bucket: int, context: str, mask: Mask, *, keep: bool) -> FixedContext:
        """The context of a call that was prepared, for one run of it."""
        key = (bucket, context, keep, self._each[context])
        made = self._contexts.get((key, mask))
        if made is None:
            made = self._contexts[(key, mask)] = self._made(key, mask)
        return made.begin()

    def run_prompts(
        self,
        graphs: OpGraphs,
        batch: StepBatch,
        op: tuple[str, Callable[..., Any]],
        context: str,
        counts: Sequence[int],
        mask: Mask,
        arguments: Sequence[Any],
        span: Span = None,
    ) -> PromptsRead | None:
        """Counts the rows of prompts, and runs the op by its shape. Positions move by `span`, or by
        the rows.

        None where that has none: several prompts that are long, or of which it takes more than
        rows. Nothing was changed then.
        """
        whole = np.array(counts, dtype=np.int64)
        padded = PaddedPrompts.of(whole, self._cache.device)
        if padded is not None and padded.takes(arguments):
            taken = [padded.padded(rows) for rows in arguments]
        elif batch.size == 1:
            padded, taken = None, list(arguments)
        else:
            return None
        bucket, each = (1, counts[0]) if padded is None else (padded.bucket, padded.each)
        name, method = op
        key = (bucket, context, True, each)
        rows, mirror = self._of(key)
        rows.prepare(batch.slots, counts=whole, span=span)
        mirror.update()
        told = self._told.setdefault((name, key), [])

        def make() -> Callable[..., Any]:
            made = self._made(key, mask, stands=span is not None)

            def call(*taken: Any) -> Any:
                given = method(made.begin(), *taken)
                told[:] = [sampler for sampler, _ in made.observed]
                return given, [ids for _, ids in made.observed]

            return call

        given, ids = graphs.run(name, key, taken, make, comes_again=padded is not None)
        if padded is not None:
            given, ids = padded.cut(given), padded.cut(ids)
        return PromptsRead(
            given=given,
            row_indptr=np.append(0, np.cumsum(whole)),
            observed=tuple(zip(told, ids, strict=True)),
        )

    def _of(self, key: Key) -> tuple[FixedRows, FixedMirror]:
        made = self._rows.get(key)
        if made is None:
            bucket, context, keep, each = key
            rows = self._cache.fixed_rows(bucket, context, each=each, keep=keep)
            mirror = FixedMirror(rows, self._cache.device, self._cache.layout)
            made = self._rows[key] = (rows, mirror)
        return made

    def _made(self, key: Key, mask: Mask, *, stands: bool = False) -> FixedContext:
        rows, mirror = self._of(key)
        return FixedContext(
            cache=self._cache,
            backend=self._backend,
            samplers=self._samplers,
            rows=rows,
            mirror=mirror,
            mask=mask,
            stands=stands,
        )
