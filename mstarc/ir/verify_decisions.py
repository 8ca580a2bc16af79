"""The invariants of what passes decide, each held from the pass on that establishes it.

place: every call is on the ranks of the assignment that fits it, a group of tp x sp with a device
each; a copy is of a rank that holds something. partition: a hop leads from one rank to another,
between sites that exist, with contexts of nodes that are on several. find-capture-regions: the
calls of a region are of one group, which its rank leads, are no host ops, are in one region only,
and each call is in a region or has a reason. size-chunk-buffers: all streams have a capacity, or
none. plan-memory: every rank with a kv_cache node has its pool, and no rank takes more than its
device holds.
"""

from typing import NoReturn

from mstarc.diagnostics import InternalError
from mstarc.ir.decisions import Assignment, Placement
from mstarc.ir.graph import Call, Each, Loop, Program, Run
from mstarc.ir.walking import all_statements, bodies_of, statements_of
from mstarc.source import Span


def verify_decisions(program: Program, stage: str) -> None:
    """Raise `InternalError` where a decision breaks an invariant."""
    _Decisions(program, stage).verify()


class _Decisions:
    def __init__(self, program: Program, stage: str) -> None:
        self.program = program
        self.stage = stage
        statements = list(all_statements(program))
        self.calls = {call.site: call for call in statements if isinstance(call, Call)}
        self.sites = {s.site for s in statements if isinstance(s, Call | Run | Loop | Each)}

    def fail(self, message: str, span: Span | None = None) -> NoReturn:
        raise InternalError(message, stage=self.stage, span=span)

    def check(self, holds: bool, message: str, span: Span | None = None) -> None:
        if not holds:
            self.fail(message, span)

    def verify(self) -> None:
        program = self.program
        placement = program.placement
        if placement is None:
            for call in self.calls.values():
                self.check(not call.ranks, f"`{call.site}` has ranks before placement", call.span)
            decided = program.hops or program.regions or program.pools or program.memory
            self.check(not decided, "a decision about ranks before there are any")
            return
        self.placement(placement)
        self.hops()
        self.regions()
        capacities = [stream.capacity for stream in program.streams]
        some = any(capacity is not None for capacity in capacities)
        self.check(not some or None not in capacities, "a stream has no capacity")
        self.pools(placement)

    def placement(self, placement: Placement) -> None:
        devices = [device.rank for device in placement.devices]
        self.check(len(devices) == len(set(devices)), "a device is there twice")
        nodes = {node.name for node in self.program.nodes}
        assigned = {assignment.node for assignment in placement.assignments}
        self.check(assigned == nodes, "an assignment for every node and no other")
        for assignment in placement.assignments:
            self.group(assignment, set(devices))
        for copy in placement.copies:
            there = copy.rank in placement.ranks and copy.device in devices and copy.copy > 0
            self.check(there, f"copy {copy.copy} of rank {copy.rank} on device {copy.device}")
        numbers = [(copy.rank, copy.copy) for copy in placement.copies]
        self.check(len(numbers) == len(set(numbers)), "a copy is there twice")
        for walk, body in bodies_of(self.program):
            for call in (s for s in statements_of(body) if isinstance(s, Call)):
                group = placement.assignment(call.node, walk, call.context)
                message = f"`{call.site}` is on ranks {call.ranks}, its node on {group.ranks}"
                self.check(call.ranks == group.ranks, message, call.span)

    def group(self, assignment: Assignment, devices: set[int]) -> None:
        ranks, name = assignment.ranks, assignment.node
        whole = len(ranks) == assignment.tp * assignment.sp == len(set(ranks))
        self.check(whole, f"`{name}` is on {len(ranks)} ranks, cut {assignment.tp, assignment.sp}")
        self.check(ranks[0] == min(ranks), f"rank {ranks[0]} leads ranks below it for `{name}`")
        self.check(set(ranks) <= devices, f"`{name}` is on a rank without a device")
        known = {walk for walk, _ in bodies_of(self.program)}
        self.check(set(assignment.walks) <= known, f"`{name}` is on ranks by a walk that is none")
        node = next(node for node in self.program.nodes if node.name == name)
        contexts = {context.name for context in node.contexts}
        known_too = set(assignment.contexts) <= contexts
        self.check(known_too, f"`{name}` is on ranks by a context that is none")

    def hops(self) -> None:
        placement = self.program.placement
        assert placement is not None
        for hop in self.program.hops:
            known = {hop.source_site, hop.target_site} <= self.sites
            self.check(known, f"a hop of `{hop.machine}` between sites that are not there")
            apart = hop.source_rank != hop.target_rank
            self.check(apart, f"a hop of `{hop.machine}` that stays on its rank")
            for node, context in hop.contexts:
                several = len({assignment.ranks for assignment in placement.of(node)}) > 1
                message = f"a hop of `{hop.machine}` takes `{node}.{context}` from its only rank"
                self.check(several, message)

    def regions(self) -> None:
        program = self.program
        engines = {node.name: node.engine for node in program.nodes}
        seen: dict[str, str] = {}
        for region in program.regions:
            ordered = list(region.buckets) == sorted(set(region.buckets))
            self.check(ordered and bool(region.buckets), f"buckets of region `{region.name}`")
            for site in region.sites:
                self.check(site in self.calls, f"region `{region.name}` holds `{site}`")
                call = self.calls[site]
                other = seen.setdefault(site, region.name)
                message = f"`{site}` is in the regions `{other}` and `{region.name}`"
                self.check(other == region.name, message, call.span)
                host = engines[call.node] == "host"
                message = f"region `{region.name}` holds the host call `{site}`"
                self.check(not host, message, call.span)
                message = f"region `{region.name}` crosses ranks at `{site}`"
                one = call.ranks == self.calls[region.sites[0]].ranks
                self.check(one and call.home == region.rank, message, call.span)
        if program.regions or program.uncaptured:
            left = {call.site for call in program.uncaptured}
            for site, call in self.calls.items():
                once = (site in seen) != (site in left)
                self.check(once, f"`{site}` is in a region or has a reason", call.span)

    def pools(self, placement: Placement) -> None:
        program = self.program
        if not program.memory:
            return
        pools = {(pool.rank, pool.node) for pool in program.pools}
        engines = {node.name: node.engine for node in program.nodes}
        for assignment in placement.assignments:
            if engines[assignment.node] == "kv_cache":
                for rank in assignment.ranks:
                    pooled = (rank, assignment.node) in pools
                    self.check(pooled, f"`{assignment.node}` has no pages on rank {rank}")
        for device in placement.devices:
            taken = sum(row.bytes for row in program.memory if row.rank == device.rank)
            fits = taken <= device.memory_bytes
            self.check(fits, f"rank {device.rank} takes {taken} bytes of {device.memory_bytes}")
