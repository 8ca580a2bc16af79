"""Passes keep the meaning of any sound program, and do their work once."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mstarc.deployment import parse_devices
from mstarc.diagnostics import DiagnosticSink
from mstarc.ir.graph import Program
from mstarc.ir.interpret import interpret
from mstarc.ir.text import parse_program, print_program
from mstarc.ir.verify import verify
from mstarc.passes import PIPELINE, PassContext, run_pass, run_pipeline
from mstarc.passes.place import placed_on
from tests.support.examples import examples
from tests.support.layouts import random_layout
from tests.support.requests import requests_for
from tests.support.sound_programs import sound_program

SEEDS = st.integers(0, 2**32)
PLACEMENTS = st.sampled_from(["cpu", "2xcpu", "3xcpu", "2xH200"])


def context_on(placement: str) -> PassContext:
    return PassContext(sink=DiagnosticSink(), devices=parse_devices(placement))


@settings(max_examples=examples(20), deadline=None)
@given(SEEDS, PLACEMENTS)
def test_each_pass_keeps_the_meaning_and_repeats_itself(seed: int, placement: str) -> None:
    program = sound_program(seed)
    context = context_on(placement)
    requests = list(requests_for(program, 2, seed))
    expected = [interpret(program, request) for request in requests]
    for entry in PIPELINE:
        after = run_pass(entry, program, context)
        assert after is not None
        assert run_pass(entry, after, context) == after
        assert parse_program(print_program(after)) == after
        if after.walks != program.walks or after.machines != program.machines:
            for request, outcome in zip(requests, expected, strict=True):
                assert interpret(after, request).is_same_as(outcome), entry.name
        program = after


@settings(max_examples=examples(30), deadline=None)
@given(SEEDS, SEEDS)
def test_each_pass_keeps_the_meaning_on_any_layout(seed: int, layout: int) -> None:
    program = sound_program(seed)
    context = PassContext(sink=DiagnosticSink())
    requests = list(requests_for(program, 2, seed))
    expected = [interpret(program, request) for request in requests]
    for entry in PIPELINE:
        if entry.name == "place":
            after: Program | None = placed_on(program, random_layout(program, layout))
            assert after is not None
            verify(after, stage="place")
            assert placed_on(after, random_layout(program, layout)) == after
        else:
            after = run_pass(entry, program, context)
            if after is None:
                assert {found.code for found in context.sink.diagnostics} == {"MS0615"}
                return
            assert run_pass(entry, after, context) == after
        assert parse_program(print_program(after)) == after
        for request, outcome in zip(requests, expected, strict=True):
            assert interpret(after, request).is_same_as(outcome), entry.name
        program = after


@settings(max_examples=examples(25), deadline=None)
@given(SEEDS, PLACEMENTS)
def test_turns_and_capacities_cannot_matter(seed: int, placement: str) -> None:
    program = run_pipeline(sound_program(seed), context_on(placement))
    assert program is not None
    for request in requests_for(program, 2, seed):
        expected = interpret(program, request)
        assert not expected.stuck
        for order in (None, Random(seed), Random(seed + 1)):
            actual = interpret(program, request, order=order, bounded=True)
            assert actual.is_same_as(expected)


@settings(max_examples=examples(15), deadline=None)
@given(SEEDS)
def test_the_order_of_nodes_does_not_change_who_is_together(seed: int) -> None:
    program = sound_program(seed)
    placed = run_pipeline(program, context_on("2xcpu"), stop_after="place")
    assert placed is not None
    assert placed.placement is not None
    again = run_pipeline(program, context_on("2xcpu"), stop_after="place")
    assert again == placed


@pytest.mark.parametrize("last", [entry.name for entry in PIPELINE])
def test_the_pipeline_stops_where_it_is_told(last: str) -> None:
    seen: list[str] = []
    run_pipeline(
        sound_program(1),
        context_on("cpu"),
        stop_after=last,
        observe=lambda name, program, seconds: seen.append(name),
    )
    names = [entry.name for entry in PIPELINE]
    assert seen == names[: names.index(last) + 1]
