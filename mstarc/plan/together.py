"""Branches of one rank that call one op: a call of several contexts at once.

Before:  here = llm.denoise(x, t) on main; other = llm.denoise(x, t) on no_text
After:   here, other = llm.denoise(x, t) on main and no_text

The rows of all contexts pass through the weights as one batch. Only calls that read their context
and keep nothing: a context that is written has rows of its own to be counted. A branch that is only
sometimes there (`alternatives`) makes two forms of the whole: with it, and without.
"""

from dataclasses import replace

from mstarc.ir.graph import Call, Parallel, Statement, When
from mstarc.plan.actions import Action, CallOp
from mstarc.plan.signatures import Signatures


def together(actions: tuple[Action, ...], signatures: Signatures) -> tuple[Action, ...]:
    """The actions, calls that follow one another on other contexts being one."""
    found: list[Action] = []
    for action in actions:
        last = found[-1] if found else None
        if isinstance(action, CallOp) and isinstance(last, CallOp):
            joined = _joined(last, action, signatures)
            if joined is not None:
                found[-1] = joined
                continue
        found.append(action)
    return tuple(found)


def _joined(call: CallOp, other: CallOp, signatures: Signatures) -> CallOp | None:
    node, op = signatures.nodes[call.node], signatures.op(call)
    if (call.node, call.op, call.arguments) != (other.node, other.op, other.arguments):
        return None
    if node.engine != "kv_cache" or op.writes or op.sampler is not None or call.there:
        return None
    if signatures.rows(other) != "packed" or not node.contexts:
        return None
    if {call.index, call.over, other.index, other.over} != {None}:
        return None
    first = node.contexts[0].name
    contexts = call.contexts or (call.context or first,)
    if (other.context or first) in contexts:
        return None
    return replace(
        call,
        context=None,
        contexts=(*contexts, other.context or first),
        results=call.results + other.results,
        text=f"{call.text}; {other.text}",
    )


def alternatives(parallel: Parallel, signatures: Signatures) -> When | None:
    """The branches as a choice between all of them and those that are always there.

    None unless all call one op that keeps nothing, and one of them has a condition.
    """
    sometimes = [
        branch[0]
        for branch in parallel.branches
        if len(branch) == 1 and isinstance(branch[0], When)
    ]
    if len(sometimes) != 1 or sometimes[0].otherwise:
        return None
    (when,) = sometimes
    always: tuple[Statement, ...] = tuple(
        statement for branch in parallel.branches if branch != (when,) for statement in branch
    )
    calls = (*always, *when.then)
    ops = {(call.node, call.op, call.arguments) for call in calls if isinstance(call, Call)}
    if len(ops) != 1 or not all(isinstance(call, Call) for call in calls):
        return None
    ((node, op, _),) = ops
    if signatures.nodes[node].engine != "kv_cache" or signatures.ops[node, op].writes:
        return None
    return replace(when, then=(*always, *when.then), otherwise=always)
