"""The request: inputs, outputs and options, and the lets, tables and needs over them."""

from typing import Literal, TypeAlias

from mstarc.diagnostics import Diagnostic, Label
from mstarc.names import Symbol
from mstarc.syntax import ast
from mstarc.typecheck import operators
from mstarc.typecheck.arrays import check_largest
from mstarc.typecheck.constants import ConfigValue, evaluate
from mstarc.typecheck.declared import declared_type
from mstarc.typecheck.environment import Env
from mstarc.typecheck.state import State
from mstarc.typecheck.text import text_of
from mstarc.typecheck.typed import OptionInfo
from mstarc.typecheck.types import (
    BOOL,
    ERROR,
    FLOAT,
    INT,
    STR,
    ListType,
    MediaType,
    PartsType,
    ScalarType,
    Type,
    optional,
)
from mstarc.typecheck.values import Values

Domain: TypeAlias = tuple[Literal["range", "set"], tuple[ConfigValue, ...]]

_KINDS: dict[type, ScalarType] = {bool: BOOL, int: INT, float: FLOAT, str: STR}


def check_config_types(state: State) -> None:
    """Check that config items are of types that config can have."""
    for item in state.resolved.spec.config_items:
        type_ = declared_type(item.type, 0, state, tensors=False)
        if type_ != ERROR and not isinstance(type_, ScalarType | ListType):
            state.error(
                "MS0301",
                item.type.span,
                f"config cannot hold `{type_}`",
                "`int`, `float`, `bool`, `str`, or a list such as `[int]`",
            )


def check_request(state: State) -> None:
    """Check the fields of the request, then what is computed from them at admission."""
    for request_field in state.resolved.spec.request_fields:
        match request_field:
            case ast.InField():
                _check_input(request_field, state)
            case ast.OutField():
                _check_output(request_field, state)
            case ast.OptField():
                _check_option(request_field, state)
    values = Values(state)
    pending: list[Symbol] = []
    for symbol in state.resolved.symbols.values.values():
        if symbol.kind in ("let", "table"):
            _check_computed(symbol, values, pending, state)
    for need in state.resolved.spec.all_of(ast.NeedDecl):
        if _asks_no_op(need, values, "what a request needs"):
            values.condition(need.condition, Env(), "what a request needs")


def _check_input(input_field: ast.InField, state: State) -> None:
    type_ = declared_type(input_field.type, 0, state, tensors=False)
    if type_ != ERROR and not isinstance(type_, MediaType | PartsType):
        state.sink.report(
            Diagnostic(
                code="MS0306",
                message=f"the input `{input_field.name.text}` is not a medium",
                primary=Label(span=input_field.type.span, text=f"`{type_}` is no medium"),
                notes=("inputs are text, image, audio, video, action, tensor, or parts of these",),
                helps=("a number or a word that a request may set is an option: `opt`",),
            )
        )
        type_ = ERROR
    quantity = input_field.quantity
    if quantity is not None and not isinstance(type_, PartsType) and type_ != ERROR:
        state.error(
            "MS0301",
            quantity.span,
            f"`{type_}` comes once, not in parts",
            "only parts, as in `[text | image]`, have a number and turns",
        )
    if input_field.optional:
        type_ = optional(type_)
    state.fields[input_field.name.text] = type_


def _check_output(output: ast.OutField, state: State) -> None:
    type_ = declared_type(output.type, 0, state, tensors=False)
    if type_ != ERROR and not isinstance(type_, MediaType):
        state.error(
            "MS0306",
            output.type.span,
            f"the output `{output.name.text}` is not a medium",
            f"`{type_}` is not text, image, audio, video, action or tensor",
        )
        return
    state.types[output] = type_
    if isinstance(type_, MediaType) and type_.kind == "audio" and type_.rate is None:
        state.sink.report(
            Diagnostic(
                code="MS0301",
                message=f"the output `{output.name.text}` has no sampling rate",
                primary=Label(span=output.type.span, text="how many samples a second?"),
                helps=("write the rate in hertz: `audio(24000)`",),
            )
        )
    if output.via is not None and isinstance(type_, MediaType) and type_.kind != "text":
        state.error(
            "MS0320",
            output.via.span,
            f"`via` is for text, and `{output.name.text}` is `{type_}`",
            "makes text of tokens",
        )


def _check_option(option: ast.OptField, state: State) -> None:
    name = option.name.text
    type_ = declared_type(option.type, 0, state, tensors=False)
    if type_ != ERROR and not isinstance(type_, ScalarType):
        state.error(
            "MS0301",
            option.type.span,
            f"an option cannot be `{type_}`",
            "`int`, `float`, `bool` or `str`",
        )
        type_ = ERROR
    state.fields[name] = type_
    default = _option_value(option.default, type_, option, state)
    domain = _domain(option, type_, state)
    if option.default is None:
        state.sink.report(
            Diagnostic(
                code="MS0319",
                message=f"the option `{name}` has no default",
                primary=Label(span=option.name.span, text="what holds when a request is silent?"),
                helps=(f"give it one: `opt {name} : {text_of_type(option.type)} = …`",),
            )
        )
    state.options[name] = OptionInfo(
        name=name, type=type_, default=default, domain=domain, decl=option
    )
    if default is not None and domain is not None and option.domain is not None:
        _check_default_inside(option, default, domain, state)


