"""What holds in every request that is admitted: its needs, and as many parts as declared."""

from mstarc.syntax import ast
from mstarc.typecheck.logic import TRUE
from mstarc.typecheck.state import State
from mstarc.typecheck.statics import formula
from mstarc.typecheck.types import PartsType


def premise_of(state: State) -> int:
    """What holds in every request: its needs, and that there are as many parts as declared."""
    logic = state.logic
    holds = TRUE
    for need in state.resolved.spec.all_of(ast.NeedDecl):
        if need.condition in state.types:
            holds = logic.both(holds, formula(need.condition, state))
    for field in state.resolved.spec.request_fields:
        if not isinstance(field, ast.InField) or field.quantity is None:
            continue
        parts = state.fields.get(field.name.text)
        some = field.quantity.at_least is not None and field.quantity.at_least.value > 0
        if some and isinstance(parts, PartsType):
            kinds = [logic.atom(f"has {kind.kind}") for kind in parts.kinds]
            holds = logic.both(holds, logic.either(*kinds))
    # Needs that no request meets are reported on their own.
    return holds if logic.is_possible(holds) else TRUE
