"""What a variant of a model leaves out: outputs that it cannot make, and what only they need.

`wants sound` is false in such a program, so that states which only it leads to are not reached.
With them go the walks that nothing runs any more and the nodes that nothing calls: the variant's
checkpoint has no weights for them.
"""

from dataclasses import replace

from mstarc.ir.folding import truth
from mstarc.ir.graph import Call, Emit, Machine, Program, Run, Statement
from mstarc.ir.walking import Body, map_bodies, map_statements, statements_of


def without_outputs(program: Program, left_out: frozenset[str]) -> Program:
    """The program without some outputs, of which it wants none."""
    if not left_out:
        return program
    program = replace(
        program,
        outputs=tuple(output for output in program.outputs if output.name not in left_out),
        machines=tuple(map(_reached, program.machines)),
    )
    program = replace(program, walks=tuple(w for w in program.walks if w.name in _run(program)))

    def emits_none(statement: Statement) -> Statement | tuple[Statement, ...]:
        is_left_out = isinstance(statement, Emit) and statement.output in left_out
        return () if is_left_out else statement

    program = map_bodies(program, lambda body: map_statements(body, emits_none))
    called = {call.node for body in _bodies(program) for call in _calls(body)}
    vias = {output.via[0] for output in program.outputs if output.via is not None}
    return replace(
        program,
        nodes=tuple(node for node in program.nodes if node.name in called | vias),
        folded=tuple(entry for entry in program.folded if entry[1] in called),
    )


def _reached(machine: Machine) -> Machine:
    """The machine without the states that no path from the first one leads to."""
    states = {state.name: state for state in machine.states}
    reached: set[str] = set()
    pending = [machine.states[0].name]
    while pending:
        name = pending.pop()
        if name not in states or name in reached:
            continue
        reached.add(name)
        go = states[name].next
        holds = truth(go.condition)
        pending += [go.target] if holds is not False else []
        pending += [go.otherwise] if go.otherwise is not None and not holds else []
    return replace(machine, states=tuple(s for s in machine.states if s.name in reached))


def _run(program: Program) -> set[str]:
    """The walks that machines run, and those that these run."""
    bodies = {walk.name: walk.body for walk in program.walks}
    found: set[str] = set()
    pending = [state.body for machine in program.machines for state in machine.states]
    while pending:
        for statement in statements_of(pending.pop()):
            if isinstance(statement, Run) and statement.walk not in found:
                found.add(statement.walk)
                pending.append(bodies[statement.walk])
    return found


def _bodies(program: Program) -> list[Body]:
    states = [state.body for machine in program.machines for state in machine.states]
    return [*(walk.body for walk in program.walks), *states]


def _calls(body: Body) -> list[Call]:
    return [statement for statement in statements_of(body) if isinstance(statement, Call)]
