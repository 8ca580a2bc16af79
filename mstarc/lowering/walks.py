"""Bodies of walks in single-assignment form.

A name that is set again becomes another value: `token`, `token.1`. Behind a `when`, a value that
is read later is a result of the choice; behind a loop, its carried and collected values are.
"""

from collections.abc import Iterator
from dataclasses import field, replace
from typing import assert_never

from mstarc.ir import exprs as ir_exprs
from mstarc.ir import graph as ir
from mstarc.ir import types as ir_types
from mstarc.lowering.calls import Sites, lower_call
from mstarc.lowering.contexts import lower_fork, lower_mark, lower_release
from mstarc.lowering.exprs import Exprs, maybe
from mstarc.lowering.names import Names, Types
from mstarc.names import Symbol
from mstarc.records import dataclass
from mstarc.syntax import ast
from mstarc.typecheck import Typed
from mstarc.typecheck.typed import WalkInfo

Live = frozenset[Symbol]


def lower_walk(walk: WalkInfo, typed: Typed) -> ir.Walk:
    """A walk."""
    return _WalkLowering(walk, typed).walk()


@dataclass(slots=True)
class _Place:
    """Where lowering is: what each name means, and the statements so far."""

    locals: dict[Symbol, ir_exprs.Expr]
    types: dict[Symbol, ir_types.Type]
    out: list[ir.Statement] = field(default_factory=list)

    def branch(self) -> "_Place":
        """The same place with no statements yet."""
        return _Place(dict(self.locals), dict(self.types))


