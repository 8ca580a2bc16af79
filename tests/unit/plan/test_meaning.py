"""A plan means what its program means: generated ranks over toys give what `interpret` gives."""

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from mstarc import driver
from mstarc.ir.interpret import Request, interpret
from mstarc.ir.interpret.toys import landmarks
from mstarc.ir.text import parse_program
from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from tests.support.golden import ROOT
from tests.support.toy_ranks import run_plan
from tests.support.toy_specs import SPLITS, Toy, compile_toy
from tests.unit.plan import toys_of_loops, toys_of_streams, toys_of_values

TOYS = (*toys_of_loops.TOYS, *toys_of_streams.TOYS, *toys_of_values.TOYS)


@pytest.mark.parametrize("toy", TOYS, ids=lambda toy: toy.name)
def test_plan_means_what_its_program_means(toy: Toy) -> None:
    outcome = compile_toy(toy.text, tuple(SPLITS))
    assert outcome.files is not None, [(d.code, d.message) for d in outcome.diagnostics]
    for name in SPLITS:
        check(outcome.files, name, toy.options, mixed=toy.mixed)


def test_voice_chat_means_what_its_program_means() -> None:
    path = "specs/voice_chat.mstar"
    spec = SourceFile(path=path, text=(ROOT / path).read_text(encoding="utf-8"))
    placements = ("cpu", "2xcpu", "3xcpu")
    outcome = driver.compile_spec(spec, CompileOptions(placements=placements))
    assert outcome.files is not None
    for placement in placements:
        check(outcome.files, placement, ({}, {"max_tokens": 1}), input_name="question")


def check(
    files: Mapping[str, str],
    placement: str,
    options: tuple[dict[str, Any], ...],
    *,
    input_name: str = "prompt",
    mixed: bool = False,
) -> None:
    """Compare what requests get, with machines taking turns in several orders."""
    program = parse_program(files["program.mir"])
    for seed in range(6):
        for chosen in options:
            inputs = {input_name: f"question {seed}"}
            request = Request(inputs=inputs, options=chosen, tokens=landmarks(program))
            meant = interpret(program, request)
            assert meant.error is None
            emits, streams = run_plan(
                files, placement, program, inputs=inputs, options=chosen, order=Random(seed)
            )
            assert in_order(emits, mixed) == in_order(meant.emits, mixed)
            assert streams == {name: h.items for name, h in meant.streams.items()}


def in_order(emits: Mapping[str, tuple[Any, ...]], mixed: bool) -> dict[str, list[Any]]:
    """Values by output, sorted where their order means nothing."""
    return {name: sorted(values) if mixed else list(values) for name, values in emits.items()}
