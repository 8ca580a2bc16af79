"""The runtime cuts streams as the compiler's meaning does: one table holds both."""

from itertools import pairwise

import pytest

from mstarc.ir.text.lexer import Cursor
from mstarc.ir.text.parse_policies import parse_policy, parse_tail
from mstarc.source import SourceFile
from mstarc_runtime.plan_api import Policy
from mstarc_runtime.streaming.chunks import Cutter
from tests.support.chunk_cases import CHUNK_CASES, ChunkCase


def runtime_policy(case: ChunkCase) -> Policy:
    policy = parse_policy(Cursor(SourceFile(path="policy", text=case.policy)))
    tail = parse_tail(Cursor(SourceFile(path="tail", text=case.tail)))
    assert tail.value is None or isinstance(tail.value, int | float | str)
    return Policy(
        kind=policy.kind,
        size=policy.size,
        stride=policy.stride,
        context=policy.context,
        ramp=policy.ramp,
        tail=tail.kind,
        pad=tail.value,
    )


@pytest.mark.parametrize("portion", [1, 2, 100])
@pytest.mark.parametrize("case", CHUNK_CASES, ids=lambda c: f"{c.policy}-{c.tail}-{c.count}")
def test_chunks_are_those_worked_out_by_hand(case: ChunkCase, portion: int) -> None:
    policy = runtime_policy(case)
    cutter = Cutter(policy)
    found = []

    def take() -> None:
        while not cutter.cut_by(policy) and cutter.is_ready:
            chunk = cutter.take()
            first = chunk.offset + chunk.context
            repeated = tuple(range(chunk.offset, first))
            found.append((repeated, tuple(range(first, first + chunk.fresh)), chunk.padding))

    bounds = sorted({*range(0, case.count, portion), case.count, *case.marks})
    for start, end in pairwise(bounds):
        if start in case.marks:
            cutter.mark("end")
        cutter.put(end - start, [stop - start for stop in case.stops if start <= stop < end])
        take()
    cutter.close()
    take()
    assert tuple(found) == case.chunks
    assert cutter.is_drained
