"""The plans of the shipped specs mean what the specs mean: generated ranks over toy ops."""

from dataclasses import replace
from itertools import islice
from random import Random

import pytest

from mstarc import driver
from mstarc.ir.interpret import interpret, landmarks
from mstarc.ir.text import parse_program
from mstarc.options import CompileOptions
from tests.specs.test_models_page import rows
from tests.support.front_half import lowered
from tests.support.shipped_specs import SPECS_BY_NAME, admitted, deployment_of
from tests.support.toy_ranks import run_plan

COMPILED = tuple(name for name, said in rows() if said == "yes")
MADE = 200
COMPARED = 8
"""Requests that are made by chance, and how many of those that meet the needs are compared."""


@pytest.mark.parametrize("apart", [False, True], ids=["one rank", "a rank a node"])
@pytest.mark.parametrize("name", COMPILED)
def test_plan_means_what_the_spec_means(name: str, apart: bool) -> None:
    spec = SPECS_BY_NAME[name]
    deployment = deployment_of(lowered(spec.source.text), apart=apart)
    outcome = driver.compile_spec(spec.source, CompileOptions(deployments=(deployment,)))
    assert outcome.files is not None, [found.message for found in outcome.diagnostics]
    program = parse_program(outcome.files["program.mir"])
    compared = 0
    for number, made in enumerate(islice(admitted(program, spec, MADE), COMPARED)):
        request = replace(made, tokens=landmarks(program))
        meant = interpret(program, request)
        if meant.error is not None:
            continue
        compared += 1
        emits, streams = run_plan(
            outcome.files,
            "deployment",
            program,
            inputs=request.inputs,
            options=request.options,
            wants=request.wants,
            order=Random(number),
        )
        assert emits == meant.emits
        assert streams == {stream: history.items for stream, history in meant.streams.items()}
    assert compared
