"""When a value is there, in words."""

from mstarc.syntax import ast
from mstarc.typecheck.environment import Env, Held
from mstarc.typecheck.state import State
from mstarc.typecheck.text import shown


def absence(expr: ast.Expr, env: Env, state: State) -> tuple[Held | None, str | None]:
    """What is known of a value that may not be there: the value, and when it is."""
    base = expr
    while isinstance(base, ast.Attr | ast.Index):
        base = base.base
    symbol = state.resolved.meaning(base) if isinstance(base, ast.Name) else None
    held = env.values.get(symbol) if symbol is not None else None
    if held is None or state.logic.implies(env.facts, held.present):
        return held, None
    atoms = state.logic.atoms_of(held.present)
    if len(atoms) == 1:
        positive = held.present == state.logic.atom(atoms[0])
        return held, shown(atoms[0]) if positive else f"not {shown(atoms[0])}"
    return held, None
