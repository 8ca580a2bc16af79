"""The plans of the shipped specs mean what the specs mean: generated ranks over toy ops."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from random import Random

import pytest

from mstarc import driver
from mstarc.codegen.emit import render
from mstarc.diagnostics import DiagnosticSink
from mstarc.ir.graph import Program
from mstarc.ir.interpret import interpret, landmarks
from mstarc.ir.text import parse_program, print_program
from mstarc.options import CompileOptions
from mstarc.plan import build_plan
from tests.specs.test_models_page import rows
from tests.support.front_half import lowered
from tests.support.layouts import run_on
from tests.support.shipped_specs import SPECS_BY_NAME, ShippedSpec, admitted, deployment_of
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
    check_meaning(spec, program, outcome.files, "deployment")


@pytest.mark.parametrize("layout", range(3))
@pytest.mark.parametrize("name", COMPILED)
def test_plan_means_the_same_on_any_layout(name: str, layout: int) -> None:
    spec = SPECS_BY_NAME[name]
    program = lowered(spec.source.text)
    placed = run_on(program, layout)
    if placed is None:
        return
    sink = DiagnosticSink()
    plan = build_plan([placed], spec.source, sink, version="0")
    assert plan is not None, [found.message for found in sink.diagnostics]
    check_meaning(spec, program, render(plan, mir=print_program(placed)), "toy")


def check_meaning(
    spec: ShippedSpec, program: Program, files: Mapping[str, str], placement: str
) -> None:
    compared = 0
    for number, made in enumerate(islice(admitted(program, spec, MADE), COMPARED)):
        request = replace(made, tokens=landmarks(program))
        meant = interpret(program, request)
        if meant.error is not None:
            continue
        compared += 1
        emits, streams = run_plan(
            files,
            placement,
            program,
            inputs=request.inputs,
            options=request.options,
            wants=request.wants,
            order=Random(number),
        )
        assert emits == meant.emits
        assert streams == {stream: history.items for stream, history in meant.streams.items()}
    assert compared
