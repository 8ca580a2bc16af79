"""Which prompts may be read in pieces, and which of them may share their pages with others.

Before:  device step speak.begin.start: token = lm.prefill(ids)       packed, as long as ids are
After:   the same, with pieces of `ids` on context main of `lm`: shared

A call that attends causally and writes makes each row of its inputs, its position and the rows
before it. (Where an op says how far positions move, that is so behind the last piece, and all rows
have the position at which the first one begins.) So what it leaves in its context is the same
whether it gets all rows at once or some and then the others; only results of one row a request need
all of them, and those are of the last piece. Results with a row for each of its rows are kept piece
behind piece, for later steps. Where all it gets besides numbers of the spec are whole numbers or
truths that host code has made, two requests that begin with the same ones have the same rows, and
one may use the other's, unless each wants such results.
"""

from collections.abc import Set

from mstarc.ir.exprs import Const, Local
from mstarc.ir.types import DimConst, DimVar, OptionalType, TensorType
from mstarc.plan.actions import Action, CallOp, Read, Repeat
from mstarc.plan.plan import Grow, Prepared, Variable
from mstarc.plan.prompt import Pieces, Prompt
from mstarc.plan.signatures import Signatures, has_free_dim
from mstarc.plan.step_facts import contexts_of, used_in

_COUNTED = ("i64", "i32", "u8", "bool")


def prompt_of(
    actions: tuple[Action, ...],
    prepares: tuple[Prepared, ...],
    signatures: Signatures,
    *,
    loads: tuple[str, ...],
    variables: dict[str, Variable],
    from_host: Set[str],
) -> Prompt | None:
    """What is known of a packed step's prompt; None where it reads none.

    `from_host` are the variables that nothing but host ops set.
    """
    calls = [action for action in actions if isinstance(action, CallOp)]
    calls += [c for a in actions if isinstance(a, Repeat) for c in a.body if isinstance(c, CallOp)]
    prompts = [call for call in calls if _is_prompt(call, signatures)]
    if not prompts:
        return None
    call = prompts[0]
    why = (
        "" if len(calls) == 1 and call in actions else "other calls run in its step"
    ) or _why_whole(call, prepares, signatures)
    op = signatures.op(call)
    rows_given = [
        name
        for result, name in zip(op.results, call.results, strict=True)
        if name is not None and has_free_dim(result.type)
    ]
    used = used_in(actions)
    for name in rows_given:
        if not why and (name in used or variables[name].storage != "values"):
            why = f"`{name}`, with a row for each of its rows, is used in its step"
    rows = [
        argument
        for parameter, argument in zip(op.parameters, call.arguments, strict=True)
        if has_free_dim(parameter.type)
    ]
    read = {action.result for action in actions if isinstance(action, Read)}
    names = tuple(dict.fromkeys(row.name for row in rows if isinstance(row, Local)))
    if not why and (read & set(names)):
        why = "its rows are a stream's chunk"
    if not why and (
        len(names) < len(rows)
        or any(name not in loads or variables[name].storage != "values" for name in names)
    ):
        why = "its rows are made in its step"
    if why:
        return Prompt(site=call.site, why_whole=why)
    own = _why_own(call, names, signatures, from_host)
    (context, _), *_ = contexts_of(call, signatures)
    return Prompt(
        site=call.site,
        pieces=Pieces(
            of=names,
            node=call.node,
            context=context,
            op=call.op,
            call=call,
            rows=tuple(rows_given),
            is_shared=not own,
        ),
        why_own=own,
    )


def _is_prompt(call: CallOp, signatures: Signatures) -> bool:
    return (
        signatures.nodes[call.node].engine == "kv_cache"
        and bool(signatures.op(call).writes)
        and any(has_free_dim(parameter.type) for parameter in signatures.op(call).parameters)
    )


def _why_whole(call: CallOp, prepares: tuple[Prepared, ...], signatures: Signatures) -> str:
    """Why the op needs all of its rows at once; empty where it does not."""
    op = signatures.op(call)
    if op.mask is not None and op.mask.kind != "causal":
        return f"rows see later ones: `attends {op.mask.kind}`"
    if call.over is not None or call.index is not None:
        return "it is on an array of contexts"
    contexts = contexts_of(call, signatures)
    if len(contexts) != 1 or len({*op.writes, *op.reads}) != 1:
        return "it works on several contexts"
    if any(not isinstance(prepared, Grow) for prepared in prepares):
        return "contexts are forked or emptied in front of it"
    dims = [p.type.dims for p in op.parameters if isinstance(p.type, TensorType) and p.type.dims]
    free = [d for d in dims if any(not isinstance(size, DimConst) for size in d)]
    leading = {d[0].name if isinstance(d[0], DimVar) else None for d in free}
    if len(leading) != 1 or None in leading:
        return "not all of its rows are counted by one size"
    if any(not isinstance(size, DimConst) for d in free for size in d[1:]):
        return "rows have no fixed size"
    for parameter, argument in zip(op.parameters, call.arguments, strict=True):
        if isinstance(parameter.type, OptionalType) and argument != Const(None):
            return f"`{parameter.name}` may be none"
    return ""


def _why_own(
    call: CallOp, names: tuple[str, ...], signatures: Signatures, from_host: Set[str]
) -> str:
    """Why two requests' rows may differ although their tokens do not; empty where they can't."""
    if call.advance is not None:
        return "positions do not move by its rows"
    op = signatures.op(call)
    for result, given in zip(op.results, call.results, strict=True):
        if given is not None and has_free_dim(result.type):
            return f"`{result.name}` has a row for each of its rows"
    for parameter, argument in zip(op.parameters, call.arguments, strict=True):
        if isinstance(argument, Const):
            continue
        if not isinstance(argument, Local) or argument.name not in names:
            return f"`{parameter.name}` is each request's own"
        type_ = parameter.type
        if isinstance(type_, TensorType) and type_.dtype not in _COUNTED:
            return f"`{parameter.name}` are no tokens but `{type_.dtype}`"
        if argument.name not in from_host:
            return f"`{parameter.name}` is made on a device"
    return ""
