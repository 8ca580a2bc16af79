"""Go through the statements of a body in order: what each sets, reads and needs."""

from typing import assert_never

from mstarc.diagnostics import Diagnostic, Label
from mstarc.names import Symbol
from mstarc.syntax import ast
from mstarc.typecheck import calls, flow_loops, flow_parts, flow_sends
from mstarc.typecheck.arrays import check_fork, chosen_context
from mstarc.typecheck.calls import Outcome
from mstarc.typecheck.dims import DimVar
from mstarc.typecheck.environment import Env, Held
from mstarc.typecheck.logic import FALSE, TRUE
from mstarc.typecheck.state import State
from mstarc.typecheck.statics import formula, wrong_condition
from mstarc.typecheck.types import ERROR, OptionalType, TensorType, TupleType, Type, optional
from mstarc.typecheck.values import Values


class Flow:
    """Checks one walk, or the states of one machine."""

    def __init__(self, state: State, *, owner: str, is_machine: bool) -> None:
        self.state = state
        self.owner = owner
        self.is_machine = is_machine
        self.values = Values(state, is_machine=is_machine)

    def block(self, block: ast.Block, env: Env) -> None:
        """Check statements one after another; `env` ends as it is behind the last."""
        for statement in block.statements:
            self.statement(statement, env)

    def statement(self, statement: ast.Stmt, env: Env) -> None:
        """Check one statement."""
        match statement:
            case ast.Assign():
                self._assign(statement, env)
            case ast.Let():
                self._let(statement, env)
            case ast.CallStmt():
                calls.check_op_call(statement.call, env, self.values)
            case ast.RunStmt():
                calls.check_run(statement.call, env, self.values)
            case ast.Send():
                flow_sends.check_send(self, statement, env)
            case ast.Emit():
                flow_sends.check_emit(self, statement, env)
            case ast.Loop():
                flow_loops.check_loop(self, statement, env)
            case ast.Parallel():
                flow_loops.check_parallel(self, statement, env)
            case ast.When():
                self._when(statement, env)
            case ast.Fork():
                self._fork(statement, env)
            case ast.Release():
                self._context_path(statement.target, env)
            case ast.For():
                flow_parts.check_for(self, statement, env)
            case ast.Match():
                flow_parts.check_match(self, statement, env)
            case ast.Each():
                flow_parts.check_each(self, statement, env)
            case ast.Mark() | ast.Next():
                pass
            case _:
                assert_never(statement)

    def set(self, name: ast.Name, type_: Type, present: int, env: Env) -> None:
        """Note that a name is set to a value of this type, which is there under `present`."""
        symbol = self.state.resolved.uses[name]
        sure = self.state.logic.implies(env.facts, present)
        self.state.types[name] = type_ if sure else optional(type_)
        env.set(symbol, Held(type_, present, name.span))
        if self.is_machine:
            self._register(symbol, name, self.state.types[name])

    def under(self, condition: ast.Expr | None, env: Env, why: str) -> Env:
        """The place where a condition holds as well; the condition is checked to be static."""
        if condition is None:
            return env
        return env.under(self.state.logic.both(env.facts, self.condition(condition, env, why)))

    def condition(self, condition: ast.Expr, env: Env, why: str) -> int:
        """The formula of a static condition, which is checked."""
        if not self.values.condition(condition, env, why):
            return wrong_condition(condition, self.state)
        return formula(condition, self.state)

    def merge(self, env: Env, condition: int, then: Env, otherwise: Env) -> None:
        """Let `env` be the place behind a choice between two ways."""
        logic = self.state.logic
        for symbol in [*then.values, *otherwise.values]:
            a, b = then.values.get(symbol), otherwise.values.get(symbol)
            if a is b and a is not None:
                continue
            if a is None or b is None:
                known = a or b
                assert known is not None
                present = logic.choice(
                    condition,
                    a.present if a is not None else FALSE,
                    b.present if b is not None else FALSE,
                )
                env.set(symbol, Held(known.type, present, known.span))
                continue
            joined = self.join(symbol, a, b)
            env.set(symbol, Held(joined, logic.choice(condition, a.present, b.present), a.span))
        for branch in (then, otherwise):
            for symbol, lost in branch.lost.items():
                if symbol not in env.values:
                    env.lost.setdefault(symbol, lost)

    def join(self, symbol: Symbol, a: Held, b: Held) -> Type:
        """The type of a value that comes from one of two places; unlike ones are reported."""
        joined = _join(a.type, b.type, symbol, self.state)
        if joined is not None:
            return joined
        self.state.sink.report(
            Diagnostic(
                code="MS0329",
                message=f"`{symbol.name}` is of two types",
                primary=Label(span=b.span, text=f"here `{b.type}`"),
                helps=("give one of the two another name",),
            ).label(a.span, f"here `{a.type}`")
        )
        return ERROR

    def _register(self, symbol: Symbol, name: ast.Name, type_: Type) -> None:
        registers = self.state.registers.setdefault(self.owner, {})
        known = registers.get(symbol)
        if known is None:
            registers[symbol] = type_
            return
        span = symbol.declaration.span
        registers[symbol] = self.join(symbol, Held(known, TRUE, span), Held(type_, TRUE, name.span))

    def _assign(self, assign: ast.Assign, env: Env) -> None:
        outcomes = self._outcomes(assign, env)
        if outcomes is None:
            for target in assign.targets:
                if isinstance(target, ast.Name):
                    self.set(target, ERROR, TRUE, env)
            return
        is_wrong = len(outcomes) != len(assign.targets)
        if is_wrong:
            self._wrong_count(assign, outcomes)
        for index, target in enumerate(assign.targets):
            if isinstance(target, ast.Discard):
                continue
            if index < len(outcomes):
                # Which name was meant for which value is not known then.
                type_ = ERROR if is_wrong else outcomes[index].type
                self.set(target, type_, outcomes[index].present, env)
            else:
                self.set(target, ERROR, TRUE, env)
                # That nothing reads it follows from there being nothing.
                self.values.read.add(self.state.resolved.uses[target])

    def _outcomes(self, assign: ast.Assign, env: Env) -> list[Outcome] | None:
        value = assign.value
        match value:
            case ast.OpCall():
                return calls.check_op_call(value, env, self.values)
            case ast.RunCall():
                return calls.check_run(value, env, self.values)
            case ast.Pull():
                symbol = self.state.resolved.meaning(value.stream)
                stream = self.state.streams.get(symbol.name) if symbol is not None else None
                if stream is None:
                    return None
                item = optional(stream.item) if value.or_none else stream.item
                return [Outcome(stream.name, item, TRUE)]
            case ast.Name():
                type_ = self.values.type_of(value, env)
                symbol = self.state.resolved.meaning(value)
                held = env.values.get(symbol) if symbol is not None else None
                if held is not None:
                    return [Outcome(value.text, held.type, held.present)]
                return [Outcome(value.text, type_, TRUE)]
            case _:
                return [Outcome("value", self.values.type_of(value, env), TRUE)]

    def _wrong_count(self, assign: ast.Assign, outcomes: list[Outcome]) -> None:
        names = ", ".join(f"`{outcome.name}`" for outcome in outcomes)
        what = f"gives {len(outcomes)}" + (f": {names}" if outcomes else "")
        diagnostic = Diagnostic(
            code="MS0313",
            message=f"{_values(len(outcomes))} for {_names(len(assign.targets))}",
            primary=Label(span=assign.value.span, text=what),
        )
        if len(assign.targets) < len(outcomes):
            diagnostic = diagnostic.help("`_` takes a value that is not needed")
        elif not outcomes and isinstance(assign.value, ast.RunCall):
            walk = assign.value.walk.text
            diagnostic = diagnostic.help(
                f"say what the walk gives: `walk {walk}(…) -> (name: type) {{ … }}`; "
                "the value of that name is its result"
            )
        elif not outcomes:
            diagnostic = diagnostic.help("leave out the names and `=`")
        else:
            diagnostic = diagnostic.help("write one name for each value")
        self.state.sink.report(diagnostic)

    def _let(self, let: ast.Let, env: Env) -> None:
        type_ = self.values.type_of(let.value, env)
        if type_ != ERROR and not self.values.static(let.value, f"the let `{let.name.text}`"):
            type_ = ERROR
        self.set(let.name, type_, TRUE, env)

    def _when(self, when: ast.When, env: Env) -> None:
        logic = self.state.logic
        condition = self.condition(when.condition, env, "the condition of `when`")
        then = env.under(logic.both(env.facts, condition))
        otherwise = env.under(logic.both(env.facts, logic.negation(condition)))
        self.block(when.then, then)
        if isinstance(when.otherwise, ast.When):
            self._when(when.otherwise, otherwise)
        elif when.otherwise is not None:
            self.block(when.otherwise, otherwise)
        self.merge(env, condition, then, otherwise)

    def _fork(self, fork: ast.Fork, env: Env) -> None:
        self._context_path(fork.target, env)
        self._context_path(fork.source, env)
        if fork.condition is not None:
            self.condition(fork.condition, env, "the condition of `fork`")
        target, source = fork.target, fork.source
        if target.node.text != source.node.text:
            self.state.sink.report(
                Diagnostic(
                    code="MS0532",
                    message="a fork goes from one context of a node to another",
                    primary=Label(span=target.node.span, text=f"of `{target.node.text}`"),
                ).label(source.node.span, f"of `{source.node.text}`")
            )
        elif self.state.contexts.get(target) == self.state.contexts.get(source):
            self.state.error(
                "MS0532", fork.span, "a context cannot be forked from itself", "both are the same"
            )
        elif (node := self.state.nodes.get(target.node.text)) is not None:
            check_fork(fork, node.contexts, self.state)

    def _context_path(self, path: ast.ContextPath, env: Env) -> None:
        state = self.state
        node = state.resolved.meaning(path.node)
        info = state.nodes.get(node.name) if node is not None else None
        if info is None:
            return
        if info.engine != "kv_cache":
            state.sink.report(
                Diagnostic(
                    code="MS0531",
                    message=f"node `{info.name}` has no contexts",
                    primary=Label(span=path.span, text="not a context"),
                ).label(info.decl.engine.span, f"its engine is `{info.engine}`")
            )
            return
        named = {context.name: context for context in info.contexts}
        chosen = named.get(path.context.name.text)
        state.contexts[path] = chosen_context(path.context, chosen, env, self.values)


