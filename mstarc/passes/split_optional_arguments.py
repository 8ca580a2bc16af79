"""Call an op with a value or with none, where either may be given.

Before:  %u: f32[8] or none = when let guided { %u.1 = dit.draw(%x) yield %u.1 }
         %y = solver.step(%x, %u) #go/2
After:   %u: f32[8] = when let guided { %u.1 = dit.draw(%x) yield %u.1 }
         %y = when let guided { %y.1 = solver.step(%x, %u) #go/2 yield %y.1 }
              else { %y.2 = solver.step(%x, none) #go/2.1 yield %y.2 }

Whether a value is there is known when a request is admitted: by the condition under which a walk
sets it, or the states of a machine that a request goes through. So a call or a run that is given
such a value stands in a choice, once with the value and once with `none`. Afterwards a value that
is only ever given so has a type without `or none`, and steps look at no value to see whether it is
there.

Not here: what `pull … or none` gives, which only the run knows, and values that a `for`, an `each`
or a `match` sets; those keep their type.
"""

from dataclasses import replace

from mstarc.ir.exprs import Binary, Const, Expr, Local, LoopIndex, PartAttribute, Unary
from mstarc.ir.folding import fold, truth
from mstarc.ir.graph import (
    Call,
    Each,
    ForParts,
    Loop,
    Machine,
    Match,
    Parallel,
    Program,
    Run,
    State,
    Statement,
    Value,
    Walk,
    When,
)
from mstarc.ir.types import OptionalType
from mstarc.ir.walking import Body, definitions_of, map_statements, statements_of, subexpressions
from mstarc.passes.context import PassContext
from mstarc.passes.optional_values import OptionalParameters, Sites, certain, retyped, without_value

TRUE = Const(True)


def split_optional_arguments(program: Program, context: PassContext) -> Program:  # noqa: ARG001 - a pass
    """The program in which values that may be none are given where they are there."""
    optional = OptionalParameters(program)
    return replace(
        program,
        walks=tuple(_WalkSplitter(walk, optional).walk() for walk in program.walks),
        machines=tuple(
            _MachineSplitter(machine, optional).machine() for machine in program.machines
        ),
    )


