"""Comparisons of something static with a constant, and what they have to do with one another.

An option that may be few things is compared by its values: `mood < 2` is `mood == 0` or
`mood == 1`, and exactly one of its values holds. Anything else is compared by atoms that order
constants: `scale < 1.0` excludes `scale > 2.0`.
"""

from itertools import combinations, product
from math import ceil, floor
from typing import TypeAlias

from mstarc.diagnostics import Diagnostic, Label, did_you_mean
from mstarc.syntax import ast
from mstarc.typecheck.state import State
from mstarc.typecheck.text import condition_key
from mstarc.typecheck.typed import OptionInfo
from mstarc.typecheck.types import INT

Constant: TypeAlias = int | float | bool | str

MIRRORED: dict[ast.CompareOp, ast.CompareOp] = {
    "==": "==",
    "!=": "!=",
    "<": ">",
    ">": "<",
    "<=": ">=",
    ">=": "<=",
}

MOST_VALUES = 16
"""An option with more values than this is compared by order."""


def compare_with(subject: ast.Expr, operator: ast.CompareOp, value: Constant, state: State) -> int:
    """The formula of `subject operator value`."""
    key = condition_key(subject, state.resolved)
    values = _values(subject, state)
    if values is not None:
        return _among(key, operator, value, values, state)
    option = _option(subject, state)
    is_whole = option is not None and option.type == INT
    if key not in state.compared and option is not None:
        _assume_range(key, option, state)

    def atom(relation: str) -> int:
        return _ordered(key, relation, value, state, is_whole=is_whole)

    match operator:
        case "==":
            return atom("==")
        case "!=":
            return state.logic.negation(atom("=="))
        case "<":
            return atom("<")
        case ">=":
            return state.logic.negation(atom("<"))
        case ">":
            return atom(">")
        case "<=":
            return state.logic.negation(atom(">"))


def _assume_range(key: str, option: OptionInfo, state: State) -> None:
    """Nothing that an option may be is outside of its range."""
    if option.domain is None or option.domain[0] != "range":
        return
    is_whole = option.type == INT
    for relation, end in zip("<>", option.domain[1], strict=True):
        assert isinstance(end, int | float)
        outside = _ordered(key, relation, end, state, is_whole=is_whole)
        state.logic.assume(state.logic.negation(outside))


def refuse_impossible(expr: ast.Compare, state: State) -> None:
    """Report a comparison of an option with a text that it never is."""
    for subject, other in ((expr.left, expr.right), (expr.right, expr.left)):
        symbol = state.resolved.meaning(subject) if isinstance(subject, ast.Name) else None
        option = state.options.get(symbol.name) if symbol and symbol.kind == "option" else None
        if option is None or option.domain is None or not isinstance(other, ast.Str):
            continue
        kind, values = option.domain
        if kind != "set" or other.value in values:
            continue
        words = [value for value in values if isinstance(value, str)]
        near = did_you_mean(other.value, words) or tuple(words)
        diagnostic = Diagnostic(
            code="MS0330",
            message=f'`{option.name}` is never `"{other.value}"`',
            primary=Label(span=other.span, text="not one of its values"),
            helps=(f"it may be {' or '.join(_shown(word) for word in near)}",),
        )
        assert option.decl.domain is not None
        state.sink.report(diagnostic.label(option.decl.domain.span, "what the option may be"))


def _values(subject: ast.Expr, state: State) -> tuple[Constant, ...] | None:
    """What an option may be, if that is few things."""
    option = _option(subject, state)
    if option is None or option.domain is None:
        return None
    kind, values = option.domain
    known = tuple(value for value in values if not isinstance(value, tuple))
    if kind == "set":
        return known if len(known) <= MOST_VALUES else None
    low, high = known
    if type(low) is not int or type(high) is not int or high - low >= MOST_VALUES:
        return None
    return tuple(range(low, high + 1))


def _option(subject: ast.Expr, state: State) -> OptionInfo | None:
    symbol = state.resolved.meaning(subject) if isinstance(subject, ast.Name) else None
    if symbol is None or symbol.kind != "option":
        return None
    return state.options.get(symbol.name)


def _among(
    key: str, operator: ast.CompareOp, value: Constant, values: tuple[Constant, ...], state: State
) -> int:
    logic = state.logic
    atoms = {candidate: logic.atom(f"{key} == {_shown(candidate)}") for candidate in values}
    if key not in state.compared:
        state.compared[key] = []
        logic.assume(logic.either(*atoms.values()))
        for a, b in combinations(atoms.values(), 2):
            logic.assume(logic.negation(logic.both(a, b)))
    return logic.either(
        *(atom for candidate, atom in atoms.items() if holds(candidate, operator, value))
    )


def _ordered(key: str, relation: str, value: Constant, state: State, *, is_whole: bool) -> int:
    """The atom of `key relation value` (`==`, `<`, `>`), tied to earlier ones of the same key."""
    logic = state.logic
    atom = logic.atom(f"{key} {relation} {_shown(value)}")
    earlier = state.compared.setdefault(key, [])
    if (relation, value) in earlier:
        return atom
    for other_relation, other in earlier:
        other_atom = logic.atom(f"{key} {other_relation} {_shown(other)}")
        for first, second in product((True, False), repeat=2):
            asked, known = (relation, value, first), (other_relation, other, second)
            if not _meet(asked, known, is_whole=is_whole):
                a = atom if first else logic.negation(atom)
                b = other_atom if second else logic.negation(other_atom)
                logic.assume(logic.negation(logic.both(a, b)))
    earlier.append((relation, value))
    if not isinstance(value, str) and all((r, value) in earlier for r in ("<", "==", ">")):
        atoms = [logic.atom(f"{key} {r} {_shown(value)}") for r in ("<", "==", ">")]
        logic.assume(logic.either(*atoms))
    return atom


def _meet(
    asked: tuple[str, Constant, bool], known: tuple[str, Constant, bool], *, is_whole: bool
) -> bool:
    """Whether something can be in both relations (or, where False, in neither) at once."""
    relation, value, first = asked
    other_relation, other, second = known
    if isinstance(value, str) or isinstance(other, str):
        points: list[Constant] = [value, other, f"{value}{other}."]
    else:
        low, high = min(value, other), max(value, other)
        points = [low - 1, low, (low + high) / 2, high, high + 1]
        if is_whole:
            numbers = [point for point in points if isinstance(point, int | float)]
            points = [whole for number in numbers for whole in (floor(number), ceil(number))]
    return any(
        _is_in(point, relation, value) == first and _is_in(point, other_relation, other) == second
        for point in points
    )


def _is_in(point: Constant, relation: str, value: Constant) -> bool:
    if relation == "==":
        return point == value
    return holds(point, "<" if relation == "<" else ">", value)


def holds(left: Constant, operator: ast.CompareOp, right: Constant) -> bool:
    """`left operator right` of constants; texts have no order."""
    if operator in ("==", "!="):
        return (left == right) == (operator == "==")
    if isinstance(left, str) or isinstance(right, str):
        return False
    match operator:
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case _:
            return left >= right


def _shown(value: Constant) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)
