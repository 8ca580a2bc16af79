"""Where a machine goes to another rank: the hop steps of one machine, and what each takes along.

A hop is on the rank that the machine leaves and names the step that it goes on with. All values
that are alive there travel; into a branch of a spread go those that the branch reads, and from its
end those that it has set. The KV contexts that go along are those of `analysis.travel`.
"""

from dataclasses import dataclass

from mstarc.analysis.sizes import kv_row_bytes
from mstarc.analysis.travel import Held, Stop, journeys, used_by
from mstarc.deployment import device_kind
from mstarc.ir.graph import Program
from mstarc.plan.actions import Action, CallOp, ClearContext, ForkContext, Repeat
from mstarc.plan.draft import Draft, Inside
from mstarc.plan.liveness import Flow
from mstarc.plan.signatures import Signatures


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """From a rank to a step of another one. `ended` is the branch that ends at the step, if any."""

    rank: int
    target: Draft
    ended: Inside | None = None


def way(draft: Draft, target: Draft) -> Way | None:
    """The hop from one step to another; None where both are on one rank."""
    if draft.rank == target.rank:
        return None
    ended = next((branch for branch in draft.inside if branch[0].join is target), None)
    return Way(rank=draft.rank, target=target, ended=ended)


class Hops:
    """All hops of a machine, in the order of its steps."""

    def __init__(self, program: Program, flow: Flow) -> None:
        self.program = program
        self.flow = flow
        self.ways = list(
            dict.fromkeys(
                found
                for draft in flow.drafts
                for target in flow.targets(draft)
                if (found := way(draft, target)) is not None
            )
        )
        self._sets = flow.set_in_branches()
        self._used = flow.used_in_branches()
        self._contexts = self._travelling()

    def values(self, hop: Way) -> frozenset[str]:
        """The variables that travel."""
        alive = self.flow.live_in[id(hop.target)]
        if hop.ended is not None:
            spread, number = hop.ended
            return alive & self._sets.get((id(spread), number), frozenset())
        entered = [b for b in hop.target.inside if hop.target in self._entries(b)]
        for spread, number in entered:
            if spread.rank == hop.rank:
                alive &= self._used.get((id(spread), number), frozenset())
        return alive

    def contexts(self, hop: Way) -> tuple[Held, ...]:
        """The contexts that travel if they are there."""
        return tuple(sorted(self._contexts.get(hop, frozenset())))

    def row_bytes(self, hop: Way) -> int:
        """Bytes of one row of each context that travels, together."""
        placement = self.program.placement
        assert placement is not None
        kind = device_kind(placement.devices[0].kind)
        dtype = kind.dtype if kind is not None else "bf16"
        nodes = {node.name: node for node in self.program.nodes}
        plain = [name for name, what in self.contexts(hop) if not what.startswith("sampler:")]
        return sum(kv_row_bytes(nodes[name], dtype) or 0 for name in plain)

    def _entries(self, branch: Inside) -> list[Draft]:
        spread, number = branch
        return [self.flow.at(spread.branches[number])]

    def _travelling(self) -> dict[Way, frozenset[Held]]:
        drafts = self.flow.drafts
        place = {id(draft): index for index, draft in enumerate(drafts)}
        signatures = Signatures(self.program)
        stops = [
            Stop(
                rank=draft.rank,
                uses=_used_in(draft.actions, signatures),
                next=[place[id(target)] for target in self.flow.targets(draft)],
                join=None if draft.join is None else place[id(draft.join)],
                inside=tuple((place[id(spread)], number) for spread, number in draft.inside),
            )
            for draft in drafts
        ]
        found: dict[Way, frozenset[Held]] = {}
        for (source, target), held in journeys(stops).items():
            hop = way(drafts[source], drafts[target])
            assert hop is not None
            found[hop] = found.get(hop, frozenset()) | frozenset(held)
        return found


def _used_in(
    actions: "list[Action] | tuple[Action, ...]", signatures: Signatures
) -> frozenset[Held]:
    used: set[Held] = set()
    for action in actions:
        match action:
            case CallOp():
                node = signatures.nodes[action.node]
                used |= used_by(node, signatures.op(action), action.context)
            case ForkContext(node=name, source=source, target=target):
                used |= {(name, source), (name, target)}
            case ClearContext(node=name, context=context):
                used.add((name, context))
            case Repeat(body=body):
                used |= _used_in(body, signatures)
            case _:
                pass
    return frozenset(used)