def _join(a: Type, b: Type, symbol: Symbol, state: State) -> Type | None:
    """The type that both are of, sizes that differ left open; None where there is none."""
    if a == b or ERROR in (a, b):
        return ERROR if ERROR in (a, b) else a
    if isinstance(a, OptionalType) or isinstance(b, OptionalType):
        inner_a = a.item if isinstance(a, OptionalType) else a
        inner_b = b.item if isinstance(b, OptionalType) else b
        joined = _join(inner_a, inner_b, symbol, state)
        return None if joined is None else optional(joined)
    match a, b:
        case TensorType(dtype, dims), TensorType(other, sizes):
            if dtype != other or len(dims) != len(sizes):
                return None
            return TensorType(
                dtype,
                tuple(
                    left
                    if left == right
                    else state.fresh_dim(symbol.declaration, _axis(left.variable, axis), "free")
                    for axis, (left, right) in enumerate(zip(dims, sizes, strict=True))
                ),
            )
        case TupleType(fields), TupleType(entries) if len(fields) == len(entries):
            joined_fields = []
            for (name, left), (other_name, right) in zip(fields, entries, strict=True):
                joined = _join(left, right, symbol, state)
                if name != other_name or joined is None:
                    return None
                joined_fields.append((name, joined))
            return TupleType(tuple(joined_fields))
        case _:
            return None


def _axis(var: DimVar | None, axis: int) -> DimVar:
    name = var.name if var is not None and var.origin == "free" else f"D{axis + 1}"
    return DimVar(name, -axis - 1)


def _values(count: int) -> str:
    return "no value" if count == 0 else f"{count} value{'s' if count > 1 else ''}"


def _names(count: int) -> str:
    return f"{count} name{'s' if count > 1 else ''}"
