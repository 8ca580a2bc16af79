"""Settle the variables of a machine that has been cut: which are one, and what outlives a step.

A value that outlives a step gets a register (of fixed size, at most 64 KiB a request or used in a
capture region), one object a slot (`values`), or a collector. A graph has its values in one place:
of one that is as large as the request says, and of which a region takes one entry at a time, the
register has room for the most that there may be.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from mstarc.analysis.bounds import upper_bound
from mstarc.ir.exprs import LetRef, Local, LoopIndex, Option, Slice
from mstarc.ir.graph import Machine, Program
from mstarc.ir.types import DimConst, DimVar, TensorType, Type
from mstarc.ir.walking import subexpressions
from mstarc.plan.actions import Action, Repeat, expressions_of
from mstarc.plan.draft import Draft, Goto, Label, LoopEdge
from mstarc.plan.flatten import Flattener
from mstarc.plan.hops import Hops
from mstarc.plan.lanes import lanes_of
from mstarc.plan.liveness import Flow, apply_names, coalesce
from mstarc.plan.naming import attribute, step_names, variable_names
from mstarc.plan.plan import Grow, Storage, Variable
from mstarc.plan.signatures import Signatures, static_bytes, where_there
from mstarc.plan.step_facts import defined_in, prepares_of, used_in

REGISTER_BYTES = 64 * 1024


@dataclass(slots=True, kw_only=True, eq=False)
class MachineFlow:
    """One machine after cutting: its steps, their names, and its variables."""

    machine: Machine
    flattener: Flattener
    flow: Flow
    names: dict[Draft, str]
    variables: dict[str, Variable]
    hops: Hops

    def kept(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those variables that outlive a step."""
        return tuple(n for n in names if self.variables[n].storage != "local")


def settle(flattener: Flattener, program: Program) -> MachineFlow:
    """Merge copies, drop steps that are left empty, and find what outlives a step."""
    drafting = flattener.drafting
    flow = Flow(drafting.drafts, drafting.bound, drafting.forward)
    flow.solve()
    merged = coalesce(flow, flattener.types, frozenset(flattener.loops.collectors))
    groups: dict[str, list[str]] = {}
    for name, group in merged.items():
        groups.setdefault(group, []).append(name)
    names = variable_names(
        flattener.machine.name,
        groups,
        flattener.hints,
        flattener.loops.carried,
        _attributes(program),
    )
    apply_names(flow.drafts, {name: names[group][0] for name, group in merged.items()})
    _drop_empty(flow, flattener.state_labels[flattener.machine.states[0].name])
    flow.solve()

    bounds = {
        names[merged[name]][0]: upper_bound(program, bound)
        for name, bound in flattener.loops.collectors.items()
    }
    alive: frozenset[str] = frozenset().union(*flow.live_in.values())
    captured = _captured(flow, program)
    signatures = Signatures(program)
    # Page tables are the host's: it must know by how much positions move.
    advances = {
        number
        for draft in flow.drafts
        for grow in prepares_of(tuple(draft.actions), signatures)
        if isinstance(grow, Grow)
        for number in (grow.advance, grow.count)
    }
    variables = {}
    for group, (name, local) in names.items():
        type_ = where_there(flattener.types[group])
        if name in captured and name not in bounds and (most := _most(program, type_)) is not None:
            type_ = most if _is_only_picked(name, flow) else type_
        size = static_bytes(type_)
        storage: Storage = "local"
        if name in bounds:
            storage = "collector"
        elif name in advances:
            storage = "values"
        elif name in alive:
            fits = size is not None and (size <= REGISTER_BYTES or name in captured)
            storage = "register" if fits else "values"
        variables[name] = Variable(
            name=name, local=local, type=type_, storage=storage, capacity=bounds.get(name)
        )
    return MachineFlow(
        machine=flattener.machine,
        flattener=flattener,
        flow=flow,
        names=step_names(flow.drafts),
        variables=variables,
        hops=Hops(program, flow),
    )


def _captured(flow: Flow, program: Program) -> frozenset[str]:
    """Variables of steps in regions: a graph has them in one place."""
    held = {site for region in program.regions for site in region.sites}
    found: set[str] = set()
    for draft in flow.drafts:
        if any(call.site in held for call in draft.calls):
            actions = tuple(draft.actions)
            found.update(used_in(actions), defined_in(actions))
    return frozenset(found)


def _most(program: Program, type_: Type) -> TensorType | None:
    """The largest that a tensor sized by its request may be."""
    if not isinstance(type_, TensorType):
        return None
    dims: list[DimConst] = []
    for dim in type_.dims:
        if isinstance(dim, DimConst):
            dims.append(dim)
            continue
        if not isinstance(dim, DimVar) or not dim.request:
            return None
        is_option = any(option.name == dim.name for option in program.options)
        bound = upper_bound(program, Option(dim.name) if is_option else LetRef(dim.name))
        if bound is None:
            return None
        dims.append(DimConst(bound))
    return replace(type_, dims=tuple(dims))


def _every(actions: Iterable[Action]) -> Iterator[Action]:
    """Actions, with those of repeated bodies."""
    for action in actions:
        yield action
        if isinstance(action, Repeat):
            yield from _every(action.body)


def _is_only_picked(name: str, flow: Flow) -> bool:
    """Whether every use of a variable takes one entry of it, that of a pass."""
    uses = [
        part
        for draft in flow.drafts
        for action in _every(draft.actions)
        for expr in expressions_of(action)
        for part in subexpressions(expr)
    ]
    picks = [
        part
        for part in uses
        if isinstance(part, Slice)
        and part.value == Local(name)
        and part.axes
        and isinstance(part.axes[0], LoopIndex)
    ]
    return len(picks) == sum(part == Local(name) for part in uses)


def _attributes(program: Program) -> frozenset[str]:
    """The attributes of nodes, streams and config lists on a rank."""
    names = [node.name for node in program.nodes]
    names += [lane.name for stream in program.streams for lane in lanes_of(stream)]
    names += [name for name, _ in program.config] + [table.name for table in program.tables]
    return frozenset(map(attribute, names))


def _drop_empty(flow: Flow, start: Label) -> None:
    """Steps that do nothing any more are stepped over; a machine begins with one in any case."""
    for draft in list(flow.drafts):
        if draft.kind == "device" and not draft.actions and isinstance(draft.then, Goto):
            if draft.reads or flow.at(draft.then.target) is draft:
                continue
            flow.skip(draft, draft.then.target)
    first = flow.at(start)
    for draft in list(flow.drafts):
        is_empty = draft.kind == "device" and not draft.actions and not draft.reads
        if is_empty and isinstance(draft.then, LoopEdge) and draft is not first:
            flow.turn_back(draft)
