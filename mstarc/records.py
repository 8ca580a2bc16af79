"""`dataclass` for classes with slots, made ten times as fast as by the standard library.

A command of this compiler loads some 250 such classes, and the library writes, compiles and runs
six functions for each, used or not, and then makes the class a second time: 0.25 s of every
`mstarc lint`. Here the functions that all classes can share are shared, and `__init__` is compiled
when the first object is made. What a class can do is the same: `fields` and `replace` work, also
positional patterns, copies and pickles. To a type checker it *is* the library's.

>>> @dataclass(frozen=True, slots=True)
... class Place:
...     line: int
...     column: int = 1
>>> Place(3)
Place(line=3, column=1)
>>> Place(3) == Place(3, 1), hash(Place(3)) == hash(Place(3, 1))
(True, True)
"""

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        frozen: bool = False,
        slots: bool = False,
        kw_only: bool = False,
        eq: bool = True,
        order: bool = False,
    ) -> Any:
        """The class with slots and the methods of a data class; without `slots`, the library's."""

        def decorate(decorated: type) -> type:
            if not slots or order:
                return dataclasses.dataclass(
                    frozen=frozen, slots=slots, kw_only=kw_only, eq=eq, order=order
                )(decorated)
            return _made(decorated, frozen=frozen, kw_only=kw_only, eq=eq)

        return decorate if cls is None else decorate(cls)


@dataclasses.dataclass(frozen=True)
class _FrozenModel:
    one: int


@dataclasses.dataclass
class _OpenModel:
    one: int


# How the library marks what it made, for `fields`, `replace` and classes that inherit.
_IS_FIELD: Any = dataclasses.fields(_FrozenModel)[0]._field_type  # type: ignore[attr-defined]
_MARKS: dict[bool, Any] = {
    True: vars(_FrozenModel)["__dataclass_params__"],
    False: vars(_OpenModel)["__dataclass_params__"],
}


def _made(cls: type, *, frozen: bool, kw_only: bool, eq: bool) -> type:
    fields: dict[str, Any] = {}
    inherited: set[str] = set()
    for base in reversed(cls.__mro__[1:]):
        fields |= getattr(base, "__dataclass_fields__", {})
        inherited.update(getattr(base, "__slots__", ()))
    body = dict(vars(cls))
    own = body.get("__annotations__", {})
    for name, type_ in own.items():
        given = body.pop(name, dataclasses.MISSING)
        field: Any = given
        if not isinstance(given, dataclasses.Field):
            field = dataclasses.field(default=given)
        field.name, field.type, field.kw_only = name, type_, kw_only
        field._field_type = _IS_FIELD
        fields[name] = field
    body.pop("__dict__", None)
    body.pop("__weakref__", None)
    body["__slots__"] = tuple(name for name in own if name not in inherited)
    body["__match_args__"] = tuple(
        name for name, field in fields.items() if field.init and not field.kw_only
    )
    body["__dataclass_fields__"] = fields
    body["__dataclass_params__"] = _MARKS[frozen]
    body.setdefault("__repr__", _repr)
    body["__getstate__"], body["__setstate__"] = _getstate, _setstate
    if eq:
        compared = tuple(name for name, field in fields.items() if field.compare)
        _add_comparison(body, compared, frozen=frozen)
    if frozen:
        body["__setattr__"], body["__delattr__"] = _refuse_to_set, _refuse_to_delete
    made = type(cls)(cls.__name__, cls.__bases__, body)
    made.__qualname__ = cls.__qualname__
    if "__init__" not in body:
        _add_init(made)
    return made


def _add_init(made: Any) -> None:
    def first(self: Any, *args: Any, **kwargs: Any) -> None:
        made.__init__ = _compiled_init(made)
        made.__init__(self, *args, **kwargs)

    made.__init__ = first


def _compiled_init(made: Any) -> Callable[..., None]:
    """An `__init__` that puts each argument into its slot, past `__setattr__`."""
    names: dict[str, Any] = {"_absent": dataclasses.MISSING}
    taken: dict[bool, list[str]] = {False: [], True: []}
    lines = []
    for name, field in made.__dataclass_fields__.items():
        names[f"_set_{name}"] = getattr(made, name).__set__
        value = name
        if not field.init:
            continue  # `__post_init__` sets it
        if field.default is not dataclasses.MISSING:
            names[f"_default_{name}"] = field.default
            taken[field.kw_only].append(f"{name}=_default_{name}")
        elif field.default_factory is not dataclasses.MISSING:
            names[f"_make_{name}"] = field.default_factory
            taken[field.kw_only].append(f"{name}=_absent")
            value = f"_make_{name}() if {name} is _absent else {name}"
        else:
            taken[field.kw_only].append(name)
        lines.append(f"  _set_{name}(self, {value})")
    if hasattr(made, "__post_init__"):
        lines.append("  self.__post_init__()")
    parameters = ["self", *taken[False], *(["*", *taken[True]] if taken[True] else [])]
    exec(f"def __init__({', '.join(parameters)}):\n" + "\n".join(lines or ["  pass"]), names)
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{made.__qualname__}.__init__"
    return init


def _add_comparison(body: dict[str, Any], names: tuple[str, ...], *, frozen: bool) -> None:
    key: Callable[[Any], Any] = attrgetter(*names) if names else lambda _: ()

    def __eq__(self: Any, other: object) -> Any:  # noqa: N807
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(key(self))

    has_hash = "__hash__" in body and body["__hash__"] is not None
    body.setdefault("__eq__", __eq__)
    if not has_hash:
        body["__hash__"] = __hash__ if frozen else None


def _repr(self: Any) -> str:
    names = [name for name, field in self.__dataclass_fields__.items() if field.repr]
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
    return f"{type(self).__qualname__}({shown})"


# `pprint` lays out what has the library's own `__repr__`, and looks for it here.
_repr.__wrapped__ = _FrozenModel.__repr__.__wrapped__  # type: ignore[attr-defined]


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__dataclass_fields__]


def _setstate(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__dataclass_fields__, state, strict=True):
        object.__setattr__(self, name, value)


def _refuse_to_set(_self: Any, name: str, _value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
