"""Branches on one rank that call one op are one call; calls of fixed rows run in stretches."""

import re
from ast import literal_eval

from mstarc import driver
from mstarc.options import CompileOptions
from tests.support.shipped_specs import SPECS_BY_NAME

BRANCHES = """      parallel {
        here    = llm.denoise(x, t[i], columns) on main
        no_text = llm.denoise(x, t[i], columns) on no_text
        when with_image { no_image = llm.denoise(x, t[i], columns) on no_image }
      }
"""


def _rank(name: str, *changes: tuple[str, str]) -> str:
    """Rank 0 of a shipped spec, changed, on one GPU."""
    spec = SPECS_BY_NAME[name]
    text = spec.source.text
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    options = CompileOptions(placements=("1xH200",), sizes=spec.sizes)
    outcome = driver.compile_spec(type(spec.source)(path=spec.source.path, text=text), options)
    assert outcome.files is not None, [found.message for found in outcome.diagnostics]
    return str(outcome.files["placements/1xH200/rank0.py"])


def _calls(rank: str) -> list[tuple[str, ...]]:
    """The contexts of each call of `denoise`."""
    found = re.findall(r"self\.llm\.denoise\((.*?)\)\n", rank, re.DOTALL)
    named = (re.search(r"contexts=(\(.*?\))", call) for call in found)
    return [literal_eval(each.group(1)) if each is not None else () for each in named]


def test_a_branch_that_is_only_sometimes_there_makes_two_forms() -> None:
    calls = _calls(_rank("bagel"))
    assert sorted(calls) == [(), ("main", "no_text"), ("main", "no_text", "no_image")]


def test_other_arguments_are_other_calls() -> None:
    other = BRANCHES.replace(
        "denoise(x, t[i], columns) on no_text", "denoise(x, t[i + 1], columns) on no_text"
    )
    assert _calls(_rank("bagel", (BRANCHES, other))).count(()) == 4


def test_what_is_written_is_called_one_after_another() -> None:
    rank = _rank("bagel")
    assert 'self.llm.text(b, ids, context="no_image")' in rank


def test_a_flow_against_a_frozen_prefix_runs_in_stretches() -> None:
    rank = _rank("pi05")
    (step,) = re.findall(
        r"DeviceStep\(\n        id=MAIN_ACT_ACTION_GEN_PASS,.*?\n    \),", rank, re.DOTALL
    )
    assert 'rows="fixed"' in step and "stretch=4" in step and "region=" in step


def test_what_a_region_picks_from_has_room_for_the_most() -> None:
    assert 'b.register("main_path", "f32", (32, 7))' in _rank("vjepa2_ac")
