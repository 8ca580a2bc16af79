"""Entries of tables that are not there (MS0321), as far as the bounds of loops tell.

`t[i + 1]` in a loop of `steps` passes reads behind a table of `steps` entries in the last pass. An
index is looked at in the first pass and in the last one of the loops that it counts. Where the two
sizes do not compare, options are searched for which it is behind; where a condition around the call
asks for the index, or leaves requests out, nothing is said.
"""

from collections.abc import Iterable

from mstarc.diagnostics import Diagnostic, Label
from mstarc.names import Symbol
from mstarc.syntax import ast
from mstarc.typecheck.declared import dim_of
from mstarc.typecheck.dims import Dim, DimVar, constant, variable
from mstarc.typecheck.environment import Env
from mstarc.typecheck.needs import premise_of
from mstarc.typecheck.reach import is_always_reached
from mstarc.typecheck.state import State
from mstarc.typecheck.statics import static_dim
from mstarc.typecheck.text import text_of
from mstarc.typecheck.witnesses import Given, find_witness, names_in, value_of


def check_entries(expr: ast.Expr, env: Env, state: State) -> None:
    """Report the entries of tables that an argument of a call asks for in vain."""
    if isinstance(expr, ast.And | ast.Or):
        return  # one side may be there for the index of the other
    for part in ast.children(expr):
        if not isinstance(part, ast.Slice):
            check_entries(part, env, state)  # type: ignore[arg-type]  # children are values
    if not (isinstance(expr, ast.Index) and isinstance(expr.base, ast.Name)):
        return
    table = state.resolved.meaning(expr.base)
    item = expr.items[0]
    if table is not None and table.kind == "table" and not isinstance(item, ast.Slice):
        _check_entry(item, table, env, state)


def _check_entry(item: ast.Expr, table: Symbol, env: Env, state: State) -> None:
    declared = table.of(ast.TableDecl)
    length = static_dim(declared.length, state)
    loops: dict[DimVar, ast.Loop] = {}

    def leaf(name: ast.Name) -> Dim | None:
        symbol = state.resolved.meaning(name)
        if symbol is None or symbol.kind != "index":
            return static_dim(name, state)
        if not isinstance(symbol.node, ast.Loop) or _is_asked(symbol, env, state):
            return None
        number = DimVar(symbol.name, symbol.declaration.span.start, "request")
        loops[number] = symbol.node
        return variable(number)

    at = dim_of(item, state, leaf)
    if at is None or length is None:
        return
    first = at.replace(lambda number: constant(0) if number in loops else None)
    last = at
    if all(loop.bound.kind == "times" for loop in loops.values()):
        last = at.replace(lambda number: _last(loops.get(number), state))
    before = first.value
    if loops and before is not None and before < 0:
        _refuse_first(item, before, loops.values(), state, table)
        return
    if not any(_is_behind(entry, length) for entry in (first, last)):
        is_counted = all(loop.bound.kind == "times" for loop in loops.values())
        if is_counted and (last - length).value is None:
            state.entries[item] = (table, env.facts)
        return
    diagnostic = Diagnostic(
        code="MS0321",
        message=f"`{table.name}` has no entry `{text_of(item)}`",
        primary=Label(span=item.span, text=f"entry {last}" if loops else "behind its last one"),
        helps=("read an entry that is there, or make the table or the loop fit the other",),
    ).label(declared.length.span, f"has entries 0 .. {length - constant(1)}")
    for loop in loops.values():
        diagnostic = diagnostic.label(loop.bound.span, "its last pass reads behind them")
    state.sink.report(diagnostic)


def check_all_entries(state: State) -> None:
    """Report the entries that are not there for some values of options that the spec allows."""
    premise = premise_of(state)
    for item, (table, facts) in state.entries.items():
        length = table.of(ast.TableDecl).length
        if not is_always_reached(item, facts, premise, state):
            continue

        def behind(given: Given, item: ast.Expr = item, length: ast.Expr = length) -> int | None:
            entry, count = value_of(item, given, state), value_of(length, given, state)
            return entry - count if isinstance(entry, int) and isinstance(count, int) else None

        names = names_in((item, length), state)
        found = find_witness(names, behind, lambda number: number >= 0, (), state)
        if found is None:
            continue
        options = [name for name in found if name.kind == "option"]
        shown = " and ".join(f"`{name.name}` is {found[name]}" for name in options)
        entry, count = value_of(item, found, state), value_of(length, found, state)
        diagnostic = Diagnostic(
            code="MS0321",
            message=f"`{table.name}` has no entry `{text_of(item)}` in some requests",
            primary=Label(span=item.span, text=f"entry {entry} of {count} where {shown}"),
            helps=("make the table as long as the loop, or give the option another range",),
        ).label(length.span, "how many entries there are")
        for name in options:
            declared = state.options[name.name].decl
            span = declared.span if declared.domain is None else declared.domain.span
            diagnostic = diagnostic.label(span, "what the option may be")
        state.sink.report(diagnostic)


def _refuse_first(
    item: ast.Expr, entry: int, loops: Iterable[ast.Loop], state: State, table: Symbol
) -> None:
    diagnostic = Diagnostic(
        code="MS0321",
        message=f"`{table.name}` has no entry `{text_of(item)}`",
        primary=Label(span=item.span, text=f"entry {entry} in the first pass"),
        helps=("read an entry that is there: entries begin at 0",),
    )
    for loop in loops:
        diagnostic = diagnostic.label(loop.bound.span, "counts from 0")
    state.sink.report(diagnostic)


def _is_asked(index: Symbol, env: Env, state: State) -> bool:
    """Whether a condition around the call asks for a loop's index."""
    mark = f"{index.name}@{index.declaration.span.start}"
    return any(mark in atom for atom in state.logic.atoms_of(env.facts))


def _last(loop: ast.Loop | None, state: State) -> Dim | None:
    """The index of a loop's last pass."""
    count = None if loop is None else static_dim(loop.bound.count, state)
    return None if count is None else count - constant(1)


def _is_behind(entry: Dim, length: Dim) -> bool:
    beyond = (entry - length).value
    return beyond is not None and beyond >= 0
