"""Random layouts: nodes by walk and by context, groups of ranks, ranks of any numbers."""

from dataclasses import replace
from random import Random

from mstarc.analysis.control import calls_in
from mstarc.diagnostics import DiagnosticSink
from mstarc.ir.decisions import Assignment, Device, Placement
from mstarc.ir.graph import Node, Program
from mstarc.passes import PIPELINE, PassContext, run_pass
from mstarc.passes.place import placed_on

NUMBERS = ((0,), (0, 1), (2, 3), (0, 1, 2), (1, 4, 6))


def random_layout(program: Program, seed: int) -> Placement:
    """Any placement; the same for the same seed."""
    random = Random(seed)
    ranks = random.choice(NUMBERS)
    assignments = tuple(
        a for node in program.nodes for a in _assigned(program, node, ranks, random)
    )
    used = sorted({rank for assignment in assignments for rank in assignment.ranks})
    return Placement(
        name="toy",
        devices=tuple(Device(rank=rank, kind="cpu", memory_bytes=10**15) for rank in used),
        assignments=assignments,
        source="random",
        max_requests=4,
        max_tokens=256,
    )


def run_on(program: Program, seed: int) -> Program | None:
    """The program after all passes on a random layout; None where the layout is refused."""
    sink = DiagnosticSink()
    context = PassContext(sink=sink)
    for entry in PIPELINE:
        if entry.name == "place":
            program = placed_on(program, random_layout(program, seed))
            continue
        after = run_pass(entry, program, context)
        if after is None:
            assert {found.code for found in sink.diagnostics} <= {"MS0615", "MS0415", "MS0416"}
            return None
        program = after
    return program


def _assigned(
    program: Program, node: Node, ranks: tuple[int, ...], random: Random
) -> list[Assignment]:
    whole = Assignment(node=node.name, ranks=(random.choice(ranks),))
    if node.engine == "host":
        return [whole]
    found = [_cut(whole, ranks, random)]
    walks = [
        w.name for w in program.walks if any(c.node == node.name for c in calls_in(program, w.body))
    ]
    contexts = [context.name for context in node.contexts]
    for _ in range(random.choice((0, 1, 2, 3))):
        chosen = tuple(sorted(walk for walk in walks if random.random() < 0.5))
        named = tuple(sorted(c for c in contexts[1:] if random.random() < 0.5))
        other = replace(whole, ranks=(random.choice(ranks),), walks=chosen, contexts=named)
        taken = any(set(a.walks) & set(chosen) and a.contexts == named for a in found[1:])
        held = any(other.ranks[0] in a.ranks for a in found)
        if (chosen or named) and not taken and not held:
            found.append(other)
    return found


def _cut(whole: Assignment, ranks: tuple[int, ...], random: Random) -> Assignment:
    """The assignment over two ranks, now and then."""
    if len(ranks) < 2 or random.random() < 0.7:
        return whole
    pair = tuple(sorted(random.sample(ranks, 2)))
    tp = random.choice((1, 2))
    return replace(whole, ranks=pair, tp=tp, sp=2 // tp)
