"""Whether a place in a body is come to in every request of a kind, through the runs of its walk."""

from mstarc.syntax import ast
from mstarc.typecheck.state import State


def is_always_reached(node: ast.Node, facts: int, premise: int, state: State) -> bool:
    """Whether a request for which `premise` holds comes to `node`, where `facts` hold."""
    return state.logic.implies(premise, facts) and _is_always_run(node, premise, state)


def _is_always_run(node: ast.Node, premise: int, state: State) -> bool:
    """Whether the walk around `node` runs whatever a request says for which `premise` holds."""
    around = next(
        (walk for walk in state.walks.values() if node in ast.descendants(walk.decl)), None
    )
    if around is None:
        return True
    runs = [call for call in state.runs if call.walk.text == around.name]
    return all(
        state.logic.implies(premise, state.runs[call]) and _is_always_run(call, premise, state)
        for call in runs
    )
