"""A plan of any sound program does what the program means, and is valid, formatted Python."""

import ast
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from mstarc.codegen.emit import render
from mstarc.deployment import parse_devices
from mstarc.diagnostics import DiagnosticSink
from mstarc.ir.graph import Program
from mstarc.ir.interpret import interpret
from mstarc.ir.text import print_program
from mstarc.passes import PassContext, run_pipeline
from mstarc.plan import build_plan
from mstarc.source import SourceFile
from tests.support.examples import examples
from tests.support.layouts import run_on
from tests.support.requests import requests_for
from tests.support.sound_programs import sound_program, sound_text
from tests.support.toy_ranks import run_plan

SEEDS = st.integers(0, 2**32)
PLACEMENTS = st.sampled_from(["cpu", "2xcpu", "3xcpu"])
# A rank with nothing to do.
REFUSED = {"MS0618"}


def files_of(seed: int, placement: str) -> dict[str, str] | None:
    """The plan of a random program; None where a rank has nothing to do."""
    sink = DiagnosticSink()
    source = SourceFile(path="sound.mir", text=sound_text(seed))
    context = PassContext(sink=sink, devices=parse_devices(placement))
    program = run_pipeline(sound_program(seed), context)
    if program is None:
        return None
    plan = build_plan([program], source, sink, version="0")
    if plan is None:
        assert {found.code for found in sink.diagnostics} <= REFUSED
        return None
    return render(plan, mir=print_program(program))


@settings(max_examples=examples(50), deadline=None)
@given(SEEDS, PLACEMENTS)
def test_plan_means_what_its_program_means(seed: int, placement: str) -> None:
    files = files_of(seed, placement)
    if files is not None:
        check_meaning(files, placement, sound_program(seed), seed)


def check_meaning(files: dict[str, str], placement: str, program: Program, seed: int) -> None:
    for number, request in enumerate(requests_for(program, 2, seed)):
        meant = interpret(program, request)
        if meant.error is not None:
            continue
        emits, streams = run_plan(
            files,
            placement,
            program,
            inputs=request.inputs,
            options=request.options,
            wants=request.wants,
            order=Random(seed + number),
        )
        assert emits == dict(meant.emits)
        assert all(items == meant.streams[name].items for name, items in streams.items())


@settings(max_examples=examples(50), deadline=None)
@given(SEEDS, SEEDS)
def test_a_plan_means_the_same_on_any_layout(seed: int, layout: int) -> None:
    program = sound_program(seed)
    placed = run_on(program, layout)
    if placed is None:
        return
    sink = DiagnosticSink()
    source = SourceFile(path="sound.mir", text=sound_text(seed))
    plan = build_plan([placed], source, sink, version="0")
    if plan is None:
        assert {found.code for found in sink.diagnostics} <= REFUSED
        return
    check_meaning(render(plan, mir=print_program(placed)), "toy", program, seed)


@settings(max_examples=examples(20), deadline=None)
@given(SEEDS, PLACEMENTS)
def test_generated_python_parses_and_keeps_its_lines_short(seed: int, placement: str) -> None:
    for name, text in (files_of(seed, placement) or {}).items():
        if name.endswith(".py"):
            ast.parse(text)
            assert all(len(line) <= 100 for line in text.splitlines())
            assert text.endswith("\n")
            assert not text.endswith("\n\n")
