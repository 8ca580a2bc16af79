"""Toy values and toy ops.

A value of a tensor type without dims is an int (or a bool); one with dims is a tuple over its first
dim, of ints that stand for whole rows where there are more dims. An item of named fields is
`Fields`. Each op gives numbers that depend on everything it saw.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from hashlib import blake2b
from typing import Any

from mstarc.ir.exprs import Binary, Const, Expr, Member
from mstarc.ir.folding import apply_binary
from mstarc.ir.graph import Each, Loop, Op, Program
from mstarc.ir.types import (
    Dim,
    DimBinary,
    DimConst,
    DimVar,
    MediaType,
    OptionalType,
    ScalarType,
    TensorType,
    TupleType,
    Type,
)
from mstarc.ir.walking import all_statements, subexpressions
from mstarc.records import dataclass

_MANY = 1_000_003
_INNER = 2


@dataclass(frozen=True, slots=True)
class Fields:
    """An item of several named values."""

    values: tuple[tuple[str, Any], ...]

    def __getitem__(self, name: str) -> Any:
        return dict(self.values)[name]


def digest(*parts: Any) -> int:
    """A number that depends on every part."""
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=6).digest(), "big")


def landmarks(program: Program) -> tuple[int, ...]:
    """Numbers that the conditions of loops and policies compare with."""
    conditions: list[Expr | None] = [stream.policy.stop for stream in program.streams]
    for statement in all_statements(program):
        if isinstance(statement, Loop):
            conditions.extend((statement.condition, statement.until))
        if isinstance(statement, Each) and statement.policy is not None:
            conditions.append(statement.policy.stop)
    found: set[int] = set()
    for part in (p for whole in conditions if whole is not None for p in subexpressions(whole)):
        match part:
            case Binary("==" | "!=", left, right):
                found.update(_integers((left, right)))
            case Member(_, items):
                found.update(_integers((items,)))
            case _:
                pass
    return tuple(sorted(found))


def _integers(exprs: Iterable[Expr]) -> Iterable[int]:
    for expr in exprs:
        if isinstance(expr, Const):
            values = expr.value if isinstance(expr.value, tuple) else (expr.value,)
            yield from (value for value in values if type(value) is int)


@dataclass(slots=True)
class Rows:
    """What a context holds, in the order written; a fork copies it."""

    rows: list[int] = field(default_factory=list)

    def append(self, rows: Iterable[int]) -> None:
        self.rows.extend(rows)


class Toys:
    """Makes values of types from digests; every fifth number or so is one of `tokens`."""

    def __init__(self, tokens: tuple[int, ...]) -> None:
        self.tokens = tokens

    def value(self, type_: Type, seed: int, sizes: Mapping[str, int]) -> Any:
        """A value of a type."""
        match type_:
            case TensorType("bool", ()):
                return bool(seed & 1)
            case TensorType(_, ()):
                return self._number(seed)
            case TensorType(_, dims):
                length = size_of(dims[0], sizes)
                if length is None:
                    length = 1 + seed % 4
                flat = len(dims) == 1
                return tuple(
                    self._number(seed * (index + 7) % _MANY) if flat else seed * (index + 7) % _MANY
                    for index in range(max(0, length))
                )
            case TupleType(fields):
                return Fields(
                    tuple(
                        (name, self.value(item, digest(seed, name), sizes)) for name, item in fields
                    )
                )
            case OptionalType(item):
                return self.value(item, seed, sizes)
            case ScalarType("float"):
                return seed % 100 / 10
            case ScalarType("bool"):
                return bool(seed & 1)
            case ScalarType("int"):
                return seed % 10
            case MediaType(kind, _):
                return f"{kind} {seed % 1000}"
            case _:
                return f"value {seed % 1000}"

    def _number(self, seed: int) -> int:
        if self.tokens and seed % 5 == 0:
            return self.tokens[seed // 5 % len(self.tokens)]
        return seed % 1000


def sizes_of(op: Op, arguments: Sequence[Any]) -> dict[str, int]:
    """Free dims that the arguments fix: the first dim of each."""
    sizes: dict[str, int] = {}
    for parameter, argument in zip(op.parameters, arguments, strict=True):
        type_ = parameter.type
        if isinstance(type_, OptionalType):
            type_ = type_.item
        if isinstance(type_, TensorType) and type_.dims and isinstance(argument, tuple):
            first = type_.dims[0]
            if isinstance(first, DimVar):
                sizes[first.name] = len(argument)
    return sizes


def extents_of(
    op: Op, arguments: Sequence[Any], options: Mapping[str, Any], seed: int
) -> dict[str, int]:
    """What the sizes of an op's results are made of: options, numbers that it takes, free dims.

    A free dim that no argument fixes has one size in all results of a call. A toy value has its
    first dim alone, so that any other free dim is as large as any: `_INNER`.
    """
    found = {name: value for name, value in options.items() if type(value) is int}
    for parameter, argument in zip(op.parameters, arguments, strict=True):
        if isinstance(parameter.type, ScalarType) and type(argument) is int:
            found[parameter.name] = argument
    found |= sizes_of(op, arguments)
    for result in op.results:
        dims = result.type.dims if isinstance(result.type, TensorType) else ()
        for dim in dims[:1]:
            if isinstance(dim, DimVar):
                found.setdefault(dim.name, 1 + digest(seed, dim.name) % 4)
        for name in (name for dim in dims for name in _free_in(dim)):
            found.setdefault(name, _INNER)
    return found


def _free_in(dim: Dim) -> Iterable[str]:
    match dim:
        case DimVar(name, _):
            yield name
        case DimBinary(_, left, right):
            yield from _free_in(left)
            yield from _free_in(right)
        case _:
            pass


def size_of(dim: Dim, sizes: Mapping[str, int]) -> int | None:
    """The number that a dim is, or None where nothing fixes it."""
    match dim:
        case DimConst(value):
            return value
        case DimVar(name, _):
            return sizes.get(name)
        case DimBinary(operator, left, right):
            a, b = _part_of(left, sizes), _part_of(right, sizes)
            if a is None or b is None:
                return None
            result = apply_binary(operator, a, b)
            assert isinstance(result, int)
            return result
        case _:
            return None


def _part_of(dim: Dim, sizes: Mapping[str, int]) -> int | None:
    """As `size_of`; a free dim that no toy has, since it is not a first one, is 1."""
    if isinstance(dim, DimVar):
        return sizes.get(dim.name, 1)
    return size_of(dim, sizes)
