"""The invariants of what passes decide, each held from the pass on that establishes it.

place: every call is on ranks that have a device. partition: a hop leads from one such rank to
another, between sites that exist. find-capture-regions: a region's calls are on its rank, are no
host ops, are in one region only, and each call is in a region or has a reason. size-chunk-buffers:
all streams have a capacity, or none. plan-memory: every rank with a kv_cache node has its pool, and
no rank takes more than its device holds.
"""

from typing import NoReturn

from mstarc.diagnostics import InternalError
from mstarc.ir.graph import Call, Each, Loop, Placement, Program, Run
from mstarc.ir.walking import all_statements
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
        ranks = {device.rank for device in placement.devices}
        nodes = {node.name for node in self.program.nodes}
        assigned = {assignment.node for assignment in placement.assignments}
        self.check(assigned == nodes, "an assignment for every node and no other")
        for call in self.calls.values():
            self.check(bool(call.ranks), f"`{call.site}` has no ranks", call.span)
            there = set(call.ranks) <= ranks
            self.check(there, f"`{call.site}` is on a rank without a device", call.span)

    def hops(self) -> None:
        for hop in self.program.hops:
            known = {hop.source_site, hop.target_site} <= self.sites
            self.check(known, f"a hop of `{hop.machine}` between sites that are not there")
            apart = hop.source_rank != hop.target_rank
            self.check(apart, f"a hop of `{hop.machine}` that stays on its rank")

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
                self.check(call.ranks == (region.rank,), message, call.span)
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
