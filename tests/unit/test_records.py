"""Our `dataclass` and the library's make classes that cannot be told apart by what they do."""

import copy
import dataclasses
import doctest
import pickle
from typing import Any

import pytest

from mstarc import records
from mstarc.ir.exprs import Const
from mstarc.source import Span
from mstarc.syntax import ast

MAKERS = [
    pytest.param(dataclasses.dataclass, id="library"),
    pytest.param(records.dataclass, id="ours"),
]


def place(maker: Any, **settings: Any) -> Any:
    class Place:
        """A place."""

        line: int
        column: int = 1
        notes: list[str] = dataclasses.field(default_factory=list)
        hidden: int = dataclasses.field(default=0, compare=False, repr=False)

        @property
        def next_line(self) -> int:
            return self.line + 1

    return maker(slots=True, **settings)(Place)


@pytest.mark.parametrize("maker", MAKERS)
def test_values_defaults_and_methods(maker: Any) -> None:
    cls = place(maker, frozen=True, kw_only=True)
    made = cls(line=3)
    assert (made.line, made.column, made.notes, made.next_line) == (3, 1, [], 4)
    assert cls(line=3).notes is not made.notes
    assert repr(made) == "place.<locals>.Place(line=3, column=1, notes=[])"
    assert cls.__doc__ == "A place."
    assert cls.__qualname__ == "place.<locals>.Place"
    assert not hasattr(made, "__dict__")


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("arguments", [{}, {"line": 1, "row": 2}])
def test_wrong_arguments_are_refused(maker: Any, arguments: dict[str, int]) -> None:
    cls = place(maker, frozen=True, kw_only=True)
    with pytest.raises(TypeError, match=r"Place\.__init__\(\)"):
        cls(**arguments)
    with pytest.raises(TypeError, match="positional"):
        cls(3)


@pytest.mark.parametrize("maker", MAKERS)
def test_frozen_ones_stay_as_they_are(maker: Any) -> None:
    made = place(maker, frozen=True)(3)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'line'"):
        made.line = 4
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'line'"):
        del made.line
    open_one = place(maker)(3)
    open_one.line = 4
    assert open_one.line == 4


@pytest.mark.parametrize("maker", MAKERS)
def test_comparison_and_hash(maker: Any) -> None:
    cls = place(maker, frozen=True)
    assert cls(3, hidden=1) == cls(3, hidden=2)
    assert cls(3) != cls(4)
    assert cls(3) != (3, 1, [])
    by_identity = place(maker, frozen=True, eq=False)
    assert by_identity(3) != by_identity(3)
    assert len({by_identity(3), by_identity(3)}) == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(place(maker)(3))


@pytest.mark.parametrize("maker", MAKERS)
def test_tools_of_the_library_work(maker: Any) -> None:
    cls = place(maker, frozen=True)
    made = cls(3, 4)
    assert dataclasses.is_dataclass(cls)
    assert [field.name for field in dataclasses.fields(cls)] == [
        "line",
        "column",
        "notes",
        "hidden",
    ]
    assert dataclasses.replace(made, line=5) == cls(5, 4)
    assert dataclasses.asdict(made) == {"line": 3, "column": 4, "notes": [], "hidden": 0}
    assert copy.copy(made) == copy.deepcopy(made) == made
    match made:
        case cls(line, column):
            assert (line, column) == (3, 4)
        case _:
            pytest.fail("positional patterns do not match")


@pytest.mark.parametrize("maker", MAKERS)
def test_fields_are_inherited_in_order(maker: Any) -> None:
    @maker(frozen=True, slots=True, kw_only=True)
    class Base:
        first: int

    @maker(frozen=True, slots=True, kw_only=True)
    class Derived(Base):
        second: int

        def __post_init__(self) -> None:
            assert self.second > self.first

    made = Derived(first=1, second=2)
    assert (made.first, made.second) == (1, 2)
    assert Derived.__slots__ == ("second",)
    with pytest.raises(AssertionError):
        Derived(first=2, second=1)


def test_trees_and_programs_can_be_pickled() -> None:
    span = Span(path="a.mstar", start=1, end=2)
    name = pickle.loads(pickle.dumps(ast.Name(span=span, text="lm")))
    assert (name.text, name.span) == ("lm", span)
    assert pickle.loads(pickle.dumps(Const(3, "eos"))) == Const(3)


def test_examples_run() -> None:
    assert doctest.testmod(records).failed == 0
