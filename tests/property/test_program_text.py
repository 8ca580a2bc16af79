"""The text of a program keeps all of it."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mstarc.ir.text import MirSyntaxError, parse_program, print_program
from tests.support.any_programs import any_program
from tests.support.examples import examples

SEEDS = st.integers(0, 2**32)


@settings(max_examples=examples(150), deadline=None)
@given(SEEDS)
@example(439798)  # a constant named `when`, alone behind `%x =`
def test_a_printed_program_parses_to_itself(seed: int) -> None:
    program = any_program(seed)
    text = print_program(program)
    assert parse_program(text, "other.mir") == program
    assert print_program(parse_program(text, "other.mir")) == text


@settings(max_examples=examples(150), deadline=None)
@given(SEEDS, st.floats(0, 1), st.sampled_from(["", "(", '"', "%", "§", " 3 ", "}"]))
def test_a_damaged_text_is_a_syntax_error_or_another_program(
    seed: int, place: float, noise: str
) -> None:
    text = print_program(any_program(seed))
    at = int(place * len(text))
    damaged = text[:at] + noise + text[at + 1 :]
    line = 1
    try:
        parse_program(damaged)
    except MirSyntaxError as error:
        line = error.line
    assert 1 <= line <= damaged.count("\n") + 1


def test_a_syntax_error_says_where_and_what_was_expected() -> None:
    with pytest.raises(MirSyntaxError, match=r"^p\.mir:3:1: expected `:`, found `output`$"):
        parse_program("program p\ninput text\noutput x : text\n", "p.mir")
