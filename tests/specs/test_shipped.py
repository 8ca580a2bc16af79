"""Every shipped spec: sound, in the canonical form, and meaning something on every path."""

from random import Random

import pytest

from mstarc import driver
from mstarc.ir.graph import Call, Each, Loop, Program, Run
from mstarc.ir.interpret import interpret
from mstarc.ir.text import parse_program, print_program
from mstarc.ir.verify import verify
from mstarc.ir.walking import all_statements
from mstarc.lint.select import Selection
from mstarc.options import CompileOptions
from tests.support.front_half import lowered
from tests.support.shipped_specs import (
    SPECS,
    SPECS_BY_NAME,
    ShippedSpec,
    admitted,
    all_paths,
    taken_paths,
)

REQUESTS = 3000
"""So many are made by chance; those that break a need are left out."""

every_spec = pytest.mark.parametrize("spec", SPECS_BY_NAME.values(), ids=lambda spec: spec.name)


@pytest.fixture(scope="module")
def programs() -> dict[str, Program]:
    return {name: lowered(spec.source.text) for name, spec in SPECS_BY_NAME.items()}


def test_every_spec_is_listed() -> None:
    assert sorted(SPECS_BY_NAME) == sorted(path.stem for path in SPECS.glob("*.mstar"))


@every_spec
def test_spec_is_sound_and_lints_clean(spec: ShippedSpec) -> None:
    assert driver.lint(spec.source, Selection()).diagnostics == ()


@every_spec
def test_spec_is_in_the_canonical_form(spec: ShippedSpec) -> None:
    files = driver.format_spec(spec.source).files
    assert files == {spec.source.path: spec.source.text}


@every_spec
def test_program_is_sound_and_prints_to_what_is_read(
    spec: ShippedSpec, programs: dict[str, Program]
) -> None:
    program = programs[spec.name]
    verify(program, stage="lower")
    assert parse_program(print_program(program)) == program


@every_spec
def test_tiny_sizes_fit(spec: ShippedSpec) -> None:
    options = CompileOptions(sizes=spec.sizes, stop_after="lower")
    assert driver.compile_spec(spec.source, options).diagnostics == ()


@every_spec
def test_spec_says_the_public_names(spec: ShippedSpec, programs: dict[str, Program]) -> None:
    program = programs[spec.name]
    nodes = {name for node in program.nodes for name in (node.name, *node.aliases)}
    nodes |= {alias for node in program.nodes for c in node.contexts for alias in c.aliases}
    nodes |= {alias for alias, _ in program.folded}
    walks = {name for walk in program.walks for name in (walk.name, *walk.aliases)}
    assert spec.public_nodes <= nodes
    assert spec.public_walks <= walks


@every_spec
def test_requests_take_every_path_and_come_to_an_end(
    spec: ShippedSpec, programs: dict[str, Program]
) -> None:
    program = programs[spec.name]
    paths = set(all_paths(program))
    sites = {
        statement.site
        for statement in all_statements(program)
        if isinstance(statement, Call | Run | Each | Loop)
    }
    for number, request in enumerate(admitted(program, spec, REQUESTS)):
        outcome = interpret(program, request)
        assert not outcome.stuck
        turned = interpret(program, request, order=Random(number))
        assert outcome.is_same_as(turned), "machines and branches may go on in any order"
        if outcome.error is None:
            paths -= set(taken_paths(program, request))
            sites -= outcome.calls.keys()
        if not paths and not sites and number > 20:
            break
    assert not paths
    assert not sites