class _WalkLowering:
    def __init__(self, walk: WalkInfo, typed: Typed) -> None:
        self._walk = walk
        self._typed = typed
        self._names = Names()
        self._types = Types()
        self._sites = Sites(walk.name)

    def walk(self) -> ir.Walk:
        walk, typed = self._walk, self._typed
        place = _Place({}, {})
        parameters = []
        for param in walk.params:
            symbol = typed.resolved.uses[param.decl.name]
            parameters.append(self._define(symbol, self._types.type(param.type), place))
        self._block(walk.decl.body.statements, _results_of(walk, typed), place)
        flags = Exprs(typed, place.locals)
        return ir.Walk(
            name=walk.name,
            parameters=tuple(parameters),
            results=tuple(
                ir.Result(
                    name=result.name,
                    type=self._types.type(result.type),
                    condition=None if result.condition is None else flags.lower(result.condition),
                )
                for result in walk.results
            ),
            body=tuple(place.out),
            returns=tuple(_by_name(place, result.name) for result in walk.results),
            aliases=walk.aliases,
            span=walk.decl.span,
        )

    def _define(self, symbol: Symbol, type_: ir_types.Type, place: _Place) -> ir.Value:
        """A new value under the symbol's name, which the name means from here on."""
        value = ir.Value(name=self._names.new(symbol.name), type=type_)
        place.locals[symbol] = ir_exprs.Local(value.name)
        place.types[symbol] = type_
        return value

    def _target(self, target: ast.Target, place: _Place) -> ir.Value | None:
        if isinstance(target, ast.Discard):
            return None
        symbol = self._typed.resolved.uses[target]
        return self._define(symbol, self._types.type(self._typed.types[target]), place)

    def _exprs(self, place: _Place) -> Exprs:
        def hoist(call: ast.OpCall) -> ir_exprs.Expr:
            op = self._typed.nodes[call.target.node.text].ops[call.target.op.text]
            type_ = self._types.type(self._typed.types[call])
            # Arguments first, so that calls are numbered in the order in which they run.
            lowered = lower_call(
                call, [], exprs=self._exprs(place), site="", typed=self._typed, span=call
            )
            value = ir.Value(name=self._names.new(op.results[0].name), type=type_)
            place.out.append(replace(lowered, results=(value,), site=self._sites.new()))
            return ir_exprs.Local(value.name)

        return Exprs(self._typed, place.locals, hoist)

    def _block(self, statements: tuple[ast.Stmt, ...], live: Live, place: _Place) -> None:
        for index, statement in enumerate(statements):
            after = live.union(*(self._reads(later) for later in statements[index + 1 :]))
            self._statement(statement, after, place)

    def _statement(self, statement: ast.Stmt, live: Live, place: _Place) -> None:
        exprs = self._exprs(place)
        match statement:
            case ast.Assign():
                self._assign(statement, place)
            case ast.CallStmt():
                self._call(statement.call, (), statement, place)
            case ast.RunStmt():
                self._inline(statement.call, (), place)
            case ast.Send():
                values = tuple(exprs.lower(value) for value in statement.values)
                place.out.append(
                    ir.Send(
                        stream=statement.stream.text,
                        values=values,
                        condition=maybe(statement.condition, exprs),
                        span=statement.span,
                    )
                )
            case ast.Emit():
                place.out.append(
                    ir.Emit(
                        output=statement.output.text,
                        value=exprs.lower(statement.value),
                        condition=maybe(statement.condition, exprs),
                        span=statement.span,
                    )
                )
            case ast.Loop():
                self._loop(statement, place)
            case ast.Parallel():
                self._parallel(statement, live, place)
            case ast.When():
                self._when(statement, live, place)
            case ast.Fork():
                place.out.append(lower_fork(statement, exprs))
            case ast.Release():
                place.out.append(lower_release(statement, exprs))
            case ast.Mark():
                place.out.append(lower_mark(statement))
            case ast.Let() | ast.For() | ast.Match() | ast.Each() | ast.Next():
                raise AssertionError(f"{type(statement).__name__} in a walk")
            case _:
                assert_never(statement)

    def _assign(self, assign: ast.Assign, place: _Place) -> None:
        value = assign.value
        match value:
            case ast.OpCall():
                self._call(value, assign.targets, assign, place)
            case ast.RunCall():
                self._inline(value, assign.targets, place)
            case ast.Pull():
                result = self._target(assign.targets[0], place)
                if result is None:
                    type_ = self._types.type(self._typed.streams[value.stream.text].item)
                    result = ir.Value(name=self._names.new("unused"), type=type_)
                place.out.append(
                    ir.Pull(
                        stream=value.stream.text,
                        result=result,
                        or_none=value.or_none,
                        span=assign.span,
                    )
                )
            case _:
                lowered = self._exprs(place).lower(value)
                result = self._target(assign.targets[0], place)
                if result is not None:
                    place.out.append(ir.Assign(result=result, value=lowered, span=assign.span))

    def _call(
        self,
        call: ast.OpCall,
        targets: tuple[ast.Target, ...],
        statement: ast.Node,
        place: _Place,
    ) -> None:
        lowered = lower_call(
            call, [], exprs=self._exprs(place), site="", typed=self._typed, span=statement
        )
        taken = tuple(self._target(target, place) for target in targets)
        results = taken if targets else lowered.results
        place.out.append(replace(lowered, results=results, site=self._sites.new()))

    def _inline(self, call: ast.RunCall, targets: tuple[ast.Target, ...], place: _Place) -> None:
        """Put the walk that is run in the place of the run."""
        typed = self._typed
        walk = typed.walks[call.walk.text]
        exprs = self._exprs(place)
        arguments = [exprs.lower(argument) for argument in typed.arguments[call]]
        inner = _Place({}, {}, place.out)
        for param, argument in zip(walk.params, arguments, strict=True):
            symbol = typed.resolved.uses[param.decl.name]
            inner.locals[symbol] = argument
            inner.types[symbol] = self._types.type(param.type)
        self._block(walk.decl.body.statements, _results_of(walk, typed), inner)
        for target, result in zip(targets, walk.results, strict=False):
            if isinstance(target, ast.Name):
                symbol = typed.resolved.uses[target]
                place.locals[symbol] = _by_name(inner, result.name)
                place.types[symbol] = self._types.type(typed.types[target])

    def _loop(self, loop: ast.Loop, place: _Place) -> None:
        exprs = self._exprs(place)
        uses = self._typed.resolved.uses
        bound = exprs.lower(loop.bound.count)
        initials = [exprs.lower(carry.initial) for carry in loop.carries]
        site = self._sites.new("loop")
        body = place.branch()
        carries = []
        for carry, initial in zip(loop.carries, initials, strict=True):
            type_ = self._types.type(self._typed.types[carry.name])
            value = self._define(uses[carry.name], type_, body)
            carries.append(ir.Carry(value=value, initial=initial))
        index = None
        if loop.index is not None:
            index = self._names.new(loop.index.text)
            body.locals[uses[loop.index]] = ir_exprs.LoopIndex(index)
        condition = maybe(loop.while_condition, Exprs(self._typed, body.locals))
        # What else the body sets is seen neither in the next pass nor behind the loop.
        live = frozenset(uses[carry.name] for carry in loop.carries).union(
            *(self._reads(collect.value) for collect in loop.collects),
            *([self._reads(loop.until_condition)] if loop.until_condition is not None else []),
        )
        self._block(loop.body.statements, live, body)
        end = self._exprs(body)
        until = maybe(loop.until_condition, end)
        collected = [end.lower(collect.value) for collect in loop.collects]
        yields = tuple(body.locals[uses[carry.name]] for carry in loop.carries)
        results = tuple(
            self._define(uses[carry.name], self._types.type(self._typed.types[carry.name]), place)
            for carry in loop.carries
        )
        collects = tuple(
            ir.Collect(
                result=self._define(
                    uses[collect.name], self._types.type(self._typed.types[collect.name]), place
                ),
                value=value,
            )
            for collect, value in zip(loop.collects, collected, strict=True)
        )
        place.out.append(
            ir.Loop(
                kind=loop.bound.kind,
                bound=bound,
                index=index,
                carries=tuple(carries),
                collects=collects,
                condition=condition,
                until=until,
                body=tuple(body.out),
                yields=yields,
                results=results,
                site=site,
                span=loop.span,
            )
        )

    def _parallel(self, parallel: ast.Parallel, live: Live, place: _Place) -> None:
        branches = []
        after = place.branch()
        for statement in parallel.body.statements:
            branch = place.branch()
            self._statement(statement, live, branch)
            branches.append(tuple(branch.out))
            for symbol, value in branch.locals.items():
                if place.locals.get(symbol) is not value:
                    after.locals[symbol] = value
                    after.types[symbol] = branch.types[symbol]
        place.locals.update(after.locals)
        place.types.update(after.types)
        place.out.append(ir.Parallel(branches=tuple(branches), span=parallel.span))

    def _when(self, when: ast.When, live: Live, place: _Place) -> None:
        condition = self._exprs(place).lower(when.condition)
        then, otherwise = place.branch(), place.branch()
        self._block(when.then.statements, live, then)
        match when.otherwise:
            case ast.When() as inner:
                self._when(inner, live, otherwise)
            case ast.Block() as block:
                self._block(block.statements, live, otherwise)
            case None:
                pass
        results: list[ir.Value] = []
        then_yields: list[ir_exprs.Expr] = []
        otherwise_yields: list[ir_exprs.Expr] = []
        for symbol in dict.fromkeys((*then.locals, *otherwise.locals)):
            ends = [branch.locals.get(symbol, ir_exprs.Const(None)) for branch in (then, otherwise)]
            if symbol not in live or ends[0] == ends[1]:
                continue
            types = [branch.types.get(symbol) for branch in (then, otherwise)]
            type_ = types[0] or types[1]
            assert type_ is not None
            sure = [t for t in types if t is not None and not isinstance(t, ir_types.OptionalType)]
            if len(sure) < 2 and not isinstance(type_, ir_types.OptionalType):
                type_ = ir_types.OptionalType(type_)
            results.append(self._define(symbol, type_, place))
            then_yields.append(ends[0])
            otherwise_yields.append(ends[1])
        place.out.append(
            ir.When(
                condition=condition,
                then=tuple(then.out),
                otherwise=tuple(otherwise.out),
                then_yields=tuple(then_yields),
                otherwise_yields=tuple(otherwise_yields),
                results=tuple(results),
                span=when.span,
            )
        )

    def _reads(self, node: ast.Node) -> Live:
        """The values that a statement reads."""
        return frozenset(_read_in(node, self._typed))


def _read_in(node: ast.Node, typed: Typed, *, targets: bool = False) -> Iterator[Symbol]:
    if isinstance(node, ast.Name):
        symbol = typed.resolved.uses.get(node)
        if symbol is not None:
            yield symbol
        return
    skipped: set[ast.Node] = set()
    if targets:
        pass
    elif isinstance(node, ast.Assign):
        skipped.update(node.targets)
    elif isinstance(node, ast.Carry | ast.Collect):
        skipped.add(node.name)
    for child in ast.children(node):
        if child not in skipped:
            yield from _read_in(child, typed, targets=targets)


def _results_of(walk: WalkInfo, typed: Typed) -> Live:
    """The values that a walk gives back, which are read behind its last statement."""
    names = {result.name for result in walk.results}
    return frozenset(s for s in _read_in(walk.decl.body, typed, targets=True) if s.name in names)


def _by_name(place: _Place, name: str) -> ir_exprs.Expr:
    """What the value of this name is at the end of a walk."""
    found = [value for symbol, value in place.locals.items() if symbol.name == name]
    return found[0] if found else ir_exprs.Const(None)
