"""Registers that may be none: a variable beside each says whether it is there.

Before:  a register `voice: f32[64]?` that only some states set, given to an op that takes none
After:   `voice` and `voice.there`, false in the first step and set to true wherever `voice` is set

Not here: what an op does with an argument that is none (codegen).
"""

from typing import TYPE_CHECKING

from mstarc.ir.exprs import Const, Expr, Local
from mstarc.ir.graph import Call, Parameter, Run, SetRegister, Statement, Value
from mstarc.ir.types import OptionalType, TensorType
from mstarc.ir.walking import definitions_of, statements_of
from mstarc.plan.draft import Place
from mstarc.plan.scope import Scope

if TYPE_CHECKING:
    from mstarc.plan.flatten import Flattener


class PresenceFlattener:
    """The part of a `Flattener` that knows values that may be none."""

    def __init__(self, flattener: "Flattener") -> None:
        self.flattener = flattener

    def set_absent(self) -> None:
        """What only some passes set is not there in the beginning, and says so until it is."""
        flattener, machine = self.flattener, self.flattener.machine
        given = self._given_or_none()
        unset = [value for value in machine.registers if value.name in given]
        scope = Scope(Place(machine=machine.name, state=machine.states[0].name), "")
        optional = flattener.optional
        for value in unset:
            flag = Value(name=f"{value.name}.there", type=TensorType("bool"))
            there = flattener.define(flag, scope)
            optional[value.name] = there
            flattener.hints[there] = f"{value.name}_there"
        pairs: list[tuple[str, Expr]] = [(optional[v.name], Const(False)) for v in unset]
        flattener.move(pairs, scope, machine.span)

    def set_present(self, statement: Statement, scope: Scope) -> None:
        """A statement has set values of the machine that may be none: they are there."""
        if not scope.is_machine or not isinstance(statement, Call | Run | SetRegister):
            return
        optional = self.flattener.optional
        names = [value.name for value in definitions_of(statement) if value.name in optional]
        pairs: list[tuple[str, Expr]] = [(optional[name], Const(True)) for name in names]
        self.flattener.move(pairs, scope, statement.span)

    def _given_or_none(self) -> set[str]:
        """Registers that may be none where an op or a walk is given them, which takes that."""
        flattener, machine = self.flattener, self.flattener.machine
        optional = {v.name for v in machine.registers if isinstance(v.type, OptionalType)}
        found: set[str] = set()
        for statement in (s for state in machine.states for s in statements_of(state.body)):
            wanted: tuple[Value | Parameter, ...] = ()
            if isinstance(statement, Call):
                wanted = flattener.signatures.ops[statement.node, statement.op].parameters
            elif isinstance(statement, Run):
                wanted = flattener.walks[statement.walk].parameters
            if isinstance(statement, Call | Run):
                for argument, parameter in zip(statement.arguments, wanted, strict=True):
                    takes_none = isinstance(parameter.type, OptionalType)
                    if takes_none and isinstance(argument, Local):
                        found.add(argument.name)
        return found & optional
