"""Unique names, and checked types as IR types under them."""

from mstarc.ir import types as ir
from mstarc.typecheck import dims as checked_dims
from mstarc.typecheck import types as checked
from mstarc.typecheck.dims import Dim, DimQuotient, DimVar


class Names:
    """Gives each thing in one body a name that no other has there: `token`, `token.1`, …"""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}

    def new(self, base: str) -> str:
        """`base`, or with a number if that is taken."""
        name = base
        while name in self._taken:
            self._counts[base] = self._counts.get(base, 0) + 1
            name = f"{base}.{self._counts[base]}"
        self._taken.add(name)
        return name


class Types:
    """Turns types of one body: a free dim keeps its name, unless another has it there."""

    def __init__(self) -> None:
        self._names = Names()
        self._dims: dict[DimVar, str] = {}

    def type(self, type_: checked.Type) -> ir.Type:
        """The IR's type."""
        match type_:
            case checked.TensorType(dtype, dims):
                return ir.TensorType(dtype, tuple(self.dim(dim) for dim in dims))
            case checked.ScalarType(kind):
                return ir.ScalarType(kind)
            case checked.FlagType():
                return ir.FlagType()
            case checked.MediaType(kind, rate):
                return ir.MediaType(kind, rate)
            case checked.PartsType(kinds):
                return ir.PartsType(tuple(ir.MediaType(kind.kind, kind.rate) for kind in kinds))
            case checked.ListType(kind):
                return ir.ListType(kind)
            case checked.TupleType(fields):
                return ir.TupleType(tuple((name, self.type(entry)) for name, entry in fields))
            case checked.OptionalType(item):
                return ir.OptionalType(self.type(item))
            case _:
                raise AssertionError(f"a value of type {type_} is not lowered")

    def dim(self, dim: Dim) -> ir.Dim:
        """The IR's size: `1920 * F - 555` as it is written."""
        if dim.value is not None:
            return ir.DimConst(dim.value)
        total: ir.Dim | None = None
        for atoms, factor in sorted(dim.terms, key=lambda term: not term[0]):
            term = self._term(atoms, abs(factor))
            if total is None:
                total = term if factor > 0 else ir.DimBinary("-", ir.DimConst(0), term)
            else:
                total = ir.DimBinary("+" if factor > 0 else "-", total, term)
        assert total is not None
        return total

    def _term(self, atoms: tuple[checked_dims.DimAtom, ...], factor: int) -> ir.Dim:
        parts: list[ir.Dim] = [ir.DimConst(factor)] if factor != 1 or not atoms else []
        parts.extend(self._atom(atom) for atom in atoms)
        product = parts[0]
        for part in parts[1:]:
            product = ir.DimBinary("*", product, part)
        return product

    def _atom(self, atom: checked_dims.DimAtom) -> ir.Dim:
        if isinstance(atom, DimQuotient):
            return ir.DimBinary(atom.operator, self.dim(atom.left), self.dim(atom.right))
        match atom.origin:
            case "request":
                return ir.DimVar(atom.name, request=True)
            case "unknown":
                return ir.DimUnknown()
            case "free" | "chunk":
                if atom not in self._dims:
                    self._dims[atom] = self._names.new(atom.name)
                return ir.DimVar(self._dims[atom])
