"""plan.json and placement.json: what the loader and the conductor read."""

from typing import Any

from mstarc.ir.graph import Node
from mstarc.ir.text import format_type
from mstarc.plan.plan import HopPlan, NodeWeights, PlacedPlan, Plan, RunStep


def plan_document(plan: Plan, digests: dict[str, str]) -> dict[str, Any]:
    """plan.json: the request's fields, the nodes, and the digest of every file."""
    program = plan.program
    weights = {w.node: w for w in plan.weights}
    return {
        "abi": plan.abi,
        "mstarc": plan.version,
        "model": program.model,
        "spec": plan.spec,
        "inputs": [
            {"name": f.name, "type": format_type(f.type), "optional": f.optional}
            for f in program.inputs
        ],
        "outputs": [
            {
                "name": f.name,
                "type": format_type(f.type),
                "optional": f.optional,
                "via": None if f.via is None else list(f.via),
            }
            for f in program.outputs
        ],
        "options": [
            {
                "name": option.name,
                "type": format_type(option.type),
                "default": option.default,
                "domain": None if option.domain is None else [option.domain[0], *option.domain[1]],
            }
            for option in program.options
        ],
        "nodes": [_node(node, weights[node.name]) for node in program.nodes],
        "placements": [placed.placement.name for placed in plan.placements],
        "files": digests,
    }


def _node(node: Node, weights: NodeWeights) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": node.name,
        "engine": node.engine,
        "impl": node.impl,
        "weights": {"source": weights.source},
    }
    if weights.under:
        document["weights"]["under"] = weights.under
    if weights.seed:
        document["weights"]["seed"] = weights.seed
    if weights.config:
        document["weights"]["config"] = dict(weights.config)
    for key, size in (("size", weights.size_bytes), ("kept", weights.kept_bytes)):
        if size is not None:
            document["weights"][key] = size
    return document


def placement_document(placed: PlacedPlan) -> dict[str, Any]:
    """placement.json: who runs where, and what the passes have decided."""
    program, placement = placed.program, placed.placement
    runs = [step for rank in placed.ranks for step in rank.steps if isinstance(step, RunStep)]
    return {
        "name": placement.name,
        "source": placement.source,
        "devices": [
            {"device": d.rank, "kind": d.kind, "memory_bytes": d.memory_bytes}
            for d in placement.devices
        ],
        "max_requests": placement.max_requests,
        "max_tokens": placement.max_tokens,
        "stretch": placement.stretch,
        "prefill_tokens": placement.prefill_tokens,
        "nodes": _node_ranks(placed),
        "assignments": [
            {
                "node": a.node,
                "ranks": list(a.ranks),
                "walks": list(a.walks),
                "contexts": list(a.contexts),
                "tp": a.tp,
                "sp": a.sp,
            }
            for a in placement.assignments
        ],
        "processes": _processes(placed),
        "groups": [
            {"node": a.node, "ranks": list(a.ranks), "tp": a.tp, "sp": a.sp}
            for a in placement.assignments
            if len(a.ranks) > 1
        ],
        "machines": {m.machine: {"rank": m.rank, "step": m.step} for m in placed.machines},
        "streams": {
            lane: {
                "producer_ranks": list(s.producer_ranks),
                "consumer_rank": s.consumer_rank,
                "capacity": s.stream.capacity,
            }
            for s in placed.streams
            for lane in s.lanes
        },
        "hops": [
            {
                "from_rank": rank.rank,
                "to_rank": step.rank,
                "step": step.step,
                "values": list(step.values),
                "bytes": step.bytes,
                "contexts": [list(context) for context in step.contexts],
                "row_bytes": step.row_bytes,
            }
            for rank in placed.ranks
            for step in rank.steps
            if isinstance(step, HopPlan)
        ],
        "via": {o.name: list(o.via) for o in program.outputs if o.via is not None},
        "memory": [
            {"rank": row.rank, "what": row.what, "of": row.of, "bytes": row.bytes}
            | ({"by": row.by} if row.by else {})
            for row in program.memory
        ],
        "capacity": _capacity(placed),
        "pools": [
            {
                "rank": pool.rank,
                "node": pool.node,
                "pages": pool.pages,
                "page_tokens": pool.page_tokens,
                "bytes_per_page": pool.bytes_per_page,
            }
            for pool in program.pools
        ],
        "regions": [
            {
                "name": region.name,
                "rank": region.rank,
                "steps": [step.id for step in runs if step.region == region.name],
                "buckets": list(region.buckets),
            }
            for region in program.regions
        ],
        "uncaptured": [{"site": u.site, "reason": u.reason} for u in program.uncaptured],
    }


def _processes(placed: PlacedPlan) -> list[dict[str, Any]]:
    """Every rank, those that only serve a group too, then its replicas."""
    ranks = [(0, rank, rank) for rank in placed.placement.ranks]
    copies = [(c.copy, c.rank, c.device) for c in placed.placement.copies]
    return [
        {"process": number, "rank": rank, "copy": copy, "device": device, "module": f"rank{rank}"}
        for number, (copy, rank, device) in enumerate([*ranks, *sorted(copies)])
    ]


def _capacity(placed: PlacedPlan) -> dict[str, int]:
    """How many requests have room at once."""
    found = placed.program.capacity
    assert found is not None, "plan-memory has run"
    return {
        "asked": found.asked,
        "full": found.full,
        "expected": found.expected,
        "rank": found.rank,
    }


def _node_ranks(placed: PlacedPlan) -> dict[str, list[int]]:
    ranks: dict[str, list[int]] = {}
    for node in placed.program.nodes:
        found: set[int] = set()
        for assignment in placed.placement.assignments:
            if assignment.node == node.name:
                found.update(assignment.ranks)
        ranks[node.name] = sorted(found)
    return ranks
