"""What changes from pass to pass and is known when a request is admitted.

Before:  loop steps times as i { when t[i] > 0.4 { v = guide.follow(x, t[i]) } }
After:   a branch by table "draw.paint.when" at the pass of loop draw.paint; guide.follow(x, t at i)

The index of a loop whose passes are steps goes by the loop's name in the plan, and so does the part
that a `for` is at: a step asks the loop which pass its request is in. A condition over them becomes
a table of one entry a pass, which admission computes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mstarc.analysis.bounds import upper_bound
from mstarc.diagnostics import InternalError
from mstarc.ir.exprs import (
    Binary,
    Const,
    Expr,
    LetRef,
    Local,
    LoopIndex,
    Option,
    PartAttribute,
    TableItem,
)
from mstarc.ir.graph import Program
from mstarc.ir.types import DType, ScalarType, TensorType, Type
from mstarc.ir.walking import map_expr, subexpressions
from mstarc.plan.plan import Derived, PerPass, TablePlan
from mstarc.plan.words import spec_expr
from mstarc.source import Span

MOST_PARTS = 1024
"""A request with more parts is refused: tables with an entry a part are as long."""

_SCALARS: dict[str, DType] = {"float": "f32", "int": "i64", "bool": "bool"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A loop whose passes are steps: `index` is the number of a pass, or the part that it is at."""

    index: str
    over: Expr
    is_part: bool


