"""How many passes of a loop run on a device before the host looks at what they have left.

Before:  device step speak.decode.pass, again until its loop is over: grow lm 1; codes <- token
After:   the same, in stretches of 4 passes

A pass that is one step, whose calls have a known number of rows each and stand in a region, needs
nothing of the host before the next one: its flag says on the device who goes on, and the rows
behind the last ones are where they are. So the passes of a stretch are launched one behind the
other, and those of the next stretch before the host looks. A reader waits for what has landed: a
stretch sends no more than one chunk brings anew. A step of which the host must know each pass has
no stretch; nor has one that calls a node of which several ranks hold parts, and another one.

An item that a pass pulls stands behind the last one in its ring, and a context that each pass
empties and fills again is where it was: there the device goes on by itself, too.
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise

from mstarc.analysis.rates import new_items
from mstarc.ir.graph import Stream
from mstarc.plan.actions import ClearContext
from mstarc.plan.lanes import stream_of
from mstarc.plan.plan import Grow, LoopTarget, RunStep, Variable


def stretch_of(
    step: RunStep, most: int, streams: Mapping[str, Stream], variables: Mapping[str, Variable]
) -> int:
    """The passes of a stretch, `most` at most; 0 where the host looks at each pass before the next.

    Contexts grow by as many rows in each pass; what is kept has a place of its own on the device.
    """
    then = step.then
    is_static = step.rows in ("one", "fixed")
    if not most or step.region is None or not is_static or not isinstance(then, LoopTarget):
        return 0
    if then.kind != "again" or then.first != step.id or step.reads or step.sure:
        return 0
    if step.rows == "one" and step.passes and step.buckets == (1,):
        return 0  # of one request alone: the host may say the number
    if step.rows != "one" and step.pulls:
        return 0
    renewed = _renewed(step)
    if not all(_is_known(p, step, renewed) for p in step.prepares):
        return 0
    contexts = [(p.node, p.context) for p in step.prepares if isinstance(p, Grow)]
    if len(set(contexts)) < len(contexts) or _on_host((*step.loads, *step.stores), variables):
        return 0
    for lane, items in step.sends:
        most = min(most, max(1, new_items(streams[stream_of(lane)].policy) // items))
    return most


def _renewed(step: RunStep) -> set[tuple[str, str]]:
    """Contexts that a pass empties right before it writes to them, and at no other place."""
    emptied = [
        (before.node, before.context)
        for before, grown in pairwise(step.prepares)
        if isinstance(before, ClearContext)
        and before.index is None
        and isinstance(grown, Grow)
        and (grown.node, grown.context) == (before.node, before.context)
    ]
    return set(emptied) if step.rows == "one" else set()


def _is_known(prepared: object, step: RunStep, renewed: set[tuple[str, str]]) -> bool:
    """Whether each pass has as many rows as the others: then the device moves on."""
    if isinstance(prepared, ClearContext):
        return (prepared.node, prepared.context) in renewed
    if not isinstance(prepared, Grow):
        return False
    is_one = prepared.rows == 1 or (prepared.node, prepared.context) in renewed
    return (step.rows == "fixed" or (is_one and prepared.kept)) and (
        prepared.of,
        prepared.count,
        prepared.advance,
        prepared.index,
    ) == (None,) * 4


def _on_host(names: Iterable[str], variables: Mapping[str, Variable]) -> bool:
    return any(variables[name].storage == "values" for name in names)
