"""Values that are known before any request: config, and what is computed from it."""

from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias

from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label, did_you_mean
from mstarc.names import Resolved, Symbol
from mstarc.records import dataclass
from mstarc.source import Span
from mstarc.syntax import ast
from mstarc.typecheck.text import text_of

ConfigScalar: TypeAlias = int | float | bool | str
ConfigValue: TypeAlias = ConfigScalar | tuple[ConfigScalar, ...]

_KINDS = {"int": int, "float": float, "bool": bool, "str": str}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What stands above the defaults of `config`.

    `checkpoint` is the content of a checkpoint's config.json, read by the keys of `from "a.b"`;
    `config` gives values by their names in the spec and wins. `spans` says where each of them
    stands, for a file that we know the text of. `variant` is the public name of the variant whose
    values stand in for the defaults.
    """

    variant: str | None = None

    checkpoint: Mapping[str, object] = field(default_factory=dict)
    config: Mapping[str, ConfigValue] = field(default_factory=dict)
    spans: Mapping[str, Span] = field(default_factory=dict)


def config_values(resolved: Resolved, sizes: Sizes, sink: DiagnosticSink) -> dict[str, ConfigValue]:
    """The value of every config item that has one."""
    items = {symbol.name: symbol for symbol in resolved.symbols.values_of("config")}
    _refuse_unknown(items, resolved, sizes, sink)
    values: dict[str, ConfigValue] = {}
    chosen = variant_of(resolved.spec, sizes.variant)
    instead = {s.name.text: s.value for s in chosen.settings} if chosen is not None else {}
    for name, symbol in items.items():
        item = symbol.of(ast.ConfigItem)
        value, span = _given(item, sizes)
        default = instead.get(name, item.default)
        if value is None and default is not None:
            span = default.span
            value = evaluate(default, values, resolved, sink)
            if value is None:
                continue
        if value is None:
            sink.report(
                Diagnostic(
                    code="MS0319",
                    message=f"config value `{name}` has no value",
                    primary=Label(span=item.name.span, text="no default"),
                    notes=("a checkpoint's config.json or a file of sizes would give it",),
                    helps=(f"give it a default: `{name} : {_type_text(item.type)} = …`",),
                )
            )
            continue
        fitted = _fit(value, item.type)
        if fitted is None:
            sink.report(_misfit(name, value, item, span))
            continue
        values[name] = fitted
    _check_variants(items, values, chosen, resolved, sink)
    return values


def variant_of(spec: ast.Spec, name: str | None) -> ast.VariantDecl | None:
    """The variant with this public name; none where there is no such variant."""
    return next((v for v in spec.all_of(ast.VariantDecl) if v.name.value == name), None)


def _check_variants(
    items: Mapping[str, Symbol],
    values: Mapping[str, ConfigValue],
    chosen: ast.VariantDecl | None,
    resolved: Resolved,
    sink: DiagnosticSink,
) -> None:
    """Report values of variants that are not chosen and are not of their items' types."""
    for variant in resolved.spec.all_of(ast.VariantDecl):
        for setting in variant.settings:
            symbol = items.get(setting.name.text)
            if variant is chosen or symbol is None:
                continue
            value = evaluate(setting.value, values, resolved, sink)
            item = symbol.of(ast.ConfigItem)
            if value is not None and _fit(value, item.type) is None:
                sink.report(_misfit(setting.name.text, value, item, setting.value.span))


def _misfit(name: str, value: ConfigValue, item: ast.ConfigItem, span: Span) -> Diagnostic:
    return Diagnostic(
        code="MS0318",
        message=f"config value `{name}` is not {_article(_type_text(item.type))}",
        primary=Label(span=span, text=f"{_shown(value)} is {_kind_of(value)}"),
    ).label(item.type.span, f"`{_type_text(item.type)}` is declared here")