class Turns:
    """The loops of one machine with an index, and the tables that its steps look up."""

    def __init__(self, program: Program, derived: dict[str, Derived]) -> None:
        self.loops: dict[str, Turn] = {}
        self.tables: dict[str, TablePlan] = {}
        self._program = program
        self._derived = derived
        self._active: dict[str, str] = {}

    def enter(self, loop: str, index: str, over: Expr, *, is_part: bool = False) -> None:
        """From here on `index` means that of `loop`."""
        self.loops[loop] = Turn(index=index, over=over, is_part=is_part)
        self._active[index] = loop

    def leave(self, index: str) -> None:
        """The loop's body ends."""
        del self._active[index]

    def loop_of(self, index: str) -> str:
        """The loop that an index or a part belongs to here."""
        return self._active[index]

    def named(self, expr: Expr) -> Expr:
        """The expression with indices and parts by their loops' names."""

        def rename(part: Expr) -> Expr:
            match part:
                case LoopIndex(name) if name in self._active:
                    return LoopIndex(self._active[name])
                case PartAttribute(name, attribute) if name in self._active:
                    return PartAttribute(self._active[name], attribute)
                case _:
                    return part

        return map_expr(expr, rename)

    def derive(self, expr: Expr, written: Expr, name: str, dtype: DType | None, span: Span) -> Expr:
        """What a step looks up for `expr`: an option of the request, or a table's entry.

        `dtype` is a device table's; None where only the host looks.
        """
        loops = set()
        for part in subexpressions(expr):
            match part:
                case LoopIndex(loop) if loop in self.loops:
                    loops.add(loop)
                case PartAttribute(loop, attribute) if loop in self.loops and attribute != "value":
                    loops.add(loop)
                case Local() | LoopIndex() | PartAttribute():
                    raise _changes(written, span)
                case _:
                    pass
        if isinstance(expr, LetRef | Option):
            return Option(expr.name)
        if not loops:
            return Option(self._named(name, expr))
        inside = [loop for loop in self.loops if loop in loops]
        turns = [self.loops[loop] for loop in inside]
        indices = tuple(
            (_index_name(turn, inside[:at], self.loops), turn.over) for at, turn in enumerate(turns)
        )
        short = dict(zip(inside, (index for index, _ in indices), strict=True))
        plain = map_expr(expr, lambda part: _short(part, short))
        full = self._named(name, PerPass(value=plain, indices=indices))
        if dtype is not None:
            self.look_up(full, dtype, _product([turn.over for turn in turns]), span)
        number: Expr = LoopIndex(inside[0])
        for loop, turn in zip(inside[1:], turns[1:], strict=True):
            number = Binary("+", Binary("*", number, turn.over), LoopIndex(loop))
        return TableItem(full, number)

    def looked_up(self, expr: Expr, dtype: DType, span: Span) -> Expr:
        """The expression with the device's tables in the place of the spec's."""

        def table(part: Expr) -> Expr:
            if not isinstance(part, TableItem):
                return part
            return TableItem(self.look_up(part.table, dtype, None, span), part.index)

        return map_expr(expr, table)

    def look_up(self, table: str, dtype: DType, over: Expr | None, span: Span) -> str:
        """A device step looks a table up: one of the spec, or one with an entry a pass.

        Gives the name of the device's table.
        """
        if over is None:
            over = next(t.length for t in self._program.tables if t.name == table)
        capacity = self._most(over)
        if capacity is None:
            raise InternalError(f"table `{table}` has no largest length", stage="plan", span=span)
        held = self.tables.setdefault(
            table, TablePlan(name=table, dtype=dtype, capacity=max(1, capacity))
        )
        if held.dtype == dtype:
            return table
        # Whole numbers here and others there: the same table once more.
        again = f"{table}.{dtype}"
        made = next(t for t in self._program.tables if t.name == table)
        self._derived[again] = PerPass(value=made.value, indices=((made.index, made.length),))
        self.tables[again] = replace(held, name=again, dtype=dtype)
        return again

    def dtype_of_table(self, table: str) -> DType:
        """How the device keeps a table of the spec, where only a test asks for it."""
        if table in self.tables:
            return self.tables[table].dtype  # type: ignore[return-value]  # as it was given
        value = next(t.value for t in self._program.tables if t.name == table)
        parts = list(subexpressions(value))
        options = {option.name: option.type for option in self._program.options}
        exact = not any(
            (isinstance(part, Binary) and part.operator == "/")
            or (isinstance(part, Const) and isinstance(part.value, float))
            or isinstance(part, LetRef | TableItem)
            or (isinstance(part, Option) and options.get(part.name) == ScalarType("float"))
            for part in parts
        )
        return "i64" if exact else "f32"

    def _most(self, over: Expr) -> int | None:
        if any(turn.is_part and turn.over == over for turn in self.loops.values()):
            return MOST_PARTS
        return upper_bound(self._program, over)

    def _named(self, name: str, value: Derived) -> str:
        machine = name.partition(".")[0]
        for held, other in self._derived.items():
            if other == value and held.partition(".")[0] == machine:
                return held
        while self._derived.get(name, value) != value:
            name += "_"
        self._derived[name] = value
        return name


def dtype_of(type_: Type) -> DType:
    """How the device keeps a static argument."""
    match type_:
        case TensorType(dtype, ()):
            return dtype
        case ScalarType(kind) if kind in _SCALARS:
            return _SCALARS[kind]
        case _:
            return "bool"


def is_static(expr: Expr) -> bool:
    """Whether no value of a walk or a register is in an expression."""
    return not any(isinstance(part, Local) for part in subexpressions(expr))


def _short(part: Expr, names: Mapping[str, str]) -> Expr:
    match part:
        case LoopIndex(loop) if loop in names:
            return LoopIndex(names[loop])
        case PartAttribute(loop, _) if loop in names:
            return replace(part, part=names[loop])
        case _:
            return part


def _index_name(turn: Turn, outer: list[str], loops: Mapping[str, Turn]) -> str:
    """What a loop's index is called where passes of several loops are gone through."""
    taken = [loops[loop].index for loop in outer]
    return turn.index if turn.index not in taken else f"{turn.index}_{len(outer)}"


def _product(bounds: list[Expr]) -> Expr:
    whole = bounds[0]
    for bound in bounds[1:]:
        whole = Binary("*", whole, bound)
    return whole


def _changes(written: Expr, span: Span) -> Exception:
    message = f"`{spec_expr(written)}` is not known when the request is admitted"
    return InternalError(message, stage="plan", span=span)
