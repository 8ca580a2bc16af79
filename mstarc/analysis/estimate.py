"""What a layout costs: seconds of each device, latency, requests a second, memory.

`estimate` adds up the numbers of a `CostTable`. A device is busy with the calls that its ranks run,
each for a whole batch, and with what its hops carry; the busiest one bounds how many requests a
second there are, and so does how many may run at once. One request alone takes as long as its
calls and hops in their order: branches of a `parallel` on different homes run side by side, and so
do machines, which wait for the first and the last item of what they read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Protocol

from mstarc.analysis.cost_table import CallCost, CostTable, batch_of
from mstarc.analysis.memory import PROCESS_BYTES, RESERVE
from mstarc.ir.decisions import Assignment, Copy
from mstarc.records import dataclass

# Of a hop's latency: what a rank is busy with it, at each end. The rest is waiting.
HOP_BUSY = 0.2


class Layout(Protocol):
    """What `estimate` looks at; `ir.graph.Placement` is one."""

    @property
    def assignments(self) -> tuple[Assignment, ...]: ...

    @property
    def copies(self) -> tuple[Copy, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A layout that is no placement yet. A node on several homes has several assignments."""

    assignments: tuple[Assignment, ...]
    copies: tuple[Copy, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLoad:
    """One device: seconds that a request keeps it busy, and bytes.

    `reserve_bytes` is what is neither weights nor KV rows: libraries, activations, rings, values.
    `full_bytes`, `expected_bytes`: KV rows of one request at its longest, and as expected;
    `requests` is how many fit as expected, `full_requests` at their longest.
    """

    device: int
    busy_s: float
    weight_bytes: int
    reserve_bytes: int
    full_bytes: int
    expected_bytes: float
    capacity_bytes: int
    requests: int
    full_requests: int

    @property
    def fits(self) -> bool:
        """Whether weights, reserve and one request at its longest fit."""
        return self.full_requests >= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The cost of a layout.

    `latency_s`: one request alone, all of it. `throughput`: requests a second, where requests come
    as fast as they are served. `in_flight`: requests that run at once, all replicas together.
    `bottleneck` is the busiest device. `price_per_hour` counts an H200 as 1. `hop_s`: seconds that
    one request alone loses on the way between homes, `transfer_s` of them with KV rows.
    """

    latency_s: float
    throughput: float
    in_flight: int
    bottleneck: int
    hop_s: float
    transfer_s: float
    price_per_hour: float
    devices: tuple[DeviceLoad, ...]
    fits: bool
    call_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def cost(self) -> float:
        """Price of a thousand requests, where an H200 for an hour is 1."""
        return self.price_per_hour / 3600 / self.throughput * 1000 if self.throughput else 0.0


def home_of(call: CallCost, found: Sequence[Assignment]) -> Assignment:
    """The assignment of its node that a call runs by, as `Placement.assignment` says."""
    if len(found) == 1:
        return found[0]
    fitting = [a for a in found if not a.contexts or call.context in a.contexts]
    fitting = [a for a in fitting if not a.walks or call.walk in a.walks]
    return max(fitting or found[:1], key=lambda a: (bool(a.contexts), bool(a.walks)))


def estimate(table: CostTable, layout: Layout) -> Estimate:
    """The cost of a layout: pure, and quick enough for a search to ask thousands of times."""
    by_node: dict[str, list[Assignment]] = {}
    for assignment in layout.assignments:
        by_node.setdefault(assignment.node, []).append(assignment)
    homes = {call.site: home_of(call, by_node[call.node]) for call in table.calls}
    devices_of: dict[int, list[int]] = {}
    for assignment in layout.assignments:
        for rank in assignment.ranks:
            devices_of.setdefault(rank, [rank])
    for copy in layout.copies:
        devices_of.setdefault(copy.rank, [copy.rank]).append(copy.device)
    memory = _memory(table, layout.assignments, homes, devices_of)
    # A device's share of requests in flight, of each set of replicas, bounds its batch.
    copies = min((len(found) for found in devices_of.values()), default=1)
    room = min((load.requests for load in memory if load.expected_bytes), default=None)
    slots = max(1, table.limits.requests if room is None else min(table.limits.requests, room))
    batch = min(table.mix.batch or batch_of(table.cluster.kind, table.limits), slots)
    busy, call_s = _busy(table, homes, devices_of, batch)
    loads = tuple(
        DeviceLoad(
            device=load.device,
            busy_s=busy.get(load.device, 0.0),
            weight_bytes=load.weight_bytes,
            reserve_bytes=load.reserve_bytes,
            full_bytes=load.full_bytes,
            expected_bytes=load.expected_bytes,
            capacity_bytes=load.capacity_bytes,
            requests=load.requests,
            full_requests=load.full_requests,
        )
        for load in memory
    )
    latency, hop_s, transfer_s = _latency(table, homes)
    busiest = max(loads, key=lambda load: (load.busy_s, -load.device))
    loaded = sum(call.runs * call_s[call.site] for call in table.calls) * batch
    throughput = 1 / busiest.busy_s if busiest.busy_s else 0.0
    in_flight = slots * copies
    if loaded and len(loads) > 1:
        # No faster than what is in flight allows, where machines overlap at best on all devices.
        longest = max(latency, loaded / len(loads))
        throughput = min(throughput, in_flight / longest)
    return Estimate(
        latency_s=latency,
        throughput=throughput,
        in_flight=in_flight,
        bottleneck=busiest.device,
        hop_s=hop_s,
        transfer_s=transfer_s,
        price_per_hour=sum(table.cluster.device(load.device).price for load in loads),
        devices=loads,
        fits=all(load.fits for load in loads),
        call_s=call_s,
    )


def _memory(
    table: CostTable,
    assignments: Sequence[Assignment],
    homes: Mapping[str, Assignment],
    devices_of: Mapping[int, list[int]],
) -> list[DeviceLoad]:
    weights: dict[int, int] = {}
    full: dict[int, int] = {}
    expected: dict[int, float] = {}
    used: dict[int, set[tuple[str, str]]] = {}
    held: dict[int, int] = {}
    processes: dict[int, set[int]] = {}
    seen: set[tuple[str, int, int]] = set()
    contexts: dict[int, set[str]] = {}
    for call in table.calls:
        touched = contexts.setdefault(id(homes[call.site]), set())
        touched.update((*call.writes, *((call.context,) if call.context else ())))
    for assignment in assignments:
        heads = table.kv_heads.get(assignment.node, 0)
        kv_share = max(1, min(assignment.tp, heads))
        keys = [
            (assignment.node, context)
            for context in sorted(contexts.get(id(assignment), ()))
            if (assignment.node, context) in table.kv_full
        ]
        for rank in assignment.ranks:
            for device in devices_of[rank]:
                if (assignment.node, rank, device) in seen:
                    continue
                seen.add((assignment.node, rank, device))
                processes.setdefault(device, set()).add(rank)
                size = table.weights[assignment.node] // assignment.tp
                weights[device] = weights.get(device, 0) + size
                held[device] = held.get(device, 0) + table.held[assignment.node]
                mine = used.setdefault(device, set())
                for key in keys:
                    if key not in mine:
                        mine.add(key)
                        full[device] = full.get(device, 0) + table.kv_full[key] // kv_share
                        more = table.kv_expected[key] / kv_share
                        expected[device] = expected.get(device, 0.0) + more
    loads: list[DeviceLoad] = []
    for device in sorted(weights):
        kind = table.cluster.device(device)
        reserve = held[device]
        if not kind.is_cpu:
            more = (len(processes[device]) - 1) * PROCESS_BYTES
            reserve += int(kind.memory_bytes * RESERVE) + more
        left = kind.memory_bytes - weights[device] - reserve
        one, usual = full.get(device, 0), expected.get(device, 0.0)
        most = table.limits.requests
        fit = min(most, left // one) if one else (most if left >= 0 else 0)
        usually = min(most, int(left // usual)) if usual else (most if left >= 0 else 0)
        loads.append(
            DeviceLoad(
                device=device,
                busy_s=0.0,
                weight_bytes=weights[device],
                reserve_bytes=reserve,
                full_bytes=one,
                expected_bytes=usual,
                capacity_bytes=kind.memory_bytes,
                requests=max(0, usually),
                full_requests=max(0, fit),
            )
        )
    return loads


def _busy(
    table: CostTable,
    homes: Mapping[str, Assignment],
    devices_of: Mapping[int, list[int]],
    batch: int,
) -> tuple[dict[int, float], dict[str, float]]:
    """Seconds that a request keeps each device busy, and seconds a call, both in a batch."""
    busy: dict[int, float] = {}
    call_s: dict[str, float] = {}
    for call in table.calls:
        home = homes[call.site]
        taken = 0.0
        if call.engine == "host":
            # Other threads and processes than the device's: it does not wait.
            call_s[call.site] = table.call_s(table.cluster.kind, call.site, 1, 1)
            continue
        for rank in home.ranks:
            found = devices_of[rank]
            for device in found:
                kind = table.cluster.device(device)
                told = table.told_s(kind, home.tp * home.sp)
                taken = (table.call_s(kind, call.site, home.tp, batch) / home.sp + told) / batch
                busy[device] = busy.get(device, 0.0) + call.runs * taken / len(found)
        call_s[call.site] = taken
    for source, target, times, size, _ in _hops(table, homes):
        link = table.cluster.link(source, target)
        taken = times * (size / link.bytes_per_s + HOP_BUSY * link.latency_s / batch)
        for rank in (source, target):
            for device in devices_of[rank]:
                busy[device] = busy.get(device, 0.0) + taken / len(devices_of[rank])
    return busy, call_s


def _hops(
    table: CostTable, homes: Mapping[str, Assignment]
) -> list[tuple[int, int, float, float, bool]]:
    """(source rank, target rank, times, bytes, whether with KV rows) of all that crosses homes."""
    found: list[tuple[int, int, float, float, bool]] = []
    for edge in table.edges:
        source, target = homes[edge.source].ranks[0], homes[edge.target].ranks[0]
        if source != target:
            kv = edge.context is not None
            found.append((source, target, edge.times, edge.bytes, kv))
    for stream in table.streams:
        if stream.source is None or stream.target is None or not stream.items:
            continue
        source, target = homes[stream.source].ranks[0], homes[stream.target].ranks[0]
        if source != target:
            each = stream.bytes / stream.items
            found.append((source, target, stream.items, each, False))
    return found


def _latency(table: CostTable, homes: Mapping[str, Assignment]) -> tuple[float, float, float]:
    """Seconds of one request alone, those lost between homes, those of them with KV rows."""
    alone = {call.site: call.runs * _alone_s(table, call, homes[call.site]) for call in table.calls}
    saved = _saved(table, homes, alone)
    machines: dict[str, float] = {}
    ranks: dict[int, float] = {}
    for call in table.calls:
        if call.engine == "host":
            machine = call.machines[0] if call.machines else ""
            machines[machine] = machines.get(machine, 0.0) + alone[call.site]
            continue
        rank = homes[call.site].ranks[0]
        ranks[rank] = ranks.get(rank, 0.0) + alone[call.site]
        for machine in call.machines:
            machines[machine] = machines.get(machine, 0.0) + alone[call.site]
            machines[machine] -= saved.get(call.site, 0.0)
    lost, moved = 0.0, 0.0
    for edge in table.edges:
        source, target = homes[edge.source].ranks[0], homes[edge.target].ranks[0]
        if source == target:
            continue
        link = table.cluster.link(source, target)
        # A context travels with the values of the hop: no further message.
        latency = 0.0 if edge.context is not None else link.latency_s
        taken = edge.times * (latency + edge.bytes / link.bytes_per_s)
        lost += taken
        moved += taken if edge.context is not None else 0.0
        machines[edge.machine] = machines.get(edge.machine, 0.0) + taken
    longest = max(machines.values(), default=0.0)
    for stream in table.streams:
        # What reads a stream ends after what sends it, by its last chunk.
        readers = [call for call in table.calls if stream.consumer in call.machines]
        last = sum(alone[call.site] / max(call.runs, 1.0) for call in readers)
        longest = max(longest, machines.get(stream.producer, 0.0) + last)
    return max(longest, *ranks.values(), 0.0), lost, moved


def _alone_s(table: CostTable, call: CallCost, home: Assignment) -> float:
    kind = table.cluster.device(home.ranks[0])
    told = 0.0 if call.engine == "host" else table.told_s(kind, home.tp * home.sp)
    return table.call_s(kind, call.site, home.tp, 1) / home.sp + told


def _saved(
    table: CostTable, homes: Mapping[str, Assignment], alone: Mapping[str, float]
) -> dict[str, float]:
    """Seconds that branches on several homes save by running side by side, by a site of each."""
    saved: dict[str, float] = {}
    for branches in table.parallel:
        by_home: dict[int, float] = {}
        for branch in branches:
            for site in branch:
                home = homes[site].ranks[0]
                by_home[home] = by_home.get(home, 0.0) + alone[site]
        if len(by_home) > 1:
            first = next(site for branch in branches for site in branch)
            saved[first] = sum(by_home.values()) - max(by_home.values())
    return saved
