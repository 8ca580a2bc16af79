"""Cut loops into passes.

Before:  loop max $n carry (%t = %first) while %t != 2 { send s <- %t   %u = lm.step(%t)  yield %u }
After:   step before:  t = first;  more = test(t != 2);  send s <- t where more;  enter
         step pass:    t = lm.step(t);  more = test(t != 2);  send s <- t where more;  again

A `while` loop is rotated: what its body does before its first call runs when the carried values are
made, at the end of the step before, where the test said that another pass follows. So a pass begins
with a call, and nothing waits for the test's value. Reshapes are computed in both places, since a
pass may need them too.

A `times` loop of a constant bound, whose body is nothing but calls of one device, is not cut: it is
repeated inside its step, and a capture region holds the whole of it.
"""

from typing import TYPE_CHECKING

from mstarc.ir.exprs import (
    Binary,
    Const,
    Expr,
    Has,
    LetRef,
    Local,
    LoopIndex,
    Option,
    PartAttribute,
    TableItem,
    Wants,
)
from mstarc.ir.folding import fold
from mstarc.ir.graph import Assign, Call, Emit, Loop, Send, Statement
from mstarc.ir.walking import map_expr, reads_of, statements_of, subexpressions
from mstarc.plan.actions import Action, CallOp, Gather, Keep, Move, Repeat, Reset, Test
from mstarc.plan.draft import LoopEdge
from mstarc.plan.extents import is_sized
from mstarc.plan.ranks import last_rank
from mstarc.plan.scope import Scope
from mstarc.plan.signatures import has_free_dim, where_there
from mstarc.plan.words import loop_text, spec_expr

if TYPE_CHECKING:
    from mstarc.plan.flatten import Flattener


_OF_REQUEST = {Option, LetRef, Wants, Has, PartAttribute}


