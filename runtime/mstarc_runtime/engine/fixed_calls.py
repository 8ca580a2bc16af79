"""Calls of one node with as many rows a request in each: where they stand, and their contexts.

What a call has is known by its bucket, its context, whether its rows stay, and how many they are;
so arrays and contexts are made once and found again, by regions that were captured with them too.
A prompt of one request whose op is run `by_shape` is such a call, in a bucket of one.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from mstarc_runtime.attention.backend import AttentionBackend
from mstarc_runtime.attention.mask import Mask
from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.context import FixedContext
from mstarc_runtime.engine.op_graphs import OpGraphs
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.fixed import FixedRows
from mstarc_runtime.kvcache.mirror import FixedMirror
from mstarc_runtime.layers.sampler import SamplerState

Key = tuple[int, str, bool, int]
"""Bucket, context, whether rows stay, rows a request."""


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

    def run_prompt(
        self,
        graphs: OpGraphs,
        batch: StepBatch,
        op: tuple[str, Callable[..., Any]],
        context: str,
        each: int,
        mask: Mask,
        arguments: Sequence[Tensor],
    ) -> tuple[FixedRows, Any]:
        """Counts the rows of a prompt of one request, and runs the op by its shape."""
        name, method = op
        key = (1, context, True, each)
        rows, mirror = self._of(key)
        rows.prepare(batch.slots)
        mirror.update()

        def make() -> Callable[..., Any]:
            whole = self._made(key, mask)
            return lambda *taken: method(whole.begin(), *taken)

        return rows, graphs.run(name, (context, each), arguments, make)

    def _of(self, key: Key) -> tuple[FixedRows, FixedMirror]:
        made = self._rows.get(key)
        if made is None:
            bucket, context, keep, each = key
            rows = self._cache.fixed_rows(bucket, context, each=each, keep=keep)
            mirror = FixedMirror(rows, self._cache.device, self._cache.layout)
            made = self._rows[key] = (rows, mirror)
        return made

    def _made(self, key: Key, mask: Mask) -> FixedContext:
        rows, mirror = self._of(key)
        return FixedContext(
            cache=self._cache,
            backend=self._backend,
            samplers=self._samplers,
            rows=rows,
            mirror=mirror,
            mask=mask,
        )
