"""The passes keep what every shipped spec means: on one rank, and with each node on its own."""

from itertools import islice

import pytest

from mstarc.deployment import read_deployment
from mstarc.diagnostics import DiagnosticSink
from mstarc.ir.graph import Program
from mstarc.ir.interpret import interpret
from mstarc.passes.context import PassContext
from mstarc.passes.pipeline import run_pipeline
from tests.support.front_half import lowered
from tests.support.shipped_specs import SPECS_BY_NAME, ShippedSpec, admitted, deployment_of

MADE = 90
COMPARED = 12
"""Requests that are made by chance, and how many of those that meet the needs are compared."""


@pytest.mark.parametrize("apart", [False, True], ids=["one rank", "a rank a node"])
@pytest.mark.parametrize("spec", SPECS_BY_NAME.values(), ids=lambda spec: spec.name)
def test_passes_keep_the_meaning(spec: ShippedSpec, apart: bool) -> None:
    program = lowered(spec.source.text)
    sink = DiagnosticSink()
    deployment = read_deployment(deployment_of(program, apart=apart), sink)
    assert deployment is not None
    stages: dict[str, Program] = {}
    after = run_pipeline(
        program,
        PassContext(sink=sink, deployment=deployment),
        observe=lambda name, made, _: stages.update({name: made}),
    )
    assert after is not None, [found.message for found in sink.diagnostics]
    requests = list(islice(admitted(program, spec, MADE), COMPARED))
    assert requests
    for request in requests:
        before = interpret(program, request)
        for name, made in stages.items():
            assert interpret(made, request).is_same_as(before), name
        assert interpret(after, request, bounded=True).is_same_as(before), "rings are large enough"
