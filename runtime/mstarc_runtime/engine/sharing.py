"""Lets requests of one node use the pages of prompts that others have read.

A prompt's rows are a function of its tokens so far, where the plan says so (`Pieces.shared`). What
a run of the step has written is kept under what it was of; a request whose prompt begins with the
same tokens takes these pages, read-only, and reads the rest. Its samplers are told of the ids that
they would have been told of. Ranks that hold other parts of the node do the same.
"""

from collections.abc import Sequence

from torch import Tensor

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.fixed_calls import PromptsRead
from mstarc_runtime.engine.kv_cache import KVEngine
from mstarc_runtime.engine.mirroring import LeadingKVEngine, packed_digests
from mstarc_runtime.engine.op_plans import DEFAULT
from mstarc_runtime.engine.packed_context import PackedContext
from mstarc_runtime.engine.prompt_units import PromptUnits
from mstarc_runtime.plan_api import Pieces


class PromptSharing:
    """The prompts of one node on the rank of its steps, in units of `unit` rows: whole pages."""

    def __init__(self, engine: KVEngine, unit: int) -> None:
        layout = engine.cache.layout
        assert unit % layout.page_size == 0, f"{unit} rows are no whole pages"
        self.unit = unit
        self._engine = engine
        self._followers = engine.followers if isinstance(engine, LeadingKVEngine) else None
        self._units = PromptUnits(engine, dropped=self._tell_dropped)
        self.index = self._units.index

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
        count = self._units.take(slot, pieces.context, digests)
        if count and self._followers is not None:
            given = (slot, pieces.context, packed_digests(digests[:count]))
            self._followers.note("take_units", given, {})
        self.index.counts.found_rows += count * self.unit
        return count * self.unit

    def keep(self, batch: StepBatch, pieces: Pieces, row: int, digests: Sequence[bytes]) -> None:
        """Keeps the units that a run has filled of one of its requests."""
        made: PackedContext | PromptsRead | None = batch.contexts.get(
            (self._engine.name, pieces.context)
        )
        window = batch.windows[pieces.of[0]][row]
        slot, context = batch.slot_list[row], pieces.context
        whole = window.stop // self.unit * self.unit
        self._units.whole(slot, context, whole)
        if self._followers is not None:
            self._followers.note("whole_units", (slot, context, whole), {})
        if made is None or self._engine.cache.length(slot, context) != window.stop:
            return
        begin, end = made.row_indptr[row : row + 2].tolist()
        own = self._engine.ops[pieces.op].sampler
        # A copy for all units: what the call was given is the next one's.
        seen: list[tuple[str, Tensor]] = [
            (own if n == DEFAULT else n, ids[begin:end].clone()) for n, ids in made.observed
        ]
        read = (window.start, window.stop)
        self._units.hold(slot, context, self.unit, read, digests, seen)
        if self._followers is not None and window.start // self.unit < window.stop // self.unit:
            given = (slot, context, self.unit, list(read), packed_digests(digests))
            names, ids = [name for name, _ in seen], [ids for _, ids in seen]
            self._followers.note("hold_units", (*given, names, *ids), {})

    def _tell_dropped(self, digests: Sequence[bytes]) -> None:
        if self._followers is not None:
            self._followers.note("drop_units", (packed_digests(digests),), {})
