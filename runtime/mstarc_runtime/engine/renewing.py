"""A context that each pass fills again is emptied, and every call on it has a row of its own."""

from collections.abc import Sequence

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.context import StepContext
from mstarc_runtime.kvcache.cache import KVCache


def begin_anew(
    cache: KVCache, batch: StepBatch, context: str, calls: Sequence[StepContext]
) -> None:
    """Raises what making room raises, and then the context is empty."""
    for slot in batch.slot_list:
        cache.release(slot, context)
    try:
        for call in calls:
            call.share_slots(calls[0])
            call.prepare(batch.slots)
    except Exception:
        for slot in batch.slot_list:
            cache.release(slot, context)
        raise
