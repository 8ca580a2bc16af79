"""Types of expressions where they stand."""

from typing import assert_never

from mstarc.diagnostics import Diagnostic, Label, did_you_mean
from mstarc.names import Symbol
from mstarc.names.symbols import KIND_WORDS
from mstarc.syntax import ast
from mstarc.typecheck import calls, operators, shapes
from mstarc.typecheck.comparisons import refuse_impossible
from mstarc.typecheck.early_reads import goes_over_nothing, remedy
from mstarc.typecheck.environment import Env
from mstarc.typecheck.state import State
from mstarc.typecheck.statics import first_dynamic
from mstarc.typecheck.text import text_of
from mstarc.typecheck.types import (
    BOOL,
    ERROR,
    FLOAT,
    INT,
    STR,
    FlagType,
    ListType,
    NoneType,
    OptionalType,
    ScalarType,
    TensorType,
    TupleType,
    Type,
    optional,
)

PART_ATTRIBUTES = {"role": STR, "first": BOOL, "last": BOOL, "opens": BOOL, "closes": BOOL}


class Values:
    """Finds and notes the type of each expression of one body, and what the body reads.

    `read` are the values that some expression names; `calls` the op calls in the order met, with
    the context that each works on. `told` are values of which it was reported that they are not
    there.
    """

    def __init__(self, state: State, *, is_machine: bool = False) -> None:
        self.state = state
        self.is_machine = is_machine
        self.read: set[Symbol] = set()
        self.calls: list[ast.OpCall] = []
        self.told: set[tuple[int, Symbol]] = set()

    def type_of(self, expr: ast.Expr, env: Env) -> Type:
        """The type of a value, `… or none` where it may not be there."""
        type_ = self._type_of(expr, env)
        self.state.types[expr] = type_
        return type_

    def condition(self, expr: ast.Expr, env: Env, why: str) -> bool:
        """Check a static condition; False where it is not one, which is reported."""
        type_ = self.type_of(expr, env)
        if isinstance(type_, TensorType) and not self.static(expr, why):
            return False
        return self._is_truth(type_, expr) and self.static(expr, why)

    def truth(self, expr: ast.Expr, env: Env) -> bool:
        """Check that an expression is a truth value; False where it is not, which is reported."""
        return self._is_truth(self.type_of(expr, env), expr)

    def _is_truth(self, type_: Type, expr: ast.Expr) -> bool:
        if type_ == ERROR:
            return False
        if operators.is_truth(type_):
            return True
        self.state.error(
            "MS0315", expr.span, f"`{text_of(expr)}` is not a condition", f"this is `{type_}`"
        )
        return False

    def loop_condition(self, expr: ast.Expr, env: Env) -> bool:
        """Check the condition of a loop: a truth value that no op has to be called for."""
        good = self.truth(expr, env)
        for call in ast.descendants(expr):
            if isinstance(call, ast.OpCall):
                self.state.sink.report(
                    Diagnostic(
                        code="MS0317",
                        message="the condition of a loop calls an op",
                        primary=Label(span=call.span, text="a call is a step of its own"),
                        helps=("call it in the loop, carry what it gives, and ask about that",),
                    )
                )
        return good

    def static(self, expr: ast.Expr, why: str) -> bool:
        """Check that the host knows the value of an expression without reading a tensor."""
        dynamic = first_dynamic(expr, self.state)
        if dynamic is None:
            return True
        self.state.sink.report(
            Diagnostic(
                code="MS0316",
                message=f"{why} must be known without running the model",
                primary=Label(span=dynamic.span, text=f"`{text_of(dynamic)}` is a tensor's value"),
                notes=(
                    "config, options, flags, lets, tables, parts and loop indices are known; "
                    "what a call gives is not",
                ),
                helps=(
                    "stop a loop at a value with `while` or `until`; for anything else, let an op "
                    "take the value and decide",
                ),
            )
        )
        return False

    def whole_number(self, expr: ast.Expr, env: Env, why: str) -> bool:
        """Check a static whole number; False where it is not one, which is reported."""
        type_ = self.type_of(expr, env)
        if type_ == ERROR:
            return False
        if type_ == INT:
            return self.static(expr, why)
        if isinstance(type_, ScalarType | FlagType):
            label = f"this is `{type_}`"
            self.state.error("MS0315", expr.span, f"{why} is a whole number", label)
            return False
        return self.static(expr, why)

    def _type_of(self, expr: ast.Expr, env: Env) -> Type:
        match expr:
            case ast.Name():
                return self._name(expr, env)
            case ast.Int():
                return INT
            case ast.Float():
                return FLOAT
            case ast.Str():
                return STR
            case ast.Bool():
                return BOOL
            case ast.NoneLit():
                return NoneType()
            case ast.List():
                return operators.list_type(
                    [self.type_of(i, env) for i in expr.items], expr, self.state
                )
            case ast.Tuple():
                self.state.error(
                    "MS0315", expr.span, "a list of values in brackets has no use here"
                )
                return ERROR
            case ast.Unary():
                return operators.negative(self.type_of(expr.operand, env), expr, self.state)
            case ast.Binary() | ast.Compare():
                left, right = self.type_of(expr.left, env), self.type_of(expr.right, env)
                if isinstance(expr, ast.Compare):
                    refuse_impossible(expr, self.state)
                return operators.binary(left, right, expr, self.state)
            case ast.Member():
                item, container = self.type_of(expr.item, env), self.type_of(expr.container, env)
                return operators.member(item, container, expr, self.state)
            case ast.And() | ast.Or():
                sides = [self.type_of(expr.left, env), self.type_of(expr.right, env)]
                return operators.logical(sides, [expr.left, expr.right], self.state)
            case ast.Not():
                operand = self.type_of(expr.operand, env)
                return operators.logical([operand], [expr.operand], self.state)
            case ast.Wants() | ast.Has():
                return BOOL
            case ast.Attr():
                return self._attribute(expr, env)
            case ast.Index():
                return self._index(expr, env)
            case ast.CallExpr():
                types = [self.type_of(arg.value, env) for arg in expr.args]
                return shapes.shape_call(expr, types, self.state)
            case ast.OpCall():
                return self._nested_call(expr, env)
            case _:
                assert_never(expr)

    def _name(self, name: ast.Name, env: Env) -> Type:
        symbol = self.state.resolved.meaning(name)
        if symbol is None:
            return ERROR
        match symbol.kind:
            case "config":
                return self._config_type(symbol)
            case "option" | "let":
                return self.state.fields.get(symbol.name, ERROR)
            case "input":
                return self._input(symbol, env)
            case "parameter" | "value":
                return self._value(name, symbol, env)
            case "index":
                return INT
            case "last":
                return BOOL
            case "item":
                return env.item if env.item is not None else ERROR
            case _:
                what = KIND_WORDS[symbol.kind]
                hint = {
                    "table": f"take an entry of it: `{name.text}[i]`",
                    "part": f"`match {name.text} {{ … }}` opens it",
                }.get(symbol.kind)
                if goes_over_nothing(symbol, self.state):
                    return ERROR
                self._misused(name, what, hint)
                return ERROR

    def _config_type(self, symbol: Symbol) -> Type:
        value = self.state.config.get(symbol.name)
        if value is None:
            return ERROR
        if isinstance(value, tuple):
            declared = symbol.of(ast.ConfigItem).type
            if not isinstance(declared, ast.ListType):
                return ERROR
            kinds = [k for k in (INT, FLOAT, BOOL, STR) if k.kind == declared.element.text]
            return ListType(kinds[0].kind, len(value)) if kinds else ERROR
        return _KINDS[type(value)]

    def _input(self, symbol: Symbol, env: Env) -> Type:
        type_ = self.state.fields.get(symbol.name, ERROR)
        if isinstance(type_, OptionalType):
            given = self.state.logic.atom(f"has {symbol.name}")
            if self.state.logic.implies(env.facts, given):
                return type_.item
        return type_

    def _value(self, name: ast.Name, symbol: Symbol, env: Env) -> Type:
        self.read.add(symbol)
        held = env.values.get(symbol)
        if held is not None:
            if self.state.logic.implies(env.facts, held.present):
                return held.type
            self.state.unsure.add(symbol)
            return optional(held.type)
        lost = env.lost.get(symbol)
        # Its other reads are the same mistake; but states are looked at before, into other sinks.
        mistake = (id(self.state.sink), symbol)
        if mistake in self.told:
            return ERROR
        self.told.add(mistake)
        if lost is None:
            self.state.sink.report(
                Diagnostic(
                    code="MS0502",
                    message=f"`{name.text}` is read before it is set",
                    primary=Label(span=name.span, text="not set yet"),
                    helps=(remedy(name, symbol, self.read, self.state),),
                ).label(symbol.declaration.span, "set only here")
            )
        else:
            self.state.sink.report(
                Diagnostic(
                    code=lost.code,
                    message=f"`{name.text}` is not seen here",
                    primary=Label(span=name.span, text="read here"),
                    helps=(lost.help,) if lost.help else (),
                ).label(lost.span, lost.reason)
            )
        return ERROR

    def _attribute(self, expr: ast.Attr, env: Env) -> Type:
        if isinstance(expr.base, ast.Name):
            symbol = self.state.resolved.meaning(expr.base)
            if symbol is not None and symbol.kind == "part":
                return self._part_attribute(expr, symbol)
        base = self.type_of(expr.base, env)
        inner = base.item if isinstance(base, OptionalType) else base
        if inner == ERROR:
            return ERROR
        if not isinstance(inner, TupleType):
            self.state.error(
                "MS0314",
                expr.name.span,
                f"`{text_of(expr.base)}` has no fields",
                f"it is `{base}`; only items of several named values have fields",
            )
            return ERROR
        fields = dict(inner.fields)
        if expr.name.text not in fields:
            self._unknown_field(expr, fields)
            return ERROR
        found = fields[expr.name.text]
        return optional(found) if isinstance(base, OptionalType) else found

    def _part_attribute(self, expr: ast.Attr, symbol: Symbol) -> Type:
        if expr.name.text not in PART_ATTRIBUTES:
            self._unknown_field(expr, PART_ATTRIBUTES)
            return ERROR
        source = self.state.resolved.meaning(symbol.of(ast.For).source)
        declared = source.of(ast.InField) if source is not None else None
        turns = declared is not None and declared.quantity is not None and declared.quantity.turns
        if expr.name.text in ("opens", "closes") and declared is not None and not turns:
            self.state.sink.report(
                Diagnostic(
                    code="MS0314",
                    message=f"parts of `{declared.name.text}` have no `.{expr.name.text}`",
                    primary=Label(span=expr.name.span, text="only parts with turns have it"),
                    helps=("write `turns` behind the input's type",),
                ).label(declared.span, "declared without `turns`")
            )
            return ERROR
        return PART_ATTRIBUTES[expr.name.text]

    def _index(self, expr: ast.Index, env: Env) -> Type:
        if isinstance(expr.base, ast.Name):
            symbol = self.state.resolved.meaning(expr.base)
            if symbol is not None and symbol.kind == "table":
                for item in expr.items:
                    if isinstance(item, ast.Slice) or len(expr.items) != 1:
                        self.state.error(
                            "MS0321", expr.span, f"a table has one index, and `{text_of(expr)}` not"
                        )
                        return ERROR
                    if not self.whole_number(item, env, "the index of a table"):
                        return ERROR
                return self.state.fields.get(symbol.name, ERROR)
        base = self.type_of(expr.base, env)
        for item in expr.items:
            for part in (item.lower, item.upper) if isinstance(item, ast.Slice) else (item,):
                if part is not None and not self.whole_number(part, env, "an index"):
                    return ERROR
        return shapes.index(base, expr, self.state)

    def _nested_call(self, call: ast.OpCall, env: Env) -> Type:
        results = calls.check_op_call(call, env, self)
        if results is None:
            return ERROR
        if len(results) != 1:
            self.state.error(
                "MS0313",
                call.span,
                f"`{text_of(call.target.op)}` gives {len(results)} values where one is wanted",
                "used as one value",
            )
            return ERROR
        found = results[0]
        sure = self.state.logic.implies(env.facts, found.present)
        return found.type if sure else optional(found.type)

    def _misused(self, name: ast.Name, what: str, hint: str | None) -> None:
        self.state.sink.report(
            Diagnostic(
                code="MS0315",
                message=f"the {what} `{name.text}` is not a value by itself",
                primary=Label(span=name.span, text="a value is wanted here"),
                helps=(hint,) if hint else (),
            )
        )

    def _unknown_field(
        self, expr: ast.Attr, known: dict[str, Type] | dict[str, ScalarType]
    ) -> None:
        near = did_you_mean(expr.name.text, known) or tuple(known)
        listed = ", ".join(f"`.{name}`" for name in near)
        self.state.sink.report(
            Diagnostic(
                code="MS0314",
                message=f"`{text_of(expr.base)}` has no field `{expr.name.text}`",
                primary=Label(span=expr.name.span, text="not a field"),
                helps=(f"what there is: {listed}",),
            )
        )


_KINDS: dict[type, ScalarType] = {bool: BOOL, int: INT, float: FLOAT, str: STR}
