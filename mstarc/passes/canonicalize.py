"""Write a program in its plainest form.

Before:  when 28 > 30 { %a: i64 = lm.step(%x) #w/0 } else { … }
         stream codes : i64 chunk sliding(window = 7, stride = 7) …
After:   …                                               ; what the else branch did
         stream codes : i64 chunk fixed(7) …

- Constant expressions are computed; a `let` that is constant goes into its uses, under its name.
- A choice whose condition is constant becomes the branch taken; sends, emits and forks whose
  condition is constant lose it, or go. So do machines that can never run, with the streams that
  only they read and the sends to those, and states that no path from the first one reaches.
- Policies that say the same are written the same: a sliding window as wide as its stride, or a
  left context of 0, is `fixed`; a ramp does not repeat the size it leads to; a read does not repeat
  its stream's policy. `fixed(1)` stays apart: it hands over the item, the others a chunk of one.

Names and sites stay, so that reports still speak of the spec. Walks stay even when nothing runs
them: deployment files may name them.

Not here: moving or merging calls, loops of no passes (their results are their first values anyway).
"""

from dataclasses import replace

from mstarc.ir.exprs import Const, Expr, LetRef
from mstarc.ir.folding import fold, truth
from mstarc.ir.graph import (
    Assign,
    Each,
    Emit,
    Fork,
    Machine,
    MarkStream,
    Policy,
    Program,
    Send,
    State,
    Statement,
    Stream,
    Transition,
    When,
)
from mstarc.ir.rewriting import map_exprs
from mstarc.ir.walking import Body, map_bodies, map_expr, map_statements
from mstarc.passes.context import PassContext


def canonicalize(program: Program, context: PassContext) -> Program:  # noqa: ARG001 - a pass
    """The program in its plainest form; the same for a program that is in it."""
    program = _without_constant_lets(program)
    program = map_exprs(program, fold)
    program = map_bodies(program, lambda body: map_statements(body, _plain))
    program = replace(program, machines=tuple(map(_plain_machine, program.machines)))
    program = _without_dead_machines(program)
    return _with_plain_policies(program)


def _without_constant_lets(program: Program) -> Program:
    """Lets may read earlier ones, so one pass in order finds all that are constant."""
    known: dict[str, Const] = {}

    def known_let(expr: Expr) -> Expr:
        return known.get(expr.name, expr) if isinstance(expr, LetRef) else expr

    kept = []
    for let in program.lets:
        value = fold(map_expr(let.value, known_let))
        if isinstance(value, Const):
            known[let.name] = Const(value.value, let.name)
        else:
            kept.append(replace(let, value=value))
    if not known:
        return program
    return map_exprs(replace(program, lets=tuple(kept)), lambda expr: map_expr(expr, known_let))


def _plain(statement: Statement) -> Statement | tuple[Statement, ...]:
    """A statement without conditions that are constant."""
    match statement:
        case When(condition=condition):
            holds = truth(condition)
            if holds is None:
                return () if _does_nothing(statement) else statement
            return _taken(statement, holds)
        case Send(condition=condition) | Emit(condition=condition) | Fork(condition=condition):
            if condition is None:
                return statement
            holds = truth(condition)
            if holds is None:
                return statement
            return replace(statement, condition=None) if holds else ()
        case _:
            return statement


def _does_nothing(when: When) -> bool:
    return not (when.then or when.otherwise or when.results)


def _taken(when: When, holds: bool) -> Body:
    body, yields = (
        (when.then, when.then_yields) if holds else (when.otherwise, when.otherwise_yields)
    )
    copies = tuple(
        Assign(result=result, value=value, span=when.span)
        for result, value in zip(when.results, yields, strict=True)
    )
    return (*body, *copies)


def _plain_machine(machine: Machine) -> Machine:
    condition = machine.condition
    if truth(condition):
        condition = None
    states = tuple(replace(state, next=_plain_transition(state)) for state in machine.states)
    by_name = {state.name: state for state in states}
    reached: list[str] = []
    pending = [states[0].name]
    while pending:
        name = pending.pop()
        if name in by_name and name not in reached:
            reached.append(name)
            go = by_name[name].next
            pending.extend(target for target in (go.target, go.otherwise) if target is not None)
    kept = tuple(state for state in states if state.name in reached)
    return replace(machine, condition=condition, states=kept)


def _plain_transition(state: State) -> Transition:
    go = state.next
    if go.condition is None:
        return go
    holds = truth(go.condition)
    if holds is None and go.target != go.otherwise:
        return go
    target = go.target if holds or holds is None else go.otherwise
    assert target is not None
    return replace(go, target=target, condition=None, otherwise=None)


def _without_dead_machines(program: Program) -> Program:
    """Drop machines that never run, unless a machine that may run reads from them."""
    dead = {machine.name for machine in program.machines if truth(machine.condition) is False}
    while True:
        read = {s.producer for s in program.streams if s.consumer not in dead}
        if not dead & read:
            break
        dead -= read
    if not dead:
        return program
    streams = tuple(stream for stream in program.streams if stream.consumer not in dead)
    gone = {stream.name for stream in program.streams} - {stream.name for stream in streams}

    def without(statement: Statement) -> Statement | tuple[Statement, ...]:
        if isinstance(statement, Send | MarkStream) and statement.stream in gone:
            return ()
        return statement

    machines = tuple(machine for machine in program.machines if machine.name not in dead)
    program = replace(program, streams=streams, machines=machines)
    return map_bodies(program, lambda body: map_statements(body, without))


def _with_plain_policies(program: Program) -> Program:
    streams = tuple(_plain_stream(stream) for stream in program.streams)
    by_name = {stream.name: stream for stream in streams}

    def plain(statement: Statement) -> Statement:
        if not isinstance(statement, Each) or statement.policy is None:
            return statement
        policy = _plain_policy(statement.policy)
        same = all(by_name[name].policy == policy for name in statement.streams)
        return replace(statement, policy=None if same else policy)

    program = replace(program, streams=streams)
    return map_bodies(program, lambda body: map_statements(body, plain))


def _plain_stream(stream: Stream) -> Stream:
    return replace(stream, policy=_plain_policy(stream.policy))


def _plain_policy(policy: Policy) -> Policy:
    match policy.kind:
        case "sliding" if policy.size == policy.stride > 1:
            return Policy(kind="fixed", size=policy.size)
        case "left_context":
            ramp = policy.ramp
            while ramp and ramp[-1] == policy.size:
                ramp = ramp[:-1]
            if not ramp and not policy.context and policy.size > 1:
                return Policy(kind="fixed", size=policy.size)
            return replace(policy, ramp=ramp)
        case _:
            return policy
