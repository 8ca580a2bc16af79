"""What a request has in a node's contexts, taken from one rank and put down on another.

A context goes as the rows that are written, keys and values of all heads, and the position that
comes next; a sampler as its count of draws and the ids it has seen. Whoever puts a context down
takes pages for it first. Parts of a group each take, or give, their own heads.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from mstarc_runtime.engine.kv_cache import KVEngine

SAMPLER = "sampler:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Luggage:
    """One context, `rows` [2, layers, n, kv_heads, head_dim] and the next position; or a sampler
    (`sampler:NAME`), `rows` bool[vocab] of seen ids and the number of draws."""

    context: str
    rows: Tensor | None
    position: int


def pick_up(engine: KVEngine, slot: int, context: str) -> Iterator[Luggage]:
    """What a slot has here of a context, of all of an array, or of a sampler; then it has nothing.

    Nothing of what is empty.
    """
    if context.startswith(SAMPLER):
        drawn = engine.samplers[context.removeprefix(SAMPLER)].state(slot)
        if drawn is not None:
            engine.restore_sampler(slot, context.removeprefix(SAMPLER), 0, None)
            yield Luggage(context=context, rows=drawn[1], position=drawn[0])
        return
    for name in engine.arrays.names(slot, context, None, 0):
        if engine.cache.holds(slot, name):
            position = engine.cache.position(slot, name)
            rows = engine.export(slot, name)
            engine.release_context(slot, name)
            yield Luggage(context=name, rows=rows, position=position)


def put_down(engine: KVEngine, slot: int, luggage: Luggage) -> None:
    """Makes it the slot's. Raises OutOfPages or ContextFull, and then the context is empty."""
    if luggage.context.startswith(SAMPLER):
        name = luggage.context.removeprefix(SAMPLER)
        engine.restore_sampler(slot, name, luggage.position, luggage.rows)
        return
    assert luggage.rows is not None, "a context travels with its rows"
    engine.replace(slot, luggage.context, luggage.rows, luggage.position)
