"""Sizes compare equal however they are written."""

from hypothesis import given, settings
from hypothesis import strategies as st

from mstarc.typecheck.dims import DimVar, constant, variable

T_VAR, F_VAR = DimVar("T", 1), DimVar("F", 1)
t, f = variable(T_VAR), variable(F_VAR)


def test_sums_and_products_have_one_form() -> None:
    assert (t + t) == (constant(2) * t)
    assert ((t + constant(1)) * (t - constant(1))) == (t * t - constant(1))
    assert (t - t).value == 0
    assert (t + f) == (f + t)
    assert t != variable(DimVar("T", 2))


def test_quotients_that_work_out() -> None:
    assert ((constant(4) * t).quotient(constant(4), "//")) == (t)
    assert ((constant(4) * t).quotient(constant(4), "%")).value == 0
    assert (constant(30).quotient(constant(4), "//")).value == 7
    assert (t.quotient(constant(4), "//")).value is None


def test_text_reads_as_it_is_written() -> None:
    assert str(constant(1920) * f - constant(555)) == "1920 * F - 555"
    assert str(t.quotient(constant(4), "//")) == "(T // 4)"
    assert str(constant(0) - t) == "-T"
    assert str(constant(0)) == "0"


def test_replacing_works_out_what_becomes_known() -> None:
    size = (f * constant(3)).quotient(constant(2), "//") + f
    assert size.replace(lambda var: constant(5) if var == F_VAR else None).value == 12


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 2), st.integers(0, 2)), max_size=5),
    st.integers(1, 40),
    st.integers(1, 40),
)
def test_a_size_means_its_number(
    terms: list[tuple[int, int, int]], t_size: int, f_size: int
) -> None:
    total, expected = constant(0), 0
    for factor, t_power, f_power in terms:
        product = constant(factor)
        for size, power in ((t, t_power), (f, f_power)):
            for _ in range(power):
                product = product * size
        total = total + product
        expected += factor * t_size**t_power * f_size**f_power
    values = {T_VAR: constant(t_size), F_VAR: constant(f_size)}
    assert total.replace(values.get).value == expected