def _check_default_inside(
    option: ast.OptField, default: ConfigValue, domain: Domain, state: State
) -> None:
    kind, values = domain
    assert option.default is not None
    assert option.domain is not None
    if kind == "range":
        low, high = values
        assert isinstance(low, int | float)
        assert isinstance(high, int | float)
        if not isinstance(default, int | float) or low <= default <= high:
            return
        where = f"below {low}" if default < low else f"above {high}"
    elif default in values:
        return
    else:
        where = "not one of them"
    is_between = (
        kind == "set"
        and len(values) == 2
        and all(isinstance(v, int | float) and not isinstance(v, bool) for v in (*values, default))
        and min(values) < default < max(values)  # type: ignore[operator]  # numbers
    )
    if is_between or (kind == "set" and len(values) == 2 and isinstance(default, float)):
        shown = f"a range is written without brackets: `in {values[0]} .. {values[1]}`"
    else:
        shown = "give another default, or let the option be more"
    state.sink.report(
        Diagnostic(
            code="MS0324",
            message=f"the default of `{option.name.text}` is not one of its values",
            primary=Label(span=option.default.span, text=where),
            helps=(shown,),
        ).label(option.domain.span, "what the option may be")
    )


def _domain(option: ast.OptField, type_: Type, state: State) -> Domain | None:
    match option.domain:
        case ast.RangeDomain(low=low, high=high):
            values = [_option_value(bound, type_, option, state) for bound in (low, high)]
            if type_ not in (INT, FLOAT, ERROR):
                state.error(
                    "MS0324", option.domain.span, f"`{type_}` has no range", "list what it may be"
                )
                return None
            if values[0] is None or values[1] is None:
                return None
            if values[0] > values[1]:  # type: ignore[operator]  # both are numbers here
                state.error(
                    "MS0324",
                    option.domain.span,
                    f"no value of `{option.name.text}` is allowed",
                    f"the range begins at {values[0]} and ends at {values[1]}",
                )
                return None
            return "range", (values[0], values[1])
        case ast.ChoiceDomain(choices=choices):
            found = [_option_value(choice, type_, option, state) for choice in choices]
            return "set", tuple(value for value in found if value is not None)
        case None:
            return None


_EXAMPLES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "`true` or `false`",
    "str": 'a text in quotes, `"…"`',
}


def _option_value(
    expr: ast.Expr | None, type_: Type, option: ast.OptField, state: State
) -> ConfigValue | None:
    """A default or a bound, of the option's type."""
    if expr is None:
        return None
    value = evaluate(expr, state.config, state.resolved, state.sink)
    if value is None or not isinstance(type_, ScalarType):
        return None
    if type_ == FLOAT and type(value) is int:
        return float(value)
    if not isinstance(value, tuple) and _KINDS[type(value)] == type_:
        return value
    found = "a list" if isinstance(value, tuple) else f"`{_KINDS[type(value)]}`"
    state.sink.report(
        Diagnostic(
            code="MS0318",
            message=f"the option `{option.name.text}` is `{type_}`, and `{text_of(expr)}` is not",
            primary=Label(span=expr.span, text=f"this is {found}"),
            helps=(f"write {_EXAMPLES[type_.kind]}, or declare the option as another type",),
        ).label(option.type.span, f"`{type_}` is declared here")
    )
    return None


def _asks_no_op(node: ast.Node, values: Values, why: str) -> bool:
    """Refuse (MS0316) a call: nodes are not known yet here, so it would pass unseen."""
    for call in ast.descendants(node):
        if isinstance(call, ast.OpCall):
            return values.static(call, why)
    return True


def _check_computed(symbol: Symbol, values: Values, pending: list[Symbol], state: State) -> None:
    """Check a let or a table, after those that it uses."""
    if symbol.name in state.fields:
        return
    if symbol in pending:
        circle = " -> ".join(
            f"`{entry.name}`" for entry in [*pending[pending.index(symbol) :], symbol]
        )
        state.error(
            "MS0325",
            symbol.declaration.span,
            f"`{symbol.name}` is computed from itself",
            f"{circle}",
        )
        state.fields[symbol.name] = ERROR
        return
    pending.append(symbol)
    for name in ast.descendants(symbol.node):
        used = state.resolved.meaning(name) if isinstance(name, ast.Name) else None
        if used is not None and used.kind in ("let", "table") and used.node is not symbol.node:
            _check_computed(used, values, pending, state)
        elif used is symbol and name is not symbol.declaration:
            _check_computed(symbol, values, pending, state)
    pending.pop()
    if symbol.name in state.fields:
        return
    if not _asks_no_op(symbol.node, values, f"the {symbol.kind} `{symbol.name}`"):
        state.fields[symbol.name] = ERROR
        return
    match symbol.node:
        case ast.Let() as let:
            type_ = values.type_of(let.value, Env())
            if type_ != ERROR and not values.static(let.value, f"the let `{symbol.name}`"):
                type_ = ERROR
        case ast.TableDecl() as table:
            if values.whole_number(table.length, Env(), "the length of a table"):
                check_largest(table.length, "a table", state)
            type_ = values.type_of(table.value, Env())
            if type_ not in (ERROR, INT, FLOAT) and not operators.is_truth(type_):
                state.error(
                    "MS0315", table.value.span, "a table holds numbers", f"this is `{type_}`"
                )
                type_ = ERROR
        case _:
            type_ = ERROR
    state.fields[symbol.name] = type_


def text_of_type(type_: ast.Type) -> str:
    """A type of one word, for a help; others as `…`."""
    return type_.name.text if isinstance(type_, ast.ScalarType) else "…"
