"""Values as Python source, laid out within a line."""

import ast
import subprocess
import sys

import pytest

from mstarc.codegen.pyrepr import layout_call, layout_dict, layout_tuple, pyrepr, two_columns

VALUES = [
    0,
    -1,
    1.5,
    1e-05,
    True,
    None,
    "",
    "it's",
    'a "quote"',
    "both ' and \"",
    "new\nline",
    "back\\slash",
    "ß é 語",
    (),
    (1,),
    (1, 2),
    [1, "a"],
    {"a": [1, (2,)], "b": {}},
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_source_is_the_value(value: object) -> None:
    assert ast.literal_eval(pyrepr(value)) == value


def test_strings_are_in_double_quotes_where_they_hold_none() -> None:
    assert pyrepr("it's") == '"it\'s"'
    assert pyrepr('a "b"') == "'a \"b\"'"


def test_what_has_no_source_is_our_mistake() -> None:
    with pytest.raises(TypeError):
        pyrepr(object())


def test_a_call_stays_on_its_line_as_long_as_it_fits() -> None:
    assert layout_call("f", ["a", "b=1"], 0) == "f(a, b=1)"
    long = "x" * 60
    assert layout_call("f", [long, long], 4) == f"f(\n        {long},\n        {long},\n    )"


def test_tuples_of_one_keep_their_comma() -> None:
    assert layout_tuple(["a"], 0) == "(a,)"
    assert layout_dict([("a", "1")], 0) == "{a: 1}"


def test_the_right_column_ends_with_the_line() -> None:
    assert len(two_columns("# left", "specs/a.mstar:1")) == 100


def test_layouts_are_a_formatter_s() -> None:
    long = [f"argument_{i}={'x' * 20!r}".replace("'", '"') for i in range(5)]
    text = f"call = {layout_call('some.function', long, 0, before=7)}\n"
    text += f"items = {layout_tuple(['1', '2'], 0, before=8)}\n"
    formatted = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", "100", "-"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    assert formatted.stdout == text
