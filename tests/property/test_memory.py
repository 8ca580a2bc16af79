"""What fits does not depend on how a program is written down, and nothing is left out."""

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from mstarc.deployment import CATALOG, DeviceKind, Devices
from mstarc.diagnostics import DiagnosticSink
from mstarc.ir.decisions import Assignment, Copy, Device, Placement
from mstarc.ir.graph import Call, Program, Statement, Weights
from mstarc.ir.walking import map_bodies, map_statements
from mstarc.passes import PassContext
from mstarc.passes.plan_memory import plan_memory
from tests.support.examples import examples
from tests.support.sound_programs import sound_program

SEEDS = st.integers(0, 2**32)
H200 = next(kind for kind in CATALOG if kind.name == "H200")


def sized(program: Program, random: Random) -> Program:
    nodes = tuple(
        replace(node, weights=Weights(source="w", size_bytes=random.randint(1, 40) * 10**9))
        for node in program.nodes
    )
    return replace(program, nodes=nodes)


def placed(program: Program, random: Random, devices: int, tokens: int) -> Program:
    """The program on some of the devices, each node on one, some ranks with a copy."""
    rank_of = {node.name: random.randrange(devices) for node in program.nodes}
    ranks = sorted(set(rank_of.values()))
    copies = [Copy(rank=ranks[0], copy=1, device=ranks[-1])] if random.random() < 0.3 else []

    def on_its_rank(statement: Statement) -> Statement:
        if isinstance(statement, Call):
            return replace(statement, ranks=(rank_of[statement.node],))
        return statement

    return replace(
        map_bodies(program, lambda body: map_statements(body, on_its_rank)),
        placement=Placement(
            name="h",
            devices=tuple(
                Device(rank=rank, kind="H200", memory_bytes=H200.memory_bytes) for rank in ranks
            ),
            assignments=tuple(
                Assignment(node=node.name, ranks=(rank_of[node.name],)) for node in program.nodes
            ),
            copies=tuple(copies),
            source="test",
            max_requests=random.choice((1, 8, 64, 1000)),
            max_tokens=tokens,
        ),
    )


def planned(program: Program, kind: DeviceKind = H200) -> tuple[Program, list[str]]:
    sink = DiagnosticSink()
    devices = Devices(name="h", parts=((kind, 4),))
    context = PassContext(sink=sink, devices=devices, kinds=(kind,))
    after = plan_memory(program, context)
    return after, [found.code for found in sink.diagnostics]


@settings(max_examples=examples(40), deadline=None)
@given(SEEDS, st.sampled_from((64, 8192, 131072, 2**24, 2**31)))
def test_the_order_of_declarations_changes_nothing(seed: int, tokens: int) -> None:
    random = Random(seed)
    program = placed(sized(sound_program(seed), random), random, 3, tokens)
    shuffled = replace(
        program,
        nodes=tuple(random.sample(program.nodes, len(program.nodes))),
        streams=tuple(random.sample(program.streams, len(program.streams))),
        walks=tuple(random.sample(program.walks, len(program.walks))),
        machines=tuple(random.sample(program.machines, len(program.machines))),
    )
    assert program.placement is not None
    assignments = random.sample(program.placement.assignments, len(program.placement.assignments))
    shuffled = replace(
        shuffled, placement=replace(program.placement, assignments=tuple(assignments))
    )
    (after, codes), (again, other_codes) = planned(program), planned(shuffled)
    assert codes == other_codes
    assert set(after.memory) == set(again.memory)
    assert set(after.pools) == set(again.pools)
    assert after.capacity == again.capacity


@settings(max_examples=examples(40), deadline=None)
@given(SEEDS, st.sampled_from((64, 8192, 131072, 2**20)))
def test_what_fits_takes_no_more_than_there_is(seed: int, tokens: int) -> None:
    random = Random(seed)
    program = placed(sized(sound_program(seed), random), random, 2, tokens)
    after, codes = planned(program)
    assert after.placement is not None and after.capacity is not None
    for device in after.placement.devices:
        rows = [row for row in after.memory if row.rank == device.rank]
        if not codes:
            assert sum(row.bytes for row in rows) <= device.memory_bytes
        # A copy on the same device is a process of its own, and is counted.
        weights = [row for row in rows if row.what == "weights"]
        held = {a.node for a in after.placement.assignments if device.rank in a.ranks}
        assert held - {n.name for n in after.nodes if n.engine == "host"} <= {
            row.of for row in weights
        }
    if not codes:
        assert 1 <= after.capacity.full <= after.capacity.expected <= after.capacity.asked
        assert after.placement.max_requests == after.capacity.expected
        assert planned(after)[0] == after


@settings(max_examples=examples(25), deadline=None)
@given(SEEDS)
def test_over_full_by_one_percent_is_refused(seed: int) -> None:
    random = Random(seed)
    program = placed(sized(sound_program(seed), random), random, 1, 1024)
    assert program.placement is not None
    program = replace(program, placement=replace(program.placement, max_requests=1))
    after = planned(program)[0]
    # As large as one request needs, to the byte; the reserve is a part of the memory itself.
    taken = sum(row.bytes for row in after.memory if row.what != "reserve")
    more = sum(row.bytes for row in after.memory if row.what == "reserve")
    more -= int(H200.memory_bytes * 0.05)
    memory = -(-(taken + more) * 100 // 95)
    for size, expected in ((memory + 1, []), (int(memory / 1.01), ["MS0617"])):
        devices = tuple(replace(device, memory_bytes=size) for device in program.placement.devices)
        small = replace(program, placement=replace(program.placement, devices=devices))
        assert planned(small)[1] == expected
