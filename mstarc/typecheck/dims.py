"""Sizes of tensors as polynomials, so that equal sizes compare equal however they are written.

A `Dim` is a sum of terms; a term is a whole number times atoms: free dims (`T`), sizes that a
request fixes (`steps`), sizes that only the run knows (`?`), and quotients and remainders that
do not work out.
"""

from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

from mstarc.records import dataclass

DimOrigin: TypeAlias = Literal["free", "request", "unknown", "chunk"]


@dataclass(frozen=True, slots=True)
class DimVar:
    """A size without a number. Variables with equal `name` and `scope` are one.

    `free`: bound by each call, or by the run of a walk; `request`: an option, a let or an `int`
    parameter, known at admission; `unknown`: `?`; `chunk`: what a chunk of a stream holds.
    """

    name: str
    scope: int
    origin: DimOrigin = "free"


@dataclass(frozen=True, slots=True)
class DimQuotient:
    """`left // right` or `left % right`, where it does not work out to a polynomial."""

    operator: Literal["//", "%"]
    left: "Dim"
    right: "Dim"


DimAtom: TypeAlias = DimVar | DimQuotient
Term: TypeAlias = tuple[tuple[DimAtom, ...], int]


@dataclass(frozen=True, slots=True)
class Dim:
    """A size. `terms` are sorted, with no factor zero; no terms is the size 0."""

    terms: tuple[Term, ...]

    @property
    def value(self) -> int | None:
        """The number, if it is one."""
        if not self.terms:
            return 0
        (atoms, factor), *others = self.terms
        return factor if not atoms and not others else None

    @property
    def variable(self) -> DimVar | None:
        """The variable, if the dim is just one."""
        if len(self.terms) != 1:
            return None
        atoms, factor = self.terms[0]
        if factor != 1 or len(atoms) != 1 or not isinstance(atoms[0], DimVar):
            return None
        return atoms[0]

    def variables(self) -> Iterator[DimVar]:
        """Every variable in it, in order, perhaps more than once."""
        for atoms, _ in self.terms:
            for atom in atoms:
                if isinstance(atom, DimVar):
                    yield atom
                else:
                    yield from atom.left.variables()
                    yield from atom.right.variables()

    def __add__(self, other: "Dim") -> "Dim":
        return _collect([*self.terms, *other.terms])

    def __sub__(self, other: "Dim") -> "Dim":
        return self + Dim(tuple((atoms, -factor) for atoms, factor in other.terms))

    def __mul__(self, other: "Dim") -> "Dim":
        return _collect(
            [(_product(left, right), a * b) for left, a in self.terms for right, b in other.terms]
        )

    def quotient(self, other: "Dim", operator: Literal["//", "%"]) -> "Dim":
        """`self // other` or `self % other`; `other` must not be the number 0."""
        divisor = other.value
        if divisor is not None and divisor != 0:
            if (value := self.value) is not None:
                return constant(value // divisor if operator == "//" else value % divisor)
            if all(factor % divisor == 0 for _, factor in self.terms):
                if operator == "%":
                    return constant(0)
                return Dim(tuple((atoms, factor // divisor) for atoms, factor in self.terms))
        return _collect([((DimQuotient(operator, self, other),), 1)])

    def replace(self, what: Callable[[DimVar], "Dim | None"]) -> "Dim":
        """The same size with variables replaced where `what` gives something."""
        if self.value is not None:
            return self
        if (var := self.variable) is not None:
            new = what(var)
            return self if new is None else new
        if all(what(var) is None for var in self.variables()):
            return self
        total = constant(0)
        for atoms, factor in self.terms:
            product = constant(factor)
            for atom in atoms:
                product = product * _replace_atom(atom, what)
            total = total + product
        return total

    def __str__(self) -> str:
        text = ""
        # Numbers last: `1920 * F - 555`.
        for atoms, factor in sorted(self.terms, key=lambda term: not term[0]):
            sign = "-" if factor < 0 else "+"
            parts = [str(abs(factor))] if abs(factor) != 1 or not atoms else []
            parts.extend(_atom_text(atom) for atom in atoms)
            term = " * ".join(parts)
            if text:
                text += f" {sign} {term}"
            else:
                text = f"-{term}" if factor < 0 else term
        return text or "0"


def constant(value: int) -> Dim:
    """The size `value`."""
    return Dim((((), value),)) if value else Dim(())


def variable(var: DimVar) -> Dim:
    """The size that is just `var`."""
    return Dim((((var,), 1),))


def _product(left: tuple[DimAtom, ...], right: tuple[DimAtom, ...]) -> tuple[DimAtom, ...]:
    if not left or not right:
        return left or right
    return tuple(sorted((*left, *right), key=_atom_key))


def _collect(terms: list[Term]) -> Dim:
    totals: dict[tuple[DimAtom, ...], int] = {}
    for atoms, factor in terms:
        totals[atoms] = totals.get(atoms, 0) + factor
    kept = [(atoms, factor) for atoms, factor in totals.items() if factor]
    if len(kept) < 2:
        return Dim(tuple(kept))  # the keys of a sort are texts, and most sizes are one term
    return Dim(tuple(sorted(kept, key=lambda term: [_atom_key(atom) for atom in term[0]])))


def _atom_key(atom: DimAtom) -> tuple[int, str, int]:
    if isinstance(atom, DimVar):
        return (0, atom.name, atom.scope)
    return (1, _atom_text(atom), 0)


def _atom_text(atom: DimAtom) -> str:
    if isinstance(atom, DimVar):
        return atom.name
    left, right = (
        f"({side})" if _is_compound(side) else str(side) for side in (atom.left, atom.right)
    )
    return f"({left} {atom.operator} {right})"


def _is_compound(dim: Dim) -> bool:
    return dim.value is None and dim.variable is None


def _replace_atom(atom: DimAtom, what: Callable[[DimVar], Dim | None]) -> Dim:
    if isinstance(atom, DimVar):
        new = what(atom)
        return variable(atom) if new is None else new
    return atom.left.replace(what).quotient(atom.right.replace(what), atom.operator)
