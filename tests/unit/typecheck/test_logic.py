"""Conditions are compared by what they mean."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mstarc.typecheck.logic import FALSE, TRUE, Logic

ATOMS = ("a", "b", "c")
Tree = tuple[object, ...]

trees: st.SearchStrategy[Tree] = st.recursive(
    st.sampled_from([("atom", name) for name in ATOMS]),
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.sampled_from(["and", "or"]), inner, inner),
    ),
    max_leaves=12,
)


def formula(tree: Tree, logic: Logic) -> int:
    match tree:
        case ("atom", str(name)):
            return logic.atom(name)
        case ("not", tuple(inner)):
            return logic.negation(formula(inner, logic))
        case ("and", tuple(left), tuple(right)):
            return logic.both(formula(left, logic), formula(right, logic))
        case (_, tuple(left), tuple(right)):
            return logic.either(formula(left, logic), formula(right, logic))
    raise AssertionError(tree)


def holds(tree: Tree, values: dict[str, bool]) -> bool:
    match tree:
        case ("atom", str(name)):
            return values[name]
        case ("not", tuple(inner)):
            return not holds(inner, values)
        case ("and", tuple(left), tuple(right)):
            return holds(left, values) and holds(right, values)
        case (_, tuple(left), tuple(right)):
            return holds(left, values) or holds(right, values)
    raise AssertionError(tree)


def rows() -> list[dict[str, bool]]:
    return [dict(zip(ATOMS, row, strict=True)) for row in product((False, True), repeat=3)]


@settings(max_examples=150, deadline=None)
@given(trees, trees)
def test_formulas_agree_with_truth_tables(left: Tree, right: Tree) -> None:
    logic = Logic()
    a, b = formula(left, logic), formula(right, logic)
    table = [(holds(left, row), holds(right, row)) for row in rows()]
    assert (a == b) == all(x == y for x, y in table)
    assert logic.implies(a, b) == all(y for x, y in table if x)
    always = logic.always(a, ["a"])
    sometimes = logic.sometimes(a, ["a"])
    for row in rows():
        both = [holds(left, row | {"a": value}) for value in (False, True)]
        atoms = {name: TRUE if value else FALSE for name, value in row.items()}
        assert logic.compose(always, atoms) == (TRUE if all(both) else FALSE)
        assert logic.compose(sometimes, atoms) == (TRUE if any(both) else FALSE)


@settings(max_examples=100, deadline=None)
@given(trees)
def test_an_example_satisfies_its_formula(tree: Tree) -> None:
    logic = Logic()
    found = formula(tree, logic)
    if found == FALSE:
        return
    values = dict.fromkeys(ATOMS, False) | logic.example(found)
    assert holds(tree, values)


def test_constants_are_unique() -> None:
    logic = Logic()
    a = logic.atom("a")
    assert logic.either(a, logic.negation(a)) == TRUE
    assert logic.both(a, logic.negation(a)) == FALSE
    assert logic.atoms_of(logic.either(a, logic.negation(logic.atom("b")))) == ("a", "b")


def test_an_impossible_condition_has_no_example() -> None:
    with pytest.raises(AssertionError):
        Logic().example(FALSE)
