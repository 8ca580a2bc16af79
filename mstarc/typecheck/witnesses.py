"""Requests under which a number of the host is 0, or too small: a search, which finds what people
would think of.

Options have their defaults first, then one after another is something else, then several are. Of an
option with many values the ends of its range are tried, what is near 0, and where the number, taken
as a straight line in the option, would be 0. What a spec `need`s holds in what is found.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, product
from typing import TypeAlias

from mstarc.names import Symbol
from mstarc.syntax import ast
from mstarc.typecheck.comparisons import holds
from mstarc.typecheck.constants import ConfigScalar, arithmetic
from mstarc.typecheck.intervals import length_of
from mstarc.typecheck.logic import FALSE, TRUE
from mstarc.typecheck.state import State
from mstarc.typecheck.statics import formula

Given: TypeAlias = Mapping[Symbol, ConfigScalar]
Guards: TypeAlias = tuple[tuple[ast.Expr, bool], ...]
"""Conditions, and whether they hold."""
Witness: TypeAlias = dict[Symbol, ConfigScalar]

_MOST_VALUES = 64
"""Of an option, or of an index: with more, the first and the last half as many are tried."""
_MOST_TOGETHER = 600
"""Combinations of several options that are not at their defaults."""


def value_of(expr: ast.Expr, given: Given, state: State) -> ConfigScalar | None:
    """What an expression is in a request; None where these options do not say it."""

    def of(part: ast.Expr) -> ConfigScalar | None:
        return value_of(part, given, state)

    match expr:
        case ast.Int() | ast.Float() | ast.Str() | ast.Bool():
            return expr.value
        case ast.Unary():
            value = of(expr.operand)
            return -value if isinstance(value, int | float) else None
        case ast.Binary():
            left, right = of(expr.left), of(expr.right)
            if not (isinstance(left, int | float) and isinstance(right, int | float)):
                return None
            return arithmetic(expr.op, left, right)
        case ast.Compare():
            left, right = of(expr.left), of(expr.right)
            return None if left is None or right is None else holds(left, expr.op, right)
        case ast.And() | ast.Or():
            sides = of(expr.left), of(expr.right)
            decisive = isinstance(expr, ast.Or)
            if decisive in sides:
                return decisive
            return None if None in sides else not decisive
        case ast.Not():
            value = of(expr.operand)
            return None if value is None else not value
        case ast.Member(container=ast.Name() as container):
            item, values = of(expr.item), state.config.get(container.text)
            return item in values if item is not None and isinstance(values, tuple) else None
        case ast.Name():
            return _named(expr, given, state)
        case _:
            return None


def _named(name: ast.Name, given: Given, state: State) -> ConfigScalar | None:
    symbol = state.resolved.meaning(name)
    if symbol is None:
        return None
    if symbol.kind == "config":
        value = state.config.get(symbol.name)
        return None if isinstance(value, tuple) else value
    if isinstance(symbol.node, ast.Let):
        return value_of(symbol.node.value, given, state)
    return given.get(symbol)


def names_in(exprs: Iterable[ast.Expr], state: State) -> tuple[Symbol, ...]:
    """The options and indices that expressions depend on, lets taken as what they say."""
    nodes = (node for expr in exprs for node in ast.descendants(expr))
    used = (state.resolved.meaning(node) for node in nodes if isinstance(node, ast.Name))
    return names_of((symbol for symbol in used if symbol is not None), state)


def names_of(symbols: Iterable[Symbol], state: State) -> tuple[Symbol, ...]:
    """The options and indices among symbols, and those that their lets and lengths depend on."""
    found: dict[Symbol, None] = {}
    for symbol in symbols:
        inner: tuple[ast.Expr, ...] = ()
        if isinstance(symbol.node, ast.Let):
            inner = (symbol.node.value,)
        elif symbol.kind in ("option", "index"):
            found[symbol] = None
            length = length_of(symbol)
            inner = () if length is None else (length,)
        found.update(dict.fromkeys(names_in(inner, state)))
    return tuple(sorted(found, key=lambda s: (s.kind == "index", s.declaration.span.start)))


def find_zero(
    number: ast.Expr, guards: Guards, state: State, *, within: Symbol | None = None
) -> Witness | None:
    """Options, and indices, under which `number` is 0 and each of `guards` is as it says.

    `within` is the index of the table that the number is of: without entries it is not computed.
    """
    names = names_in((number, *(guard for guard, _ in guards)), state)
    if within is not None:
        names = names_of((*names, within), state)
    return find_witness(
        names, lambda given: value_of(number, given, state), lambda n: n == 0, guards, state
    )


def find_witness(
    names: tuple[Symbol, ...],
    number: Callable[[Given], ConfigScalar | None],
    is_bad: Callable[[int | float], bool],
    guards: Guards,
    state: State,
) -> Witness | None:
    """Values of `names` under which a number of them is bad and each of `guards` is as it says."""
    for given in _requests(names, number, state) if names else ():
        value = number(given)
        if value is None or isinstance(value, str) or not is_bad(value):
            continue
        if any(name.kind == "index" and not _is_there(name, given, state) for name in names):
            continue
        if any(value_of(guard, given, state) is (not wanted) for guard, wanted in guards):
            continue
        if _is_admitted(given, guards, state):
            return given
    return None


def _requests(
    names: tuple[Symbol, ...], number: Callable[[Given], ConfigScalar | None], state: State
) -> Iterator[Witness]:
    """Requests to try, those with least out of the ordinary first."""
    usual = _usual(names, state)
    if usual is None:
        return
    yield usual
    for name in names:
        for value in (*_roots(name, usual, number, state), *_values(name, usual, state)):
            yield _with_lengths({**usual, name: value}, names, state)
    if len(names) == 1:
        return
    few = [_few(name, usual, state) for name in names]
    for values in islice(product(*few), _MOST_TOGETHER):
        given = _with_lengths(dict(zip(names, values, strict=True)), names, state)
        yield given
        for root in _roots(names[-1], given, number, state):
            yield {**given, names[-1]: root}


def _usual(names: tuple[Symbol, ...], state: State) -> Witness | None:
    given: Witness = {}
    for name in names:
        if name.kind == "index":
            given[name] = 0
            continue
        option = state.options.get(name.name)
        if option is None:
            return None
        values = (option.default, *(option.domain[1] if option.domain is not None else ()))
        known = [value for value in values if value is not None and not isinstance(value, tuple)]
        if not known:
            known = [0]
        given[name] = known[0]
    return given


def _with_lengths(given: Witness, names: tuple[Symbol, ...], state: State) -> Witness:
    """Indices are behind none of their lengths."""
    for name in names:
        if name.kind == "index":
            last = _last(name, given, state)
            at = given[name]
            assert isinstance(at, int)
            given[name] = at if last is None else min(at, max(last, 0))
    return given


def _is_there(index: Symbol, given: Given, state: State) -> bool:
    """Whether there is an entry or a pass of this number."""
    last, at = _last(index, given, state), given[index]
    return last is not None and isinstance(at, int) and 0 <= at <= last


def _last(index: Symbol, given: Given, state: State) -> int | None:
    length = length_of(index)
    count = None if length is None else value_of(length, given, state)
    return count - 1 if isinstance(count, int) else None


def _values(name: Symbol, given: Given, state: State) -> Iterator[ConfigScalar]:
    """What an option or an index may be; of much, the first and the last."""
    if name.kind == "index":
        last = _last(name, given, state)
        yield from range(min((last if last is not None else 0) + 1, _MOST_VALUES))
        return
    option = state.options[name.name]
    if option.domain is None:
        kind = str(option.type)
        yield from (False, True) if kind == "bool" else ()
        yield from range(-1, _MOST_VALUES) if kind == "int" else ()
        yield from (0.0, 1.0, -1.0, 2.0, 0.5) if kind == "float" else ()
        return
    kind, values = option.domain
    known = [value for value in values if not isinstance(value, tuple)]
    if kind == "set":
        yield from known
        return
    low, high = known
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    if isinstance(low, int) and isinstance(high, int):
        half = _MOST_VALUES // 2
        yield from range(low, min(low + half, high + 1))
        yield from range(max(low + half, high - half), high + 1)
    else:
        yield from (low, high, *(float(n) for n in range(-4, 9) if low < n < high))


def _few(name: Symbol, given: Given, state: State) -> tuple[ConfigScalar, ...]:
    """The usual value, the two first ones and the last one."""
    values = tuple(_values(name, given, state))
    return tuple(dict.fromkeys((given[name], *values[:3], *values[-1:])))


def _roots(
    name: Symbol, given: Given, number: Callable[[Given], ConfigScalar | None], state: State
) -> Iterator[ConfigScalar]:
    """Where the number would be 0, if it were a straight line in what `name` stands for."""
    here = given[name]
    if isinstance(here, bool | str):
        return
    one = number({**given, name: here})
    two = number({**given, name: here + 1})
    if not isinstance(one, int | float) or not isinstance(two, int | float) or one == two:
        return
    root = here - one / (two - one)
    if isinstance(here, int):
        root = round(root)
    if _allows(name, root, given, state):
        yield root


def _allows(name: Symbol, value: int | float, given: Given, state: State) -> bool:
    if name.kind == "index":
        last = _last(name, given, state)
        return value >= 0 and last is not None and value <= last
    domain = state.options[name.name].domain
    if domain is None:
        return True
    kind, values = domain
    if kind == "set":
        return value in values
    low, high = values
    return low <= value <= high  # type: ignore[operator]  # a range is of numbers


def _is_admitted(given: Given, guards: Guards, state: State) -> bool:
    """Whether a request with these options may be admitted; others may be what suits."""
    needs = [
        need.condition
        for need in state.resolved.spec.all_of(ast.NeedDecl)
        if need.condition in state.types
    ]
    wanted = (*((need, True) for need in needs), *guards)
    others = [name for name in names_in((e for e, _ in wanted), state) if name not in given]
    usual = _usual(tuple(others), state)
    if usual is None:
        return False
    tries: list[Given] = [{**usual, **given}]
    tries += [
        {**usual, name: value, **given} for name in others for value in _values(name, usual, state)
    ]
    return any(_may_meet(wanted, one, state) for one in tries)


def _may_meet(wanted: Iterable[tuple[ast.Expr, bool]], given: Given, state: State) -> bool:
    """Whether nothing wanted is known to be otherwise; what is not known may suit all of them."""
    logic = state.logic
    left = []
    for expr, truth in wanted:
        value = value_of(expr, given, state)
        if value is None:
            left.append(
                _reduced(expr, given, state)
                if truth
                else logic.negation(_reduced(expr, given, state))
            )
        elif bool(value) is not truth:
            return False
    return logic.is_possible(logic.both(*left))


def _reduced(expr: ast.Expr, given: Given, state: State) -> int:
    """The formula of a condition in which what is known is put in: outputs and inputs are left."""
    logic = state.logic
    value = value_of(expr, given, state)
    if isinstance(value, bool):
        return TRUE if value else FALSE
    match expr:
        case ast.And():
            return logic.both(_reduced(expr.left, given, state), _reduced(expr.right, given, state))
        case ast.Or():
            return logic.either(
                _reduced(expr.left, given, state), _reduced(expr.right, given, state)
            )
        case ast.Not():
            return logic.negation(_reduced(expr.operand, given, state))
        case ast.Name():
            symbol = state.resolved.meaning(expr)
            if symbol is not None and isinstance(symbol.node, ast.Let):
                return _reduced(symbol.node.value, given, state)
    return formula(expr, state)