class _WalkSplitter:
    """One walk. `present` says when a value is there; `kept` are values that stay optional."""

    def __init__(self, walk: Walk, optional: OptionalParameters) -> None:
        self._walk = walk
        self._optional = optional
        self._flags = {value.name for value in walk.parameters}
        statements = tuple(statements_of(walk.body))
        made = [value for statement in statements for value in definitions_of(statement)]
        loops = [statement for statement in statements if isinstance(statement, Loop)]
        carried = {carry.value.name for loop in loops for carry in loop.carries}
        self._names = {value.name for value in made} | self._flags | carried
        self._unsure = {value.name for value in made if isinstance(value.type, OptionalType)}
        self._sites = Sites()
        self._present: dict[str, Expr] = {}
        self._split: set[str] = set()
        self._kept: set[str] = set()

    def walk(self) -> Walk:
        body = self._body(self._walk.body, frozenset())
        sure = self._split - self._kept
        if not self._split:
            return self._walk
        body = map_statements(body, lambda statement: retyped(statement, sure))
        return replace(self._walk, body=body)

    def _body(self, body: Body, indices: frozenset[str]) -> Body:
        made: list[Statement] = []
        for statement in body:
            made.extend(self._statement(statement, indices))
        return tuple(made)

    def _statement(self, statement: Statement, indices: frozenset[str]) -> Body:
        match statement:
            case Call() | Run():
                given = [n for n in self._optional.given(statement) if n in self._unsure]
                names = [name for name in given if self._knows(name, indices)]
                if not names:
                    return (statement,)
                self._split.update(names)
                body, _ = self._choose(statement, names, statement.results)
                return body
            case When():
                made = replace(
                    statement,
                    then=self._body(statement.then, indices),
                    otherwise=self._body(statement.otherwise, indices),
                )
                self._note(made)
                return (made,)
            case Loop():
                inside = indices if statement.index is None else indices | {statement.index}
                before = dict(self._present)
                made_loop = replace(statement, body=self._body(statement.body, inside))
                self._present = before
                return (made_loop,)
            case Parallel(branches=branches):
                return (
                    replace(
                        statement,
                        branches=tuple(self._body(branch, indices) for branch in branches),
                    ),
                )
            case _:
                return (statement,)

    def _note(self, when: When) -> None:
        """Remember when the results of a choice are there that one branch alone sets."""
        reads = {p.name for p in subexpressions(when.condition) if isinstance(p, Local)}
        known = reads <= self._flags
        for result, then, otherwise in zip(
            when.results, when.then_yields, when.otherwise_yields, strict=True
        ):
            if not known or (then == Const(None)) == (otherwise == Const(None)):
                continue
            if any(isinstance(y, Local) and y.name in self._present for y in (then, otherwise)):
                continue
            is_there = when.condition if otherwise == Const(None) else Unary("not", when.condition)
            self._present[result.name] = is_there

    def _knows(self, name: str, indices: frozenset[str]) -> bool:
        """Whether it is known here when a value is there; what stays unknown keeps its type."""
        condition = self._present.get(name)
        if condition is None:
            self._kept.add(name)
            return False
        reads = {p.name for p in subexpressions(condition) if isinstance(p, LoopIndex)}
        if not reads <= indices:
            self._kept.add(name)
            return False
        return True

    def _choose(
        self, call: Call | Run, names: list[str], results: tuple[Value | None, ...]
    ) -> tuple[Body, tuple[Expr, ...]]:
        """The call under a choice for each name, and what its results are called."""
        if not names:
            placed = replace(call, results=results, site=self._sites.next(call.site))
            return (placed,), tuple(Local(value.name) for value in results if value is not None)
        name, *others = names
        with_value, then = self._choose(call, others, self._fresh(results))
        without, otherwise = self._choose(without_value(call, name), others, self._fresh(results))
        when = When(
            condition=self._present[name],
            then=with_value,
            otherwise=without,
            then_yields=then,
            otherwise_yields=otherwise,
            results=tuple(value for value in results if value is not None),
            span=call.span,
        )
        return (when,), tuple(Local(value.name) for value in results if value is not None)

    def _fresh(self, results: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
        return tuple(
            None if value is None else replace(value, name=self._new(value.name))
            for value in results
        )

    def _new(self, name: str) -> str:
        base = name.split(".")[0]
        number = 1
        while f"{base}.{number}" in self._names:
            number += 1
        self._names.add(f"{base}.{number}")
        return f"{base}.{number}"


class _MachineSplitter:
    """One machine: registers are there by the states that a request goes through."""

    def __init__(self, machine: Machine, optional: OptionalParameters) -> None:
        self._machine = machine
        self._optional = optional
        self._states = {state.name: state for state in machine.states}
        self._registers = {v.name for v in machine.registers if isinstance(v.type, OptionalType)}
        self._visited: dict[str, Expr] = {}
        self._sites = Sites()
        self._split: set[str] = set()
        self._kept: set[str] = set()
        # By register: when a statement before the one at hand has set it; none where unknown.
        self._set: dict[str, list[Expr | None]] = {}

    def machine(self) -> Machine:
        if not self._registers:
            return self._machine
        states = tuple(self._state(state) for state in self._machine.states)
        sure = self._split - self._kept
        if not sure:
            return self._machine
        made = tuple(
            replace(state, body=map_statements(state.body, lambda s: retyped(s, sure)))
            for state in states
        )
        registers = tuple(certain(value, sure) for value in self._machine.registers)
        return replace(self._machine, registers=registers, states=made)

    def _reached(self, name: str) -> Expr:
        """When a request goes through a state."""
        if name not in self._visited:
            self._visited[name] = self._ways_into(name)
        return self._visited[name]

    def _ways_into(self, name: str) -> Expr:
        if name == self._machine.states[0].name:
            return TRUE
        ways: list[Expr] = []
        for state in self._machine.states:
            go = state.next
            condition = TRUE if go.condition is None else go.condition
            if go.target == name:
                ways.append(_both(self._reached(state.name), condition))
            if go.otherwise == name:
                ways.append(_both(self._reached(state.name), Unary("not", condition)))
        return _any(ways)

    def _state(self, state: State) -> State:
        self._set = {name: [] for name in self._registers}
        for earlier in self._machine.states:
            if earlier.name != state.name and self._leads(earlier.name, state.name):
                self._note(earlier.body, self._reached(earlier.name))
        return replace(state, body=self._body(state.body, TRUE))

    def _leads(self, start: str, to: str) -> bool:
        go = self._states[start].next
        targets = [target for target in (go.target, go.otherwise) if target in self._states]
        return any(target == to or self._leads(target, to) for target in targets)

    def _note(self, body: Body, condition: Expr | None) -> None:
        """Remember what statements set, and when; under a `for` nobody knows."""
        for statement in body:
            for value in definitions_of(statement):
                if value.name in self._set:
                    self._set[value.name].append(condition)
            match statement:
                case When(condition=inner, then=then, otherwise=otherwise):
                    plain = condition is not None and not _is_dynamic(inner)
                    taken = _both(condition, inner) if plain and condition is not None else None
                    other = (
                        _both(condition, Unary("not", inner))
                        if plain and condition is not None
                        else None
                    )
                    self._note(then, taken)
                    self._note(otherwise, other)
                case ForParts(body=inside) | Each(body=inside):
                    self._note(inside, None)
                case Match(arms=arms):
                    for arm in arms:
                        self._note(arm.body, None)
                case _:
                    pass

    def _body(self, body: Body, condition: Expr | None) -> Body:
        made: list[Statement] = []
        for statement in body:
            match statement:
                case Call() | Run():
                    names = [n for n in self._optional.given(statement) if n in self._registers]
                    made.extend(self._choose(statement, [n for n in names if self._knows(n)]))
                case When(condition=inner):
                    plain = condition is not None and not _is_dynamic(inner)
                    before = {name: list(found) for name, found in self._set.items()}
                    then = self._body(statement.then, condition if plain else None)
                    self._set = {name: list(found) for name, found in before.items()}
                    otherwise = self._body(statement.otherwise, condition if plain else None)
                    self._set = before
                    made.append(replace(statement, then=then, otherwise=otherwise))
                case ForParts(body=inside) | Each(body=inside):
                    made.append(replace(statement, body=self._body(inside, None)))
                    continue
                case Match(arms=arms):
                    arms = tuple(replace(a, body=self._body(a.body, None)) for a in arms)
                    made.append(replace(statement, arms=arms))
                case _:
                    made.append(statement)
            self._note((statement,), condition)
        return tuple(made)

    def _knows(self, name: str) -> bool:
        found = self._set[name]
        if not found or any(c is None or _is_dynamic(c) for c in found):
            self._kept.add(name)
            return False
        self._split.add(name)
        return True

    def _choose(self, call: Call | Run, names: list[str]) -> Body:
        if not names:
            return (replace(call, site=self._sites.next(call.site)),)
        name, *others = names
        is_there = fold(_any([c for c in self._set[name] if c is not None]))
        if truth(is_there):
            return self._choose(call, others)
        when = When(
            condition=is_there,
            then=self._choose(call, others),
            otherwise=self._choose(without_value(call, name), others),
            span=call.span,
        )
        return (when,)


def _both(left: Expr, right: Expr) -> Expr:
    return fold(Binary("and", left, right))


def _any(conditions: list[Expr]) -> Expr:
    result: Expr = Const(False)
    for condition in dict.fromkeys(conditions):
        result = fold(Binary("or", result, condition))
    return result


def _is_dynamic(condition: Expr) -> bool:
    """Whether a condition reads what differs from place to place: a register, an index, a part."""
    return any(
        isinstance(part, Local | LoopIndex | PartAttribute) for part in subexpressions(condition)
    )
