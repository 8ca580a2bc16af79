"""Lets requests of one node use the pages of prompts that others have read.

A prompt's rows are a function of its tokens so far, where the plan says so (`Pieces.shared`). What
a run of the step has written is kept under what it was of; a request whose prompt begins with the
same tokens takes these pages, read-only, and reads the rest. Its samplers are told of the ids that
they would have been told of.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.fixed_calls import PromptsRead
from mstarc_runtime.engine.kv_cache import KVEngine
from mstarc_runtime.engine.op_plans import DEFAULT
from mstarc_runtime.engine.packed_context import PackedContext
from mstarc_runtime.kvcache.prefixes import PrefixIndex, Unit
from mstarc_runtime.plan_api import Pieces


class PromptSharing:
    """The prompts of one node on one rank, in units of `unit` rows: whole pages."""

    def __init__(self, engine: KVEngine, unit: int) -> None:
        layout = engine.cache.layout
        assert unit % layout.page_size == 0, f"{unit} rows are no whole pages"
        self.unit = unit
        self.index = PrefixIndex(engine.cache.tables.allocator)
        self._engine = engine
        self._pages = unit // layout.page_size

    def adopt(self, slot: int, pieces: Pieces, digests: Sequence[bytes], total: int) -> int:
        """Gives a request the units with which its prompt of `total` rows begins; their rows.

        At least one row is left to be read: what follows the prompt is of its last one.
        """
        cache = self._engine.cache
        digests = digests[: (total - 1) // self.unit]
        key = cache.key(slot, pieces.context)
        if cache.tables.page_counts[key] or slot in cache.aside:
            return 0
        self.index.counts.asked_rows += total
        units = self.index.find(digests)
        if not units:
            return 0
        cache.tables.adopt(key, np.concatenate([unit.pages for unit in units]))
        seen: dict[str, list[Tensor]] = {}
        for unit in units:
            for sampler, ids in unit.seen:
                seen.setdefault(sampler, []).append(ids)
        for sampler, parts in seen.items():
            told = torch.cat(parts)
            self._engine.samplers[sampler].observe(torch.full_like(told, slot), told)
        rows = len(units) * self.unit
        self.index.counts.found_rows += rows
        return rows

    def keep(self, batch: StepBatch, pieces: Pieces, row: int, digests: Sequence[bytes]) -> None:
        """Keeps the units that a run has filled of one of its requests."""
        made: PackedContext | PromptsRead | None = batch.contexts.get(
            (self._engine.name, pieces.context)
        )
        window = batch.windows[pieces.of[0]][row]
        key = self._engine.cache.key(batch.slot_list[row], pieces.context)
        tables = self._engine.cache.tables
        tables.prompts[key] = window.stop // self.unit * self.unit
        if made is None or tables.lengths[key] != window.stop:
            return
        begin, end = made.row_indptr[row : row + 2].tolist()
        own = self._engine.ops[pieces.op].sampler
        # A copy for all units: what the call was given is the next one's.
        seen = [(own if n == DEFAULT else n, ids[begin:end].clone()) for n, ids in made.observed]
        for number in range(window.start // self.unit, window.stop // self.unit):
            first = number * self.unit - window.start
            unit = Unit(
                pages=tables.table[key, number * self._pages : (number + 1) * self._pages].copy(),
                seen=tuple((name, ids[first : first + self.unit]) for name, ids in seen),
            )
            self.index.keep(digests[: number + 1], unit)
