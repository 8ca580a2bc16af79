"""Which variables are alive where, and which of them may be one variable.

Backwards over the steps of one machine: a variable is alive before a step if the step reads it
before setting it, or if it is alive behind the step and the step does not set it. Two variables
that are copies of one another and never alive with different contents become one, so that a loop's
carried value, its next value and its result share a register.
"""

from collections.abc import Callable, Mapping

from mstarc.ir.exprs import Local
from mstarc.ir.types import DimConst, TensorType, Type
from mstarc.plan.actions import (
    Action,
    Move,
    PullItem,
    Read,
    Repeat,
    definitions_of,
    map_action,
    uses_of,
    without_empty,
)
from mstarc.plan.draft import Draft, Goto, Label, LoopEdge
from mstarc.plan.signatures import where_there

Names = frozenset[str]
Visit = Callable[[Action, Names], None]


class Flow:
    """The steps of one machine with their edges resolved."""

    def __init__(
        self, drafts: list[Draft], bound: dict[Label, Draft], forward: dict[Label, Label]
    ) -> None:
        self.drafts = drafts
        self._bound = bound
        self._forward = forward
        self.live_in: dict[int, Names] = {}
        self.live_out: dict[int, Names] = {}
        self.beside: dict[int, Names] = {}

    def at(self, label: Label) -> Draft:
        """The step that stands at a label."""
        while label in self._forward:
            label = self._forward[label]
        return self._bound[label]

    def skip(self, draft: Draft, label: Label) -> None:
        """Take a step out: what led to it leads to `label`."""
        self.drafts.remove(draft)
        for name in [name for name, bound in self._bound.items() if bound is draft]:
            del self._bound[name]
            self._forward[name] = label

    def turn_back(self, draft: Draft) -> None:
        """Take out a step that only leads into a loop, or back: what led to it does that itself.

        Nothing changes where something else leads to it than a step or a choice of its rank.
        """
        edge = draft.then
        assert isinstance(edge, LoopEdge)
        before = [other for other in self.drafts if draft in self.targets(other)]
        if not before or not all(self._may_turn(other, draft) for other in before):
            return
        for other in before:
            if isinstance(other.then, Goto) and self.at(other.then.target) is draft:
                other.then = edge
            if isinstance(other.yes, Label) and self.at(other.yes) is draft:
                other.yes = edge
            if isinstance(other.no, Label) and self.at(other.no) is draft:
                other.no = edge
        self.drafts.remove(draft)

    def _may_turn(self, other: Draft, draft: Draft) -> bool:
        if other is draft or other.rank != draft.rank or other.inside != draft.inside:
            return False
        fixed = [other.drained, other.last, *other.branches]
        for edge in (other.then, other.yes, other.no):
            fixed += [edge.first, edge.otherwise] if isinstance(edge, LoopEdge) else []
        if any(label is not None and self.at(label) is draft for label in fixed):
            return False
        return other.kind in ("device", "host", "branch")

    def targets(self, draft: Draft) -> list[Draft]:
        """Where rows of a step may go, each once."""
        labels: list[Label | None] = [draft.drained, draft.last, *draft.branches]
        for edge in (draft.yes, draft.no, draft.then):
            match edge:
                case Goto(target):
                    labels.append(target)
                case LoopEdge(first=first, otherwise=otherwise):
                    labels += [first, otherwise]
                case label:
                    labels.append(label)
        return list(dict.fromkeys(self.at(label) for label in labels if label is not None))

    def solve(self) -> None:
        """Find what is alive before and behind every step, and what is while branches run.

        A branch brings to the join what it sets; the rest waits where the spread is.
        """
        sets = self.set_in_branches()
        self.live_in = {id(draft): frozenset() for draft in self.drafts}
        changed = True
        while changed:
            changed = False
            for draft in reversed(self.drafts):
                out: Names = frozenset()
                for target in self.targets(draft):
                    out |= self._brought(draft, target, sets)
                if draft.join is not None:
                    made = [
                        sets.get((id(draft), n), frozenset()) for n in range(len(draft.branches))
                    ]
                    out |= self.live_in[id(draft.join)] - frozenset().union(*made)
                self.live_out[id(draft)] = out
                before = backwards(tuple(draft.actions), out)
                if draft.drained is not None:
                    # A row that finds its stream closed leaves before the step sets anything.
                    before |= self._brought(draft, self.at(draft.drained), sets)
                changed = changed or before != self.live_in[id(draft)]
                self.live_in[id(draft)] = before

        used = self.used_in_branches()
        for draft in self.drafts:
            beside: Names = frozenset()
            for spread, number in draft.inside:
                assert spread.join is not None
                beside |= self.live_in[id(spread.join)]
                for other in range(len(spread.branches)):
                    if other != number:
                        key = id(spread), other
                        # A hop may bring what is set here before the other has read its values.
                        beside |= sets.get(key, frozenset()) | used.get(key, frozenset())
            self.beside[id(draft)] = beside

    def set_in_branches(self) -> dict[tuple[int, int], Names]:
        """What the steps of each branch set, by (spread, number)."""
        sets: dict[tuple[int, int], Names] = {}
        for draft in self.drafts:
            names = frozenset(name for a in draft.actions for name in definitions_of(a))
            for spread, number in draft.inside:
                key = id(spread), number
                sets[key] = sets.get(key, frozenset()) | names
        return sets

    def used_in_branches(self) -> dict[tuple[int, int], Names]:
        """What the steps of each branch read, by (spread, number)."""
        used: dict[tuple[int, int], Names] = {}
        for draft in self.drafts:
            names = backwards(tuple(draft.actions), frozenset())
            for spread, number in draft.inside:
                key = id(spread), number
                used[key] = used.get(key, frozenset()) | names
        return used

    def _brought(self, draft: Draft, target: Draft, sets: dict[tuple[int, int], Names]) -> Names:
        alive = self.live_in[id(target)]
        for spread, number in draft.inside:
            if spread.join is target:
                return alive & sets.get((id(spread), number), frozenset())
        return alive


