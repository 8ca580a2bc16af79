"""Print what the passes have decided: placement, hops, regions, pools and memory."""

from collections.abc import Iterator

from mstarc.ir.decisions import PREFILL_TOKENS, Assignment, Hop, Placement
from mstarc.ir.graph import Program
from mstarc.ir.text.print_exprs import (
    format_name,
    format_site,
    format_string,
    format_value_name,
)


def decision_lines(program: Program) -> Iterator[str]:
    """The lines after the machines; none for a program that no pass has seen."""
    if program.placement is not None:
        yield ""
        yield from _placement(program.placement)
    groups = (
        [
            f"hop {format_name(hop.machine)} {format_site(hop.source_site)} -> "
            f"{format_site(hop.target_site)} rank {hop.source_rank} -> {hop.target_rank} "
            f"values ({', '.join(map(format_value_name, hop.values))}) "
            f"bytes {'?' if hop.bytes_each is None else hop.bytes_each}{_contexts(hop)}"
            for hop in program.hops
        ],
        [
            f"region {format_string(region.name)} rank {region.rank} "
            f"walk {format_name(region.walk)} "
            f"sites ({', '.join(map(format_site, region.sites))}) "
            f"buckets ({', '.join(map(str, region.buckets))})"
            for region in program.regions
        ],
        [
            f"uncaptured {format_site(call.site)} {format_string(call.reason)}"
            for call in program.uncaptured
        ],
        [
            f"pool rank {pool.rank} {format_name(pool.node)} pages {pool.pages} "
            f"page_tokens {pool.page_tokens} page_bytes {pool.bytes_per_page}"
            for pool in program.pools
        ],
        [
            f"memory rank {row.rank} {row.what} {format_string(row.of)} {row.bytes}"
            + (f" by {format_string(row.by)}" if row.by else "")
            for row in program.memory
        ],
        [
            f"capacity asked {room.asked} full {room.full} expected {room.expected} "
            f"rank {room.rank}"
            for room in (program.capacity,)
            if room is not None
        ],
    )
    for group in groups:
        if group:
            yield ""
            yield from group


def _placement(placement: Placement) -> Iterator[str]:
    stretch = f"stretch {placement.stretch} " if placement.stretch else ""
    # Told where it is not the usual number.
    pieces = placement.prefill_tokens
    prefill = f"prefill {pieces} " if pieces != PREFILL_TOKENS else ""
    yield (
        f"placement {format_string(placement.name)} by {format_string(placement.source)} "
        f"requests {placement.max_requests} tokens {placement.max_tokens} "
        f"{stretch}{prefill}{{"
    )
    for device in placement.devices:
        yield f"  device {device.rank} {format_string(device.kind)} bytes {device.memory_bytes}"
    for assignment in placement.assignments:
        yield f"  {_assignment(assignment)}"
    for copy in placement.copies:
        yield f"  copy {copy.copy} of rank {copy.rank} device {copy.device}"
    yield "}"


def _assignment(assignment: Assignment) -> str:
    text = f"assign {format_name(assignment.node)}"
    if assignment.walks:
        text += f" walks ({', '.join(map(format_name, assignment.walks))})"
    if assignment.contexts:
        text += f" contexts ({', '.join(map(format_name, assignment.contexts))})"
    text += f" ranks [{', '.join(map(str, assignment.ranks))}]"
    text += f" tp {assignment.tp}" if assignment.tp != 1 else ""
    return text + (f" sp {assignment.sp}" if assignment.sp != 1 else "")


def _contexts(hop: Hop) -> str:
    if not hop.contexts and not hop.row_bytes:
        return ""
    named = ", ".join(f"{format_name(node)} {format_string(name)}" for node, name in hop.contexts)
    return f" contexts ({named}) row_bytes {hop.row_bytes}"
