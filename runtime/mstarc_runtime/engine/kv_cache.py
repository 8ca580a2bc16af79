"""The engine of nodes with KV contexts: their cache, samplers, and a context for each call.

`grow` makes room before a step is launched and counts the rows as written; an op then runs on the
context that its written cache prescribes. Rows of one step come either one a request (static shapes
for a bucket, capturable; calls that follow one another have a row each) or packed. What an op only
reads is attended beside its own rows, and nothing of them stays.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from mstarc_runtime.attention.backend import AttentionBackend
from mstarc_runtime.engine.arrays import (
    ContextArrays,
    Index,
    gathered,
    parts_of,
    repeated,
    spread,
)
from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.context import StepContext
from mstarc_runtime.engine.fixed_calls import FixedCalls
from mstarc_runtime.engine.op_graphs import OpGraphs
from mstarc_runtime.engine.op_plans import DEFAULT, OpPlan, sampling_settings
from mstarc_runtime.engine.op_results import OpResults
from mstarc_runtime.engine.packed_context import ArrayContext, PackedContext
from mstarc_runtime.engine.renewing import begin_anew
from mstarc_runtime.engine.spans import Span, span_of, spans_of
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.tables import CacheSnapshot
from mstarc_runtime.layers.sampler import SamplerState
from mstarc_runtime.layers.shard import WHOLE, Shard
from mstarc_runtime.plan_api import Sampler

_ONE = [1]


@dataclass(slots=True, kw_only=True)
class KVEngine:
    """A node with KV contexts on one rank."""

    name: str
    module: nn.Module
    cache: KVCache
    backend: AttentionBackend
    samplers: dict[str, SamplerState]
    settings: tuple[Sampler, ...]
    ops: Mapping[str, OpPlan]
    shard: Shard = WHOLE
    # The whole node's, of which the cache holds the shard's.
    kv_heads: int = 0
    arrays: ContextArrays
    # Of calls outside of regions; None where every call runs as it is.
    graphs: OpGraphs | None = None
    # What is known of the results of ops, by op.
    results: Mapping[str, OpResults] = field(default_factory=dict)
    _steps: dict[tuple[int, str, bool, int], StepContext] = field(default_factory=dict)
    _fixed: FixedCalls = field(init=False)
    # Of the step at hand, by context: calls that have begun, rows attended but not kept, where in
    # the cache they stand, and by how much positions move.
    _next: dict[str, int] = field(default_factory=dict)
    _peeked: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    _keys: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    _spans: dict[str, Span] = field(default_factory=dict)
    _peeked_spans: dict[str, Span] = field(default_factory=dict)
    _calls: dict[str, Callable[..., Any]] = field(default_factory=dict)
    # The tables' version at which a context was renewed, by bucket and context.
    _renewed: dict[tuple[int, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._fixed = FixedCalls(self.cache, self.backend, self.samplers)

    def grow(
        self,
        batch: StepBatch,
        rows: int | Sequence[int],
        context: str | None = None,
        advance: int | Sequence[int] | None = None,
        index: Index = None,
    ) -> None:
        """Raises OutOfPages or ContextFull; the rows that were counted are in `batch.growth`.

        Where `advance` says by how much positions move, they do so with a prompt's last piece.
        """
        name = context or self.cache.layout.contexts[0]
        if batch.step.rows == "fixed":
            mirror = self._fixed.prepare(batch, rows, name, keep=True)
            batch.step_contexts[(self.name, name, 0)] = mirror
            assert isinstance(rows, int), f"step {batch.step.name}: requests of a step are alike"
            batch.growth[(self.name, name)] = [rows]
            return
        if batch.step.rows == "one":
            assert isinstance(rows, int), f"step {batch.step.name}: requests of a step are alike"
            assert advance in (None, rows), f"step {batch.step.name}: positions move with rows"
            self._count_steps(batch, rows, name)
            return
        keys, counts = self._room(batch, rows, name, index)
        batch.growth[(self.name, name)] = counts.tolist()
        moves = 0 if advance is not None and batch.is_partial else advance
        self._spans[name] = span_of(moves, keys.size // batch.size)

    def _room(
        self, batch: StepBatch, rows: int | Sequence[int], context: str, index: Index
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where a packed call's rows stand, and how many of them there: there is room."""
        keys = self._keys[context] = self.arrays.keys(batch.slots, context, index)
        each = np.array([rows] * batch.size if isinstance(rows, int) else rows, dtype=np.int64)
        counts = np.repeat(each, keys.size // batch.size)
        self.cache.ensure(keys, counts)
        return keys, counts

    def peek(
        self,
        batch: StepBatch,
        rows: int | Sequence[int],
        context: str | None = None,
        advance: int | Sequence[int] | None = None,
        index: Index = None,
    ) -> None:
        """Raises OutOfPages or ContextFull, and then nothing was changed."""
        name = context or self.cache.layout.contexts[0]
        if batch.step.rows == "fixed":
            self._fixed.prepare(batch, rows, name, keep=False)
            return
        if batch.step.rows == "one":
            assert rows == 1, f"step {batch.step.name}: one row is attended and not kept"
            self._step_context(batch.bucket, name, keep=False).prepare(batch.slots)
            return
        keys, self._peeked[name] = self._room(batch, rows, name, index)
        self._peeked_spans[name] = span_of(advance, keys.size // batch.size)

    def fork(
        self,
        batch: StepBatch,
        source: str,
        target: str,
        source_index: Index = None,
        target_index: Index = None,
    ) -> None:
        """Lets `target` hold what `source` holds, copy-on-write."""
        batch.moves_contexts = True
        for row, slot in enumerate(batch.slot_list):
            sources = self.arrays.names(slot, source, source_index, row)
            targets = self.arrays.names(slot, target, target_index, row)
            if len(sources) == 1:
                sources *= len(targets)
            for one, other in zip(sources, targets, strict=True):
                self.cache.fork(slot, one, other)

    def clear(self, batch: StepBatch, context: str, index: Index = None) -> None:
        """Empties a context.

        Of a step that goes on by itself on the device it is filled again at once (`grow`).
        """
        if isinstance(batch, StepBatch) and batch.log is not None:
            batch.renewed.add((self.name, context))
            return
        batch.moves_contexts = True
        for row, slot in enumerate(batch.slot_list):
            for name in self.arrays.names(slot, context, index, row):
                self.cache.release(slot, name)

    def shrink(self, batch: StepBatch) -> None:
        """Takes back the rows that `grow` has counted, for a step that did not run through."""
        for (name, context), counts in batch.growth.items():
            is_static = batch.step.rows in ("one", "fixed")
            is_counted = is_static or (name, context) in batch.contexts
            if name == self.name and is_counted and not self._is_renewed(batch, context):
                keys = self.arrays.keys(batch.slots, context, None)
                keys = keys if is_static else self._keys[context]
                span = None if is_static else self._spans.get(context)
                back = None if span is None else -span
                self.cache.advance(keys, -np.array(counts, dtype=np.int64) * batch.passes, back)

    def take_back(self, slots: NDArray[np.int64], context: str, rows: NDArray[np.int64]) -> None:
        """Takes back so many rows of each of `slots` that were counted and not written."""
        self.cache.advance(self.arrays.keys(slots, context, None), -rows)

    def _count_steps(self, batch: StepBatch, rows: int, context: str) -> None:
        """One more row for each call of the step that follows on a context, in their order."""
        if self._is_renewed(batch, context):
            self._renew(batch, rows, context)
            return
        before = batch.growth.get((self.name, context), [0])[0]
        self._next[context] = 0
        for ordinal in range(before, before + rows):
            made = self._step_context(batch.bucket, context, ordinal=ordinal)
            made.prepare(batch.slots, batch.passes)
            batch.step_contexts[(self.name, context, ordinal)] = made
            batch.growth[(self.name, context)] = [ordinal + 1]

    def _is_renewed(self, batch: StepBatch, context: str) -> bool:
        return isinstance(batch, StepBatch) and (self.name, context) in batch.renewed

    def _renew(self, batch: StepBatch, rows: int, context: str) -> None:
        """A row for each call of the step on a context that begins anew.

        While nothing else has touched them, they are where they were in the pass before.
        """
        calls = [
            self._step_context(batch.bucket, context, ordinal=ordinal) for ordinal in range(rows)
        ]
        self._next[context] = 0
        key = (batch.bucket, context)
        tables = self.cache.tables
        lengths = tables.lengths[self.arrays.keys(batch.slots, context, None)]
        is_there = self._renewed.get(key) == tables.version and (lengths == rows).all()
        if not (is_there and all(call.is_of(batch.slots) for call in calls)):
            self._renewed.pop(key, None)
            begin_anew(self.cache, batch, context, calls)
            self._renewed[key] = tables.version
        for ordinal, call in enumerate(calls):
            batch.step_contexts[(self.name, context, ordinal)] = call
        batch.growth[(self.name, context)] = [rows]

    def admit(self, slot: int, options: Mapping[str, Any], seed: int) -> None:
        """Gives a slot to a request: its sampler settings and seed."""
        self.arrays.admit(slot, options)
        for sampler in self.settings:
            self.samplers[sampler.name].admit(slot, sampling_settings(sampler, options, seed))

    def export(self, slot: int, context: str) -> Tensor:
        """A copy of a context with the heads of the whole node: [2, layers, rows, heads, dim]."""
        return self.shard.gather_heads(self.cache.rows_of(slot, context), self.kv_heads)

    def replace(self, slot: int, context: str, rows: Tensor, position: int) -> None:
        """Makes `rows`, as `export` gives them, the content of a context.

        Raises OutOfPages or ContextFull, and then the context is empty.
        """
        start, stop = self.shard.kv_heads(self.kv_heads)
        self.cache.replace(slot, context, rows[..., start:stop, :], position)

    def release_context(self, slot: int, context: str) -> None:
        self.cache.release(slot, context)

    def set_aside(self, slot: int) -> None:
        """Moves a slot's pages to host memory."""
        self.cache.set_aside(slot)

    def bring_back(self, slot: int) -> None:
        """Undoes it. Raises OutOfPages, and then nothing was changed."""
        self.cache.bring_back(slot)

    def restore_sampler(self, slot: int, name: str, draws: int, seen: Tensor | None) -> None:
        """Lets a sampler go on where another rank's has come to."""
        self.samplers[name].restore(slot, draws, seen)

    def release(self, slot: int) -> None:
        self.cache.release_slot(slot)

    def holders(self) -> list[int]:
        """The slots that have pages."""
        return self.cache.holders()

    def snapshot(self) -> CacheSnapshot:
        return self.cache.snapshot()

    def __getattr__(self, op: str) -> Callable[..., Any]:
        calls: dict[str, Callable[..., Any]] = object.__getattribute__(self, "_calls")
        call = calls.get(op)
        if call is None:
            if op.startswith("_") or not hasattr(self.module, op):
                raise AttributeError(op)
            call = calls[op] = self._make_call(op)
        return call

    def _make_call(self, op: str) -> Callable[..., Any]:
        plain: Callable[..., Any] = getattr(self.module, op)
        results = self.results.get(op)
        method = plain if results is None else results.checked(plain)
        plan = self.ops[op]

        samplers, own, named = self.samplers, self.samplers[plan.sampler], (op, method)
        by_shape = getattr(self.module, "by_shape", ()) if self.graphs is not None else ()

        def call(
            batch: StepBatch,
            *arguments: Tensor,
            context: str | None = None,
            over: Sequence[str] | None = None,
            rows: Sequence[int] = (),
            partial: bool = False,
            contexts: Sequence[str] = (),
        ) -> Any:
            samplers[DEFAULT] = own
            if contexts:
                return self._run_together(batch, method, plan, contexts, arguments)
            written = plan.context if context is None else context
            if over is not None:
                count = self.arrays.length(batch.slots, written)
                whole = self._packed_context(batch, written, plan, count)
                given = gathered(plain(whole, *spread(arguments, over, count)), rows, count)
                if results is not None:
                    results.check(given, arguments, leading=2)
                return given
            if batch.step.rows == "fixed":
                fixed = self._fixed.context(batch.bucket, written, plan.mask, keep=plan.keep)
                return method(fixed, *arguments)
            if batch.step.rows != "one":
                # Of prompts the rows stay, in one context a request.
                is_of_prompts = plan.keep and written not in self.arrays
                if op in by_shape and not partial and is_of_prompts:
                    counts, span = batch.growth[(self.name, written)], self._spans.get(written)
                    assert self.graphs is not None
                    read = self._fixed.run_prompts(
                        self.graphs, batch, named, written, counts, plan.mask, arguments, span
                    )
                    if read is not None:
                        batch.contexts[(self.name, written)] = read
                        return read.given
                whole = self._packed_context(batch, written, plan)
                whole.is_partial = partial
                return method(whole, *arguments)
            ordinal = 0
            if plan.keep:
                # A region is run more than once on what was made ready once.
                calls = batch.growth[(self.name, written)][0]
                ordinal = self._next[written] % calls
                self._next[written] = ordinal + 1
            made = self._step_context(batch.bucket, written, keep=plan.keep, ordinal=ordinal)
            return method(made, *arguments)

        return call

    def _run_together(
        self,
        batch: StepBatch,
        method: Callable[..., Any],
        plan: OpPlan,
        contexts: Sequence[str],
        arguments: Sequence[Any],
    ) -> tuple[Any, ...]:
        """The results of one context after another, whose rows are one batch."""
        assert not plan.keep, "what is called together reads its contexts"
        if self.backend.row_by_row:
            # There a request's bits depend on how many rows a product has.
            given = [
                method(self._packed_context(batch, context, plan), *arguments)
                for context in contexts
            ]
            return tuple(part for each in given for part in parts_of(each))
        made = PackedContext(
            cache=self.cache,
            backend=self.backend,
            samplers=self.samplers,
            slots=np.tile(batch.slots, len(contexts)),
            counts=np.concatenate([self._peeked[context] for context in contexts]),
            keys=np.concatenate([self._keys[context] for context in contexts]),
            mask=plan.mask,
            keep=False,
            span=spans_of([self._peeked_spans[context] for context in contexts], batch.size),
        )
        results = parts_of(method(made, *(repeated(a, len(contexts)) for a in arguments)))
        of_each = zip(*(result.chunk(len(contexts)) for result in results), strict=True)
        return tuple(part for parts in of_each for part in parts)

    def _step_context(
        self, bucket: int, context: str, *, keep: bool = True, ordinal: int = 0
    ) -> StepContext:
        made = self._steps.get((bucket, context, keep, ordinal))
        if made is None:
            made = StepContext(
                cache=self.cache,
                backend=self.backend,
                samplers=self.samplers,
                bucket=bucket,
                context=context,
                keep=keep,
                ordinal=ordinal,
            )
            self._steps[(bucket, context, keep, ordinal)] = made
        return made

    def _packed_context(
        self, batch: StepBatch, context: str, plan: OpPlan, count: int | None = None
    ) -> PackedContext:
        """The context of a packed call; with `count`, on so many contexts of each request."""
        counts = np.array(batch.growth[(self.name, context)], dtype=np.int64) if plan.keep else None
        given: dict[str, Any] = {
            "cache": self.cache,
            "backend": self.backend,
            "samplers": self.samplers,
            "slots": np.repeat(batch.slots, count or 1),
            "counts": self._peeked[context] if counts is None else counts,
            "keys": self._keys[context],
            "mask": plan.mask,
            "keep": plan.keep,
            "span": (self._spans if plan.keep else self._peeked_spans).get(context),
        }
        made = PackedContext(**given) if count is None else ArrayContext(count=count, **given)
        if plan.keep:
            batch.contexts[(self.name, context)] = made
        return made
