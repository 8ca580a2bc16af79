"""The runtime cuts streams as the compiler's meaning does: one table holds both."""

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
    cutter = Cutter(runtime_policy(case))
    # The item before a mark, or that holds for `until`, ends its chunk.
    ending = {*case.stops, *(mark - 1 for mark in case.marks if mark)}
    found = []

    def take() -> None:
        while cutter.is_ready:
            chunk = cutter.take()
            first = chunk.offset + chunk.context
            repeated = tuple(range(chunk.offset, first))
            found.append((repeated, tuple(range(first, first + chunk.fresh)), chunk.padding))

    for start in range(0, case.count, portion):
        count = min(portion, case.count - start)
        cutter.put(count, [index for index in range(count) if start + index in ending])
        take()
    cutter.close()
    take()
    assert tuple(found) == case.chunks
    assert cutter.is_drained
