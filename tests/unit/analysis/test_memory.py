"""How many requests fit, with replicas and groups, and what takes a device's memory."""

from dataclasses import replace

import pytest

from mstarc.deployment import parse_devices, read_deployment
from mstarc.diagnostics import DiagnosticSink
from mstarc.ir.graph import Program
from mstarc.passes import PassContext, run_pipeline
from mstarc.passes.plan_memory import plan_memory
from mstarc.source import SourceFile
from tests.unit.analysis.test_estimate import program

GROUP = "node_groups:\n- {node_names: [lm], ranks: RANKS}\n- {node_names: [codec], ranks: [2]}\n"


def planned(ranks: str, *, more: str = "", tokens: int = 131072) -> Program:
    text = f"model: speech\ndevices: 3xH200\nmax_seq_len: {tokens}\n{more}"
    text += GROUP.replace("RANKS", ranks)
    sink = DiagnosticSink()
    deployment = read_deployment(SourceFile(path="d.yaml", text=text), sink)
    assert deployment is not None, sink.diagnostics
    found = run_pipeline(program(), PassContext(sink=sink, deployment=deployment))
    assert found is not None, sink.diagnostics
    return found


def bytes_of(found: Program, device: int, what: str) -> int:
    return sum(row.bytes for row in found.memory if (row.rank, row.what) == (device, what))


def test_a_replica_has_room_for_as_many_again() -> None:
    one, two = planned("[0]"), planned("[0, 1]")
    assert one.capacity is not None and two.capacity is not None
    assert one.placement is not None and two.placement is not None
    assert (one.placement.max_requests, two.placement.max_requests) == (64, 128)
    assert two.capacity.full == 2 * one.capacity.full
    # Each has a pool of its own, of one size; the codec serves all.
    (pool,) = two.pools
    assert bytes_of(two, 0, "kv_pages") == bytes_of(two, 1, "kv_pages")
    assert bytes_of(two, 0, "kv_pages") == pool.pages * pool.bytes_per_page
    assert bytes_of(two, 0, "weights") == bytes_of(two, 1, "weights") == 8_000_000_000
    assert bytes_of(two, 2, "weights") == 100_000_000


def test_a_deployments_number_is_of_all_replicas_together() -> None:
    found = planned("[0, 1]", more="max_concurrent_requests: 10\n", tokens=2048)
    assert found.placement is not None and found.capacity is not None
    assert found.placement.max_requests == found.capacity.asked == 10
    # Pages for five requests each, with two contexts.
    assert [pool.pages for pool in found.pools] == [5 * 2 * 2048 // 16]


def test_a_group_shares_weights_and_heads() -> None:
    whole = planned("[0]", tokens=2048)
    cut = planned("[0, 1], tp_size: 2", tokens=2048)
    assert bytes_of(cut, 1, "weights") == 4_000_000_000
    assert bytes_of(cut, 0, "kv_pages") == bytes_of(whole, 0, "kv_pages") // 2
    assert {(pool.rank, pool.pages) for pool in cut.pools} == {
        (0, whole.pools[0].pages),
        (1, whole.pools[0].pages),
    }


@pytest.mark.parametrize("kind", ["cpu", "H200"])
def test_pages_on_a_cpu_leave_half_of_it(kind: str) -> None:
    devices = parse_devices(f"1x{kind}")
    sink = DiagnosticSink()
    found = run_pipeline(program(), PassContext(sink=sink, devices=devices))
    assert found is not None and found.placement is not None
    few = replace(found.placement, max_tokens=32768, max_requests=1000)
    again = run_pipeline_from_memory(replace(found, placement=few, capacity=None), kind)
    size = bytes_of(again, 0, "kv_pages")
    total = again.placement.devices[0].memory_bytes if again.placement is not None else 0
    assert (size <= total // 2) == (kind == "cpu")


def run_pipeline_from_memory(found: Program, kind: str) -> Program:
    return plan_memory(
        found, PassContext(sink=DiagnosticSink(), devices=parse_devices(f"1x{kind}"))
    )
