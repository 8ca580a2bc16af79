"""Pixels: what a picture or a video is, and sides that are none in some requests."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic, Label
from mstarc.syntax import ast
from mstarc.typecheck.constants import ConfigScalar, arithmetic
from mstarc.typecheck.dims import Dim, DimAtom, DimVar
from mstarc.typecheck.fitting import Misfit
from mstarc.typecheck.logic import TRUE
from mstarc.typecheck.needs import premise_of
from mstarc.typecheck.reach import is_always_reached
from mstarc.typecheck.state import State
from mstarc.typecheck.text import text_of
from mstarc.typecheck.types import TensorType
from mstarc.typecheck.witnesses import Given, find_witness, names_of, value_of

MOST_PIXELS = 65_535
"""Of a side: no format of pictures holds more."""


def pixel_misfit(found: TensorType, what: str, form: str) -> Misfit | None:
    """Why a tensor holds no pixels. Sizes that only a request or the run knows may be right."""
    if len(found.dims) != form.count(",") + 1:
        return Misfit("MS0304", f"`{found}`: {what} is `{form}`")
    if found.dtype != "u8":
        return Misfit("MS0303", f"`{found}`: pixels are 0 .. 255, so {what} is `{form}`")
    colours, *sides = found.dims
    origins = {variable.origin for variable in colours.variables()}
    if colours.value != 3 and not origins & {"unknown", "free"}:
        return Misfit("MS0305", f"`{found}`: colours come first, and are 3: {what} is `{form}`")
    for side in sides:
        if side.value is not None and side.value > MOST_PIXELS:
            return Misfit("MS0305", f"`{found}`: a side has {MOST_PIXELS} pixels at most")
    return None


def check_sides(state: State) -> None:
    """Report (MS0305) a picture of which a side is 0 or less in a request that the spec allows.

    Where a condition around the emit, or around the run of its walk, may rule that out, nothing is
    said.
    """
    for emit, (picture, facts) in state.pictures.items():
        premise = state.logic.both(premise_of(state), _wanted(emit, state))
        if not is_always_reached(emit, facts, premise, state):
            continue
        for side in picture.dims[1:]:
            if side.value is None and _report_side(emit, picture, side, state):
                break


def _wanted(emit: ast.Emit, state: State) -> int:
    output = state.resolved.meaning(emit.output)
    return TRUE if output is None else state.logic.atom(f"wants {output.name}")


def _report_side(emit: ast.Emit, picture: TensorType, side: Dim, state: State) -> bool:
    values = state.resolved.symbols.values
    variables = list(side.variables())
    if any(v.scope or v.origin != "request" or v.name not in values for v in variables):
        return False
    names = names_of((values[v.name] for v in variables), state)

    def size(given: Given) -> ConfigScalar | None:
        return _size(side, given, state)

    found = find_witness(names, size, lambda number: number < 1, (), state)
    if found is None:
        return False
    listed = " and ".join(f"`{symbol.name}` is {value}" for symbol, value in found.items())
    diagnostic = Diagnostic(
        code="MS0305",
        message=f"`{text_of(emit.value)}` has no pixels in some requests",
        primary=Label(
            span=emit.value.span, text=f"`{picture}`: `{side}` is {size(found)} where {listed}"
        ),
        helps=("give the options other ranges, or refuse such requests with `need`",),
    )
    for symbol in found:
        declared = state.options[symbol.name].decl
        span = declared.span if declared.domain is None else declared.domain.span
        diagnostic = diagnostic.label(span, "what the option may be")
    state.sink.report(diagnostic)
    return True


def _size(dim: Dim, given: Given, state: State) -> int | None:
    total = 0
    for atoms, factor in dim.terms:
        product: int | None = factor
        for value in _atoms(atoms, given, state):
            product = None if value is None or product is None else product * value
        if product is None:
            return None
        total += product
    return total


def _atoms(atoms: tuple[DimAtom, ...], given: Given, state: State) -> Iterator[int | None]:
    for atom in atoms:
        value: ConfigScalar | None = None
        if isinstance(atom, DimVar):
            symbol = state.resolved.symbols.values[atom.name]
            if isinstance(symbol.node, ast.Let):
                value = value_of(symbol.node.value, given, state)
            else:
                value = given.get(symbol)
        else:
            left, right = _size(atom.left, given, state), _size(atom.right, given, state)
            if left is not None and right is not None:
                value = arithmetic(atom.operator, left, right)
        yield value if type(value) is int else None