class LoopFlattener:
    """The part of a `Flattener` that knows loops. `bounds` has the loops that were cut."""

    def __init__(self, flattener: "Flattener") -> None:
        self.flattener = flattener
        self.bounds: dict[str, Expr] = {}
        self.tested: dict[str, bool] = {}
        self.ranks: dict[str, int] = {}
        self.collectors: dict[str, Expr] = {}
        self.carried: set[str] = set()
        self.indices: list[str] = []
        self._names: set[str] = set()

    def loop(self, loop: Loop, scope: Scope) -> None:
        """Cut a loop into passes, or repeat it in place."""
        # Named either way: a loop has one name in all placements.
        name = self._name(loop, scope)
        if self._is_repeatable(loop):
            self._repeat(loop, scope)
        else:
            self._cut(loop, scope, name)

    # Repeated in place

    def _is_repeatable(self, loop: Loop) -> bool:
        if loop.kind != "times" or not isinstance(loop.bound, Const):
            return False
        if loop.condition is not None or loop.until is not None:
            return False
        signatures = self.flattener.signatures
        statements = tuple(statements_of(loop.body))
        calls = [s for s in statements if isinstance(s, Call)]
        plain = all(isinstance(s, Call | Assign | Send | Emit | Loop) for s in statements)
        inner = [s for s in statements if isinstance(s, Loop)]
        regions = self.flattener.drafting.regions
        return (
            plain
            and bool(calls)
            and all(self._is_repeatable(s) for s in inner)
            and not any(signatures.is_host(call.node) for call in calls)
            and not any(signatures.is_of_array(call) for call in calls)
            and not any(signatures.moves_freely(call) for call in calls)
            and not any(signatures.keeps_fixed_rows(call) for call in calls)
            and not any(self._is_sized(statement) for statement in (loop, *statements))
            and not any(self._asks_pass(statement) for statement in statements)
            and len({call.ranks for call in calls}) == 1
            and len({regions.get(call.site) for call in calls}) == 1
        )

    def _asks_pass(self, statement: Statement) -> bool:
        """Whether something depends on the number of a pass and on the request: admission knows."""
        if isinstance(statement, Send | Emit):
            condition = statement.condition
            parts = set(map(type, subexpressions(condition))) if condition is not None else set()
            return LoopIndex in parts
        if not isinstance(statement, Call):
            return False
        kinds = [set(map(type, subexpressions(argument))) for argument in statement.arguments]
        return any(LoopIndex in found and found & _OF_REQUEST for found in kinds)

    def _is_sized(self, statement: Statement) -> bool:
        """Whether a statement makes a value that is as large as the request says."""
        exprs = reads_of(statement)
        if isinstance(statement, Loop):
            exprs += statement.yields
        return any(is_sized(self.flattener.turns.named(expr)) for expr in exprs)

    def _repeat(self, loop: Loop, scope: Scope) -> None:
        flattener = self.flattener
        drafting = flattener.drafting
        calls = [s for s in statements_of(loop.body) if isinstance(s, Call)]
        if not drafting.sinks:
            self._room_for(loop, calls, scope)
        initial = [flattener.expr(carry.initial, scope) for carry in loop.carries]
        self._set_carries(loop, scope, initial)
        body: list[Action] = []
        drafting.sinks.append(body)
        self.indices += [loop.index] if loop.index is not None else []
        flattener.body(loop.body, scope)
        if loop.index is not None:
            self.indices.pop()
        for collect in loop.collects:
            value = flattener.expr(_at_pass_end(loop, collect.value), scope)
            drafting.add(Keep(result=scope.prefix + collect.result.name, value=value))
        self._yield(loop, scope, [flattener.expr(value, scope) for value in loop.yields])
        drafting.sinks.pop()
        assert isinstance(loop.bound, Const)
        assert isinstance(loop.bound.value, int)
        drafting.add(
            Repeat(
                index=loop.index,
                passes=loop.bound.value,
                passes_name=loop.bound.name,
                body=tuple(body),
                collects=tuple(
                    flattener.define(collect.result, scope) for collect in loop.collects
                ),
                text=loop_text(loop),
            )
        )
        self._results(loop, scope)

    def _room_for(self, loop: Loop, calls: list[Call], scope: Scope) -> None:
        """Open the step that holds the whole loop: its first call decides whether it is new."""
        drafting = self.flattener.drafting
        rank = calls[0].home
        line = self.flattener.line(loop.span)
        probes = [_probe(call) for call in calls]
        if all(drafting.can_join(rank, probe) for probe in probes):
            return
        drafting.start("device", rank, scope.place, line)

    # Cut into passes

    def _cut(self, loop: Loop, scope: Scope, name: str) -> None:
        flattener = self.flattener
        drafting = flattener.drafting
        # Where a pass ends, the next one is tested.
        home = last_rank(loop.body, flattener.walks)
        home = drafting.rank if home is None else home
        line = flattener.line(loop.span)
        self.bounds[name] = flattener.expr(loop.bound, scope)
        self.tested[name] = loop.condition is not None or loop.until is not None
        self.ranks[name] = home

        initial = [
            flattener.settled(
                flattener.expr(carry.initial, scope), scope, loop.span, carry.value.name
            )
            for carry in loop.carries
        ]
        needs_device = self.tested[name] or bool(loop.collects)
        if needs_device:
            drafting.device(home, scope.place, line)
        else:
            drafting.open_step(home, scope.place, line)
        draft = drafting.current
        assert draft is not None
        draft.role = draft.role or ("enter" if not draft.calls and not draft.reads else "")
        self._set_carries(loop, scope, initial)
        for collect in loop.collects:
            collector = flattener.define(collect.result, scope)
            self.collectors[collector] = flattener.expr(loop.bound, scope)
            drafting.add(Reset(collector=collector))
        if loop.index is not None:
            flattener.turns.enter(name, loop.index, self.bounds[name])
        early, rest = self._split(loop, scope)
        if loop.condition is not None:
            self._test(loop, scope, early, None if loop.index is None else Const(0))
        elif loop.until is not None:
            drafting.add(Test(condition=None, negate=False, used=False, text="the first pass"))
        first, otherwise = drafting.label(), drafting.label()
        drafting.close(LoopEdge("enter", name, first, otherwise))

        drafting.put_label(first)
        drafting.role = "pass"
        drafting.rank = home
        at_start = self._gathers_at_start(loop, rest, home)
        gathered = not at_start
        for statement in rest:
            if not gathered and not isinstance(statement, Assign):
                drafting.device(home, scope.place, line)
                self._gather(loop, scope)
                gathered = True
            flattener.statement(statement, scope)
        drafting.rank = home if drafting.current is None else drafting.rank
        handed_on = [
            flattener.settled(flattener.expr(value, scope), scope, loop.span, carry.value.name)
            for value, carry in zip(loop.yields, loop.carries, strict=True)
        ]
        if needs_device:
            draft = drafting.device(home, scope.place, line)
        else:
            draft = drafting.open_step(home, scope.place, line)
        if not draft.calls and not draft.role:
            draft.role = "end"
        if not at_start:
            self._gather(loop, scope)
        if loop.until is not None:
            until = flattener.expr(loop.until, scope)
            self._look_up(until, loop)
            text = f"until {spec_expr(loop.until)}"
            drafting.add(Test(condition=until, negate=True, used=False, text=text))
        self._yield(loop, scope, handed_on)
        if loop.condition is not None:
            index = None if loop.index is None else LoopIndex(loop.index)
            self._test(loop, scope, early, None if index is None else Binary("+", index, Const(1)))
        if loop.index is not None:
            flattener.turns.leave(loop.index)
        drafting.close(LoopEdge("again", name, first, otherwise))

        drafting.put_label(otherwise)
        self._results(loop, scope)
        for collect in loop.collects:
            flattener.define(collect.result, scope)

    def _gathers_at_start(self, loop: Loop, rest: tuple[Statement, ...], home: int) -> bool:
        """Whether a pass collects only what it begins with, so that nothing keeps it alive."""
        carried = {carry.value.name for carry in loop.carries}
        copies: set[str] = set()
        for statement in rest:
            match statement:
                case Assign(result=result, value=Local(name)) if name in carried | copies:
                    copies.add(result.name)
                case Call(node=node) if statement.home == home:
                    break
                case _:
                    return False
        else:
            return False
        device = not self.flattener.signatures.is_host(node)
        values = [collect.value for collect in loop.collects]
        return (
            device
            and bool(values)
            and all(isinstance(value, Local) and value.name in copies for value in values)
        )

    def _gather(self, loop: Loop, scope: Scope) -> None:
        flattener = self.flattener
        for collect in loop.collects:
            value = flattener.expr(_at_pass_end(loop, collect.value), scope)
            collector = flattener.define(collect.result, scope)
            flattener.drafting.add(Gather(collector=collector, value=value))

    def _test(
        self, loop: Loop, scope: Scope, early: tuple[Statement, ...], number: Expr | None
    ) -> None:
        """The test before a pass, and what the pass does before its first call.

        `number` is that of the pass which is asked about; None where the loop has no index.
        """
        flattener = self.flattener
        assert loop.condition is not None
        asked = loop.condition
        if number is not None:
            asked = map_expr(asked, lambda e: number if e == LoopIndex(loop.index or "") else e)
        condition = fold(flattener.expr(asked, scope))
        self._look_up(condition, loop)
        used = any(isinstance(s, Send | Emit) for s in early)
        text = f"while {spec_expr(loop.condition)}"
        flattener.drafting.add(Test(condition=condition, negate=False, used=used, text=text))
        if not used:
            return
        ahead = Scope(scope.place, f"{scope.prefix}next.")
        ahead.values = dict(scope.values)
        for statement in early:
            flattener.statement(statement, ahead, masked=True)

    def _look_up(self, condition: Expr, loop: Loop) -> None:
        """The tables that a test on the device asks."""
        turns = self.flattener.turns
        for part in subexpressions(condition):
            if isinstance(part, TableItem):
                turns.look_up(part.table, turns.dtype_of_table(part.table), None, loop.span)

    def _split(
        self, loop: Loop, scope: Scope
    ) -> tuple[tuple[Statement, ...], tuple[Statement, ...]]:
        """What a `while` loop does before its first call, and what a pass is left with.

        What asks for the number of the pass, or sends as much as a request has, waits for the pass.
        """
        if loop.condition is None:
            return (), loop.body
        count = 0
        while count < len(loop.body) and self._is_early(loop.body[count], loop, scope):
            count += 1
        early, rest = loop.body[:count], loop.body[count:]
        return early, (*(s for s in early if isinstance(s, Assign)), *rest)

    def _is_early(self, statement: Statement, loop: Loop, scope: Scope) -> bool:
        if not isinstance(statement, Assign | Send | Emit):
            return False
        exprs = [self.flattener.expr(expr, scope) for expr in reads_of(statement)]
        parts = [part for expr in exprs for part in subexpressions(expr)]
        if any(isinstance(part, LoopIndex) for part in parts) or any(map(is_sized, exprs)):
            return False
        types = self.flattener.types
        names = [part.name for part in parts if isinstance(part, Local)]
        return not isinstance(statement, Send) or not any(
            has_free_dim(where_there(types[name])) for name in names if name in types
        )

    def _set_carries(self, loop: Loop, scope: Scope, initial: list[Expr]) -> None:
        flattener = self.flattener
        names = [flattener.define(carry.value, scope) for carry in loop.carries]
        self.carried.update(names)
        self._move(names, initial)

    def _yield(self, loop: Loop, scope: Scope, values: list[Expr]) -> None:
        names = [scope.prefix + carry.value.name for carry in loop.carries]
        self._move(names, values)
        for carry, name in zip(loop.carries, names, strict=True):
            scope.values[carry.value.name] = Local(name)

    def _move(self, names: list[str], values: list[Expr]) -> None:
        pairs = tuple(
            (name, value) for name, value in zip(names, values, strict=True) if value != Local(name)
        )
        if pairs:
            text = ", ".join(f"{name} = {spec_expr(value)}" for name, value in pairs)
            self.flattener.drafting.add(Move(pairs=pairs, text=text))

    def _results(self, loop: Loop, scope: Scope) -> None:
        """After a loop its results are the carried variables, which nothing sets any more."""
        for result, carry in zip(loop.results, loop.carries, strict=True):
            scope.values[result.name] = Local(scope.prefix + carry.value.name)

    def _name(self, loop: Loop, scope: Scope) -> str:
        place = scope.place
        return self.declare(f"{place.machine}.{place.walk or place.state}")

    def declare(self, base: str) -> str:
        """A name for a loop, unique in its machine."""
        name, count = base, 1
        while name in self._names:
            count += 1
            name = f"{base}.{count}"
        self._names.add(name)
        return name

    def flat(self, actions: "list[Action] | tuple[Action, ...]") -> list[Action]:
        """Actions, with those of repeated bodies."""
        found: list[Action] = []
        for action in actions:
            found.append(action)
            if isinstance(action, Repeat):
                found.extend(self.flat(action.body))
        return found


def _at_pass_end(loop: Loop, value: Expr) -> Expr:
    """What a `collect` of a carried value gathers: what the pass hands on."""
    for carry, handed_on in zip(loop.carries, loop.yields, strict=True):
        if value == Local(carry.value.name):
            return handed_on
    return value


def _probe(call: Call) -> CallOp:
    """A call without values: enough to ask which step may hold it."""
    return CallOp(
        node=call.node,
        op=call.op,
        arguments=(),
        results=(),
        site=call.site,
        line=0,
        text="",
    )
