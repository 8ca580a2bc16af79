"""Why a node is on its rank, in words that the costs of the placement bear out."""

from mstarc.analysis.costs import Costs, costs_of
from mstarc.codegen.views.amounts import amount_of_seconds, share
from mstarc.deployment import CATALOG, DeviceKind, device_kind
from mstarc.deployment.profile import MeasuredProfile
from mstarc.ir.decisions import Placement
from mstarc.ir.graph import Node, Program
from mstarc.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What is known about devices and ops besides the plan."""

    kinds: tuple[DeviceKind, ...] = CATALOG
    profile: MeasuredProfile | None = None


class Reasons:
    """The reasons of one placement."""

    def __init__(self, program: Program, placement: Placement, known: Knowledge) -> None:
        self.program = program
        self.placement = placement
        kind = device_kind(placement.devices[0].kind, known.kinds)
        assert kind is not None, f"`{placement.devices[0].kind}` is known"
        self.costs: Costs = costs_of(program, kind, self._weights(), known.profile)
        self.ranks = {a.node: a.ranks[0] for a in placement.assignments if a.ranks}
        self.total = sum(self.costs.load_s.values())

    def _weights(self) -> dict[str, int]:
        """Bytes of each node, whole, as the memory table has them."""
        cuts = {a.node: a.tp for a in self.placement.assignments}
        return {
            row.of: row.bytes * cuts.get(row.of, 1)
            for row in self.program.memory
            if row.what == "weights"
        }

    def load(self, node: str) -> str:
        """A node's share of a request's time, as the search for a placement estimates it."""
        seconds = self.costs.load_s[node]
        return f"{share(seconds, self.total)}, {amount_of_seconds(seconds)}"

    def why(self, node: Node) -> str:
        """One line."""
        if len(self.placement.devices) == 1:
            return "the only rank"
        if self.placement.source != "automatic":
            return f"`{self.placement.source}` says so"
        rank = self.ranks[node.name]
        beside = self._beside(node.name, rank)
        if node.engine == "host":
            if beside is None:
                return "host code that no device call follows"
            return f"host code, beside `{beside}`, from which it would lose most time apart"
        groups = [a for a in self.placement.of(node.name) if a.tp > 1]
        if groups:
            return f"cut over {groups[0].tp} ranks: no layout with it whole is better"
        others = [n for n in self._devices(rank) if n != node.name]
        if not others:
            return "has the rank's device to itself: no layout is better"
        name = beside if beside in others else others[0]
        return f"shares with `{name}`: no layout that parts them is better"

    def _devices(self, rank: int) -> list[str]:
        return [
            node.name
            for node in self.program.nodes
            if node.engine != "host" and self.ranks.get(node.name) == rank
        ]

    def _beside(self, name: str, rank: int) -> str | None:
        """The node on the rank that it exchanges most with."""
        best: tuple[float, str] | None = None
        for (one, two), seconds in self.costs.edge_s.items():
            if name not in (one, two):
                continue
            other = two if name == one else one
            if self.ranks.get(other) == rank and (best is None or seconds > best[0]):
                best = (seconds, other)
        return None if best is None else best[1]
