"""Every pass is in the pipeline, explains itself, and has cases."""

import inspect
from importlib import import_module

import pytest

from mstarc.passes.pipeline import PIPELINE, pass_names
from mstarc.plan.abi import PLAN_ABI
from mstarc_runtime import plan_api
from tests.support.golden import ROOT
from tests.support.mirfile import parse_mirfile

FOLDER = ROOT / "mstarc" / "passes"
CASES = ROOT / "tests" / "passes"
# What the passes share, and no pass.
SHARED = {"__init__", "context", "pipeline"}


def test_names_are_those_of_the_functions() -> None:
    for entry in PIPELINE:
        assert entry.name == entry.run.__name__.replace("_", "-")
    assert len(set(pass_names())) == len(PIPELINE)


def test_every_pass_is_in_the_pipeline() -> None:
    """A pass is a module with a public function of its own name; other modules serve one."""
    modules = {path.stem for path in FOLDER.glob("*.py")} - SHARED
    passes = {name for name in modules if hasattr(import_module(f"mstarc.passes.{name}"), name)}
    assert passes == {name.replace("-", "_") for name in pass_names()}


@pytest.mark.parametrize("name", pass_names())
def test_pass_says_what_it_does(name: str) -> None:
    module = inspect.getmodule({entry.name: entry.run for entry in PIPELINE}[name])
    assert module is not None
    assert module.__doc__ is not None
    for word in ("Before", "After"):
        assert word in module.__doc__, "show a program before and after"


@pytest.mark.parametrize("name", pass_names())
def test_pass_has_cases_that_change_and_that_do_not(name: str) -> None:
    cases = [parse_mirfile(path.read_text()) for path in sorted((CASES / name).glob("*.mirtest"))]
    assert any(case.after not in (None, case.before) for case in cases), "none that changes"
    assert any(case.after == case.before or case.diagnostics for case in cases), "none that stays"


def test_every_folder_of_cases_belongs_to_a_pass() -> None:
    folders = {path.name for path in CASES.iterdir() if path.is_dir()}
    assert folders == set(pass_names())


def test_compiler_and_runtime_mean_the_same_plans() -> None:
    assert plan_api.PLAN_ABI == PLAN_ABI
