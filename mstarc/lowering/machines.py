"""Machines: registers, states, and one transition a state.

A value of a machine is a register under its own name. What an arm, an `each` or a `for` binds
lives in its block only and is no register.
"""

from dataclasses import replace
from typing import assert_never

from mstarc.ir import exprs as ir_exprs
from mstarc.ir import graph as ir
from mstarc.ir.folding import truth
from mstarc.ir.types import OptionalType
from mstarc.lowering.calls import Sites, lower_call
from mstarc.lowering.contexts import lower_fork, lower_mark, lower_release
from mstarc.lowering.declarations import lower_policy
from mstarc.lowering.exprs import Exprs
from mstarc.lowering.names import Names, Types
from mstarc.names import Symbol
from mstarc.syntax import ast
from mstarc.typecheck import Typed


def lower_machine(machine: ast.MachineDecl, typed: Typed) -> ir.Machine:
    """A machine."""
    return _MachineLowering(machine, typed).machine()


class _MachineLowering:
    def __init__(self, machine: ast.MachineDecl, typed: Typed) -> None:
        self._machine = machine
        self._typed = typed
        self._names = Names()
        self._types = Types()
        self._registers: dict[str, ir.Value] = {}
        self._locals: dict[Symbol, ir_exprs.Expr] = {}
        self._sites = Sites(machine.name.text)
        self._exprs = Exprs(typed, self._locals, self._hoist)
        self._out: list[ir.Statement] = []

    def machine(self) -> ir.Machine:
        machine = self._machine
        for symbol, type_ in self._typed.registers.get(machine.name.text, {}).items():
            lowered = self._types.type(type_)
            if symbol in self._typed.unsure and not isinstance(lowered, OptionalType):
                lowered = OptionalType(lowered)
            value = ir.Value(name=self._names.new(symbol.name), type=lowered)
            self._registers[value.name] = value
            self._locals[symbol] = ir_exprs.Local(value.name)
        condition = None
        if machine.condition is not None:
            condition = self._exprs.lower(machine.condition)
        states = [state for entry in machine.states for state in self._state(entry)]
        return ir.Machine(
            name=machine.name.text,
            condition=condition,
            registers=tuple(self._registers.values()),
            states=tuple(states),
            span=machine.span,
        )

    def _state(self, entry: ast.StateDecl) -> list[ir.State]:
        self._sites = Sites(f"{self._machine.name.text}.{entry.name.text}")
        nexts = [s for s in entry.body.statements if isinstance(s, ast.Next)]
        if self._typed.left_out:
            # What is wanted of what the variant leaves out leads nowhere, also as the last choice.
            held = [go for go in nexts if truth(self._condition(go)) is not False]
            nexts = held or nexts
        body = self._block(tuple(s for s in entry.body.statements if not isinstance(s, ast.Next)))
        return self._chain(entry.name.text, entry, body, nexts)

    def _chain(
        self,
        name: str,
        entry: ast.StateDecl,
        body: tuple[ir.Statement, ...],
        nexts: list[ast.Next],
    ) -> list[ir.State]:
        """A state for the first transition, and one without a body for each further choice.

        Exactly one transition holds, so the last one needs no condition.
        """
        first, *others = nexts
        otherwise = first.otherwise.text if first.otherwise is not None else None
        rest: list[ir.State] = []
        if first.condition is not None and otherwise is None and others:
            if len(others) == 1 and others[0].otherwise is None:
                otherwise = others[0].target.text
            else:
                otherwise = f"{name}.else"
                rest = self._chain(otherwise, entry, (), others)
        condition = None
        if first.condition is not None and otherwise is not None:
            condition = self._exprs.lower(first.condition)
        transition = ir.Transition(
            target=first.target.text, condition=condition, otherwise=otherwise, span=first.span
        )
        return [ir.State(name=name, body=body, next=transition, span=entry.span), *rest]

    def _condition(self, go: ast.Next) -> ir_exprs.Expr | None:
        return None if go.condition is None else self._exprs.lower(go.condition)

    def _block(self, statements: tuple[ast.Stmt, ...]) -> tuple[ir.Statement, ...]:
        outer, self._out = self._out, []
        for statement in statements:
            self._statement(statement)
        body, self._out = tuple(self._out), outer
        return body

    def _bind(self, name: ast.Name) -> ir.Value:
        """A value that is no register: seen in its block only."""
        symbol = self._typed.resolved.uses[name]
        type_ = self._types.type(self._typed.types[name])
        value = ir.Value(name=self._names.new(name.text), type=type_)
        self._locals[symbol] = ir_exprs.Local(value.name)
        return value

    def _target(self, target: ast.Target) -> ir.Value | None:
        if isinstance(target, ast.Discard):
            return None
        register = self._locals[self._typed.resolved.uses[target]]
        assert isinstance(register, ir_exprs.Local)
        return self._registers[register.name]

    def _hoist(self, call: ast.OpCall) -> ir_exprs.Expr:
        op = self._typed.nodes[call.target.node.text].ops[call.target.op.text]
        type_ = self._types.type(self._typed.types[call])
        value = ir.Value(name=self._names.new(op.results[0].name), type=type_)
        self._registers[value.name] = value
        self._call(call, (value,), call)
        return ir_exprs.Local(value.name)

    def _call(
        self, call: ast.OpCall, results: tuple[ir.Value | None, ...], statement: ast.Node
    ) -> None:
        lowered = lower_call(
            call, results, exprs=self._exprs, site="", typed=self._typed, span=statement
        )
        self._out.append(replace(lowered, site=self._sites.new()))

    def _run(self, call: ast.RunCall, targets: tuple[ast.Target, ...], statement: ast.Node) -> None:
        walk = self._typed.walks[call.walk.text]
        arguments = tuple(self._exprs.lower(arg) for arg in self._typed.arguments[call])
        taken = tuple(self._target(target) for target in targets)
        self._out.append(
            ir.Run(
                walk=walk.name,
                arguments=arguments,
                results=taken or (None,) * len(walk.results),
                site=self._sites.new("run"),
                span=statement.span,
            )
        )

    def _statement(self, statement: ast.Stmt) -> None:
        match statement:
            case ast.Assign():
                self._assign(statement)
            case ast.CallStmt():
                self._call(statement.call, (), statement)
            case ast.RunStmt():
                self._run(statement.call, (), statement)
            case ast.Let():
                value = self._exprs.lower(statement.value)
                register = self._target(statement.name)
                assert register is not None
                self._out.append(ir.SetRegister(result=register, value=value, span=statement.span))
            case ast.When():
                self._out.append(self._when(statement))
            case ast.Fork():
                self._out.append(lower_fork(statement, self._exprs))
            case ast.Release():
                self._out.append(lower_release(statement, self._exprs))
            case ast.Mark():
                self._out.append(lower_mark(statement))
            case ast.For():
                part = self._names.new(statement.variable.text)
                symbol = self._typed.resolved.uses[statement.variable]
                self._locals[symbol] = ir_exprs.Local(part)
                body = self._block(statement.body.statements)
                self._out.append(
                    ir.ForParts(
                        part=part, over=statement.source.text, body=body, span=statement.span
                    )
                )
            case ast.Match():
                self._out.append(self._match(statement))
            case ast.Each():
                self._out.append(self._each(statement))
            case ast.Send() | ast.Emit() | ast.Loop() | ast.Parallel() | ast.Next():
                raise AssertionError(f"{type(statement).__name__} in a state")
            case _:
                assert_never(statement)

    def _assign(self, assign: ast.Assign) -> None:
        value = assign.value
        match value:
            case ast.OpCall():
                self._call(value, tuple(self._target(t) for t in assign.targets), assign)
            case ast.RunCall():
                self._run(value, assign.targets, assign)
            case ast.Pull():
                result = self._target(assign.targets[0])
                if result is None:
                    type_ = self._types.type(self._typed.streams[value.stream.text].item)
                    result = ir.Value(name=self._names.new("unused"), type=type_)
                    self._registers[result.name] = result
                self._out.append(
                    ir.Pull(
                        stream=value.stream.text,
                        result=result,
                        or_none=value.or_none,
                        span=assign.span,
                    )
                )
            case _:
                lowered = self._exprs.lower(value)
                result = self._target(assign.targets[0])
                if result is not None:
                    self._out.append(ir.SetRegister(result=result, value=lowered, span=assign.span))

    def _when(self, when: ast.When) -> ir.When:
        condition = self._exprs.lower(when.condition)
        then = self._block(when.then.statements)
        match when.otherwise:
            case ast.When() as inner:
                otherwise: tuple[ir.Statement, ...] = (self._when(inner),)
            case ast.Block() as block:
                otherwise = self._block(block.statements)
            case None:
                otherwise = ()
        return ir.When(condition=condition, then=then, otherwise=otherwise, span=when.span)

    def _match(self, match: ast.Match) -> ir.Match:
        part = self._locals[self._typed.resolved.uses[match.subject]]
        assert isinstance(part, ir_exprs.Local)
        arms = []
        for arm in match.arms:
            value = self._bind(arm.binding)
            body = self._block(arm.body.statements)
            arms.append(ir.Arm(kind=arm.kind.text, value=value, body=body, span=arm.span))
        return ir.Match(part=part.name, arms=tuple(arms), span=match.span)

    def _each(self, each: ast.Each) -> ir.Each:
        site = self._sites.new("each")
        names = tuple(self._bind(name) for name in each.items)
        last = None
        if each.last is not None:
            last = self._names.new(each.last.text)
            self._locals[self._typed.resolved.uses[each.last]] = ir_exprs.Local(last)
        policy = self._typed.policies.get(each)
        return ir.Each(
            streams=tuple(stream.text for stream in each.streams),
            names=names,
            last=last,
            policy=None if policy is None else lower_policy(policy, self._typed),
            until=None if each.until is None else each.until.text,
            body=self._block(each.body.statements),
            site=site,
            span=each.span,
        )
