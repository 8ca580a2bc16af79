"""What each chunk policy hands over."""

import pytest

from mstarc.ir.chunks import Chunk, Closed, Cursor, History, Marked, next_event, next_item
from mstarc.ir.graph import Policy, Tail
from mstarc.ir.text.lexer import Cursor as Tokens
from mstarc.ir.text.parse_policies import parse_policy, parse_tail
from mstarc.source import SourceFile
from tests.support.chunk_cases import CHUNK_CASES, ChunkCase


def policy_of(text: str) -> Policy:
    return parse_policy(Tokens(SourceFile(path="policy", text=text)))


def tail_of(text: str) -> Tail:
    return parse_tail(Tokens(SourceFile(path="tail", text=text)))


@pytest.mark.parametrize("case", CHUNK_CASES, ids=lambda c: f"{c.policy}-{c.tail}-{c.count}")
def test_chunks_are_those_worked_out_by_hand(case: ChunkCase) -> None:
    history = History(
        items=list(range(case.count)), marks=[(at, "end") for at in case.marks], closed=True
    )
    policy, tail = policy_of(case.policy), tail_of(case.tail)
    cursor, found, marks = Cursor(), [], []
    while True:
        event = next_event(policy, tail, cursor, history, lambda item: item in case.stops)
        assert event is not None
        step, cursor = event
        if isinstance(step, Closed):
            break
        if isinstance(step, Marked):
            marks.append(step.mark)
            continue
        first = step.offset + step.context
        repeated = tuple(history.items[step.offset : first])
        found.append((repeated, tuple(history.items[first : first + step.fresh]), step.padding))
    assert tuple(found) == case.chunks
    assert len(marks) == len(case.marks)
    assert next_event(policy, tail, cursor, history) == (Closed(), cursor)


def test_a_pull_takes_what_no_read_has_handed_over() -> None:
    history = History(items=[10, 11, 12, 13, 14])
    policy = Policy(kind="sliding", size=4, stride=2)
    found = next_event(policy, None, Cursor(), history)
    assert found is not None
    pulled = next_item(found[1], history)
    assert pulled is not None
    assert pulled[0] == Chunk(offset=4, context=0, fresh=1)
    assert next_item(pulled[1], history) is None
    history.closed = True
    closed = next_item(pulled[1], history)
    assert closed is not None
    assert closed[0] == Closed()
