"""Rows that a request's options decide."""

from mstarc import driver
from mstarc.analysis.sized_calls import rows_by_site
from mstarc.ir.graph import Program
from mstarc.ir.text import parse_program
from mstarc.options import CompileOptions
from tests.support.shipped_specs import SPECS_BY_NAME


def lowered(name: str) -> Program:
    options = CompileOptions(stop_after="canonicalize", dump_after="canonicalize")
    outcome = driver.compile_spec(SPECS_BY_NAME[name].source, options)
    return parse_program(outcome.dump, "program.mir")


def test_a_drawing_has_a_row_for_each_cell_and_two_marks() -> None:
    program = lowered("bagel")
    assert set(rows_by_site(program).values()) == {64 * 64 + 2}
    small = rows_by_site(program, {"height": 64.0, "width": 80.0})
    assert set(small.values()) == {4 * 5 + 2}
    assert small.keys() == {f"image_gen/{number}" for number in (1, 2, 3, 5)}


def test_prompts_and_tokens_have_no_rows_that_options_decide() -> None:
    assert rows_by_site(lowered("orpheus")) == {}
    assert rows_by_site(lowered("qwen3_omni")) == {}