def evaluate(
    expr: ast.Expr, config: Mapping[str, ConfigValue], resolved: Resolved, sink: DiagnosticSink
) -> ConfigValue | None:
    """The value of an expression over config; what is not one is reported and gives None."""
    match expr:
        case ast.Int() | ast.Float() | ast.Str() | ast.Bool():
            return expr.value
        case ast.List() | ast.Tuple():
            items = [evaluate(item, config, resolved, sink) for item in expr.items]
            if any(item is None for item in items):
                return None
            return tuple(item for item in items if item is not None and not isinstance(item, tuple))
        case ast.Name():
            return _named(expr, config, resolved, sink)
        case ast.Unary():
            value = evaluate(expr.operand, config, resolved, sink)
            if isinstance(value, int | float) and not isinstance(value, bool):
                return -value
        case ast.Binary():
            left = evaluate(expr.left, config, resolved, sink)
            right = evaluate(expr.right, config, resolved, sink)
            if left is None or right is None:
                return None
            if _is_number(left) and _is_number(right):
                value = arithmetic(expr.op, left, right)
                if value is None:
                    sink.error("MS0315", expr.span, "a division by zero", "the divisor is 0")
                return value
        case _:
            pass
    sink.error(
        "MS0322",
        expr.span,
        f"`{text_of(expr)}` is not a value that is known before any request",
        "a number, a text, or a value of config is wanted here",
    )
    return None


def arithmetic(operator: ast.BinaryOp, left: ConfigValue, right: ConfigValue) -> int | float | None:
    """`left operator right` for numbers; None for a division by zero."""
    assert isinstance(left, int | float)
    assert isinstance(right, int | float)
    if operator in ("/", "//", "%") and right == 0:
        return None
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left / right
        case "//":
            return left // right
        case "%":
            return left % right


def _named(
    name: ast.Name, config: Mapping[str, ConfigValue], resolved: Resolved, sink: DiagnosticSink
) -> ConfigValue | None:
    symbol = resolved.meaning(name)
    if symbol is None:
        return None
    if symbol.kind == "config":
        return config.get(name.text)
    sink.report(
        Diagnostic(
            code="MS0322",
            message=f"`{name.text}` is not known before a request comes",
            primary=Label(span=name.span, text="a number of config is wanted here"),
        ).label(symbol.declaration.span, "declared here")
    )
    return None


def _given(item: ast.ConfigItem, sizes: Sizes) -> tuple[ConfigValue | None, Span]:
    name = item.name.text
    if name in sizes.config:
        return sizes.config[name], sizes.spans.get(name, item.name.span)
    if item.source is None:
        return None, item.name.span
    found: object = sizes.checkpoint
    for key in item.source.value.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    if isinstance(found, list):
        found = tuple(found)
    if isinstance(found, int | float | bool | str | tuple):
        return found, item.source.span
    return None, item.source.span


def _refuse_unknown(
    items: Mapping[str, Symbol], resolved: Resolved, sizes: Sizes, sink: DiagnosticSink
) -> None:
    for name in sizes.config:
        if name in items:
            continue
        span = sizes.spans.get(name, resolved.spec.model.name.span)
        diagnostic = Diagnostic(
            code="MS0217",
            message=f"the spec has no config value `{name}`",
            primary=Label(span=span, text="a size is given for it"),
        )
        if near := did_you_mean(name, items):
            diagnostic = diagnostic.help(f"did you mean {' or '.join(f'`{n}`' for n in near)}?")
        sink.report(diagnostic)


def _fit(value: ConfigValue, type_: ast.Type) -> ConfigValue | None:
    """The value as its declared type has it; None where it does not fit."""
    if isinstance(type_, ast.ListType):
        if not isinstance(value, tuple):
            return None
        items = [_fit_scalar(item, type_.element.text) for item in value]
        return None if None in items else tuple(item for item in items if item is not None)
    if isinstance(type_, ast.ScalarType) and not isinstance(value, tuple):
        return _fit_scalar(value, type_.name.text)
    # A type that cannot be is reported with the declaration.
    return value


def _fit_scalar(value: ConfigScalar, kind: str) -> ConfigScalar | None:
    wanted = _KINDS.get(kind)
    if wanted is None:
        return value
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value if type(value) is wanted else None


def _is_number(value: ConfigValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _type_text(type_: ast.Type) -> str:
    match type_:
        case ast.ListType():
            return f"[{type_.element.text}]"
        case ast.ScalarType():
            return type_.name.text
        case _:
            return "int"


def _kind_of(value: ConfigValue) -> str:
    if isinstance(value, tuple):
        return "a list"
    kinds = {bool: "`bool`", int: "`int`", float: "`float`", str: "`str`"}
    return kinds[type(value)]


def _shown(value: ConfigValue) -> str:
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, tuple):
        return f"`[{', '.join(map(str, value))}]`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


def _article(kind: str) -> str:
    return f"an `{kind}`" if kind[0] in "aeiou" else f"a `{kind}`"
