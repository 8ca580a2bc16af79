"""Traces tell what the interpreter does, in an order that shows streams at work."""

from collections import Counter
from pathlib import Path

import pytest

from mstarc.ir.interpret import Request, interpret
from mstarc.show.toy import MANY_EVENTS, toy_runs
from mstarc.show.trace import MOST_EVENTS, run_trace, shown
from tests.support.front_half import lowered
from tests.support.golden import ROOT
from tests.support.requests import requests_for
from tests.support.sound_programs import sound_program

SPECS = sorted((ROOT / "specs").glob("*.mstar"))


def test_a_window_is_read_as_soon_as_it_is_full() -> None:
    program = lowered((ROOT / "specs/orpheus.mstar").read_text(encoding="utf-8"))
    trace = run_trace(program, Request(inputs={"prompt": "hi"}, options={"max_tokens": 36}))
    sent = 0
    reads = []
    for event in trace.events:
        sent += event.kind == "send"
        if event.kind == "read":
            assert event.chunk is not None
            reads.append((sent, event.chunk.offset, event.chunk.context, event.chunk.fresh))
    assert reads == [(28, 0, 0, 28), (35, 7, 21, 7)]
    assert [event.kind for event in trace.events][-3:] == ["close", "done", "done"]


def test_who_waits_is_known() -> None:
    program = lowered((ROOT / "specs/orpheus.mstar").read_text(encoding="utf-8"))
    trace = run_trace(program, Request(inputs={"prompt": "hi"}, options={"max_tokens": 8}))
    sends = [event for event in trace.events if event.kind == "send"]
    assert all(event.waiting == ("vocoder",) for event in sends)


@pytest.mark.parametrize("seed", range(12))
def test_a_trace_does_what_interpretation_does(seed: int) -> None:
    program = sound_program(seed)
    for request in requests_for(program, 2, seed):
        trace, outcome = run_trace(program, request), interpret(program, request)
        if trace.is_cut:
            continue
        assert trace.error == outcome.error
        if outcome.error is not None:
            continue
        emitted = Counter(e.name for e in trace.events for _ in e.items if e.kind == "emit")
        assert emitted == {name: len(items) for name, items in outcome.emits.items() if items}
        sent = Counter(e.name for e in trace.events for _ in e.items if e.kind == "send")
        wanted = {name: len(h.items) for name, h in outcome.streams.items() if h.items}
        assert sent == wanted


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_the_toy_request_of_a_shipped_spec_shows_its_streams(path: Path) -> None:
    program = lowered(path.read_text(encoding="utf-8"))
    for run in toy_runs(program):
        assert run.trace.error is None
        assert not run.trace.stuck
        assert 0 < len(run.trace.events) <= MOST_EVENTS
    first = toy_runs(program)[0].trace
    assert len(first.events) <= 2 * MANY_EVENTS
    kinds = {event.kind for event in first.events}
    assert {"state", "call", "emit", "done"} <= kinds
    read = {event.name for event in first.events if event.kind in ("read", "pull")}
    assert read == {stream.name for stream in program.streams}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "none"),
        (True, "true"),
        (7, "7"),
        (123456, "#3456"),
        ((1, 2), "[1, 2]"),
        (tuple(range(28)), "[0, 1, … 28]"),
        ("hello", "hello"),
    ],
)
def test_values_are_short(value: object, text: str) -> None:
    assert shown(value) == text