def backwards(actions: tuple[Action, ...], alive: Names, visit: Visit | None = None) -> Names:
    """What is alive before actions, given what is behind; `visit` sees each with what is behind."""
    for action in reversed(actions):
        if visit is not None:
            visit(action, alive)
        alive -= frozenset(definitions_of(action))
        if isinstance(action, Repeat):
            alive = _repeated(action, alive, visit)
        else:
            alive |= frozenset(uses_of(action))
    return alive


def _repeated(action: Repeat, alive: Names, visit: Visit | None) -> Names:
    """What is alive before a repeated body: also what a pass leaves for the next."""
    behind = alive
    while True:
        before = backwards(action.body, behind)
        if before <= behind:
            break
        behind |= before
    return backwards(action.body, behind, visit)


def coalesce(flow: Flow, types: Mapping[str, Type], collectors: Names) -> dict[str, str]:
    """Make copies one variable where that changes nothing. Gives each variable its new name."""
    copies: list[tuple[str, str]] = []
    clashes: set[frozenset[str]] = set()
    settings: dict[str, int] = {}
    chunks: set[str] = set()

    def visit(action: Action, alive: Names) -> None:
        defined = definitions_of(action)
        sources = {}
        if isinstance(action, Move):
            sources = {name: v.name for name, v in action.pairs if isinstance(v, Local)}
            copies.extend(sources.items())
        if isinstance(action, Read | PullItem):
            chunks.add(action.result)
        for name in defined:
            if name not in sources:
                settings[name] = settings.get(name, 0) + 1
            for other in (alive | frozenset(defined)) - {name}:
                if sources.get(name) != other:
                    clashes.add(frozenset((name, other)))

    flow.solve()
    for draft in flow.drafts:
        behind = flow.live_out[id(draft)] | flow.beside[id(draft)]
        backwards(tuple(draft.actions), behind, visit)

    groups = {name: {name} for name in types}
    for target, source in reversed(copies):
        one, two = groups[target], groups[source]
        if one is two or not _alike(types[target], types[source]):
            continue
        if any(frozenset((a, b)) in clashes for a in one for b in two):
            continue
        if chunks & (one | two):
            continue
        if bool(collectors & one) != bool(collectors & two):
            plain = two if collectors & one else one
            if any(settings.get(name) for name in plain):
                continue
        merged = one | two
        for name in merged:
            groups[name] = merged
    order = {name: index for index, name in enumerate(types)}
    return {name: min(group, key=order.__getitem__) for name, group in groups.items()}


def apply_names(drafts: list[Draft], names: dict[str, str]) -> None:
    """Rename the variables of all steps; copies onto themselves go away."""
    for draft in drafts:
        draft.actions = list(
            without_empty(tuple(map_action(action, names) for action in draft.actions))
        )


def _alike(one: Type, two: Type) -> bool:
    """Whether two types have one form in memory: free dims may have other names."""
    one, two = where_there(one), where_there(two)
    if not isinstance(one, TensorType) or not isinstance(two, TensorType):
        return one == two
    if one.dtype != two.dtype or len(one.dims) != len(two.dims):
        return False
    return all(
        a == b or not (isinstance(a, DimConst) or isinstance(b, DimConst))
        for a, b in zip(one.dims, two.dims, strict=True)
    )
