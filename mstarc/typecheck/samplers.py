"""Samplers of nodes: how tokens are drawn, in numbers that a sampler can work with."""

from mstarc.diagnostics import Diagnostic, Label
from mstarc.names.scope import report_unknown
from mstarc.syntax import ast
from mstarc.typecheck.constants import evaluate
from mstarc.typecheck.environment import Env
from mstarc.typecheck.state import State
from mstarc.typecheck.typed import Engine
from mstarc.typecheck.types import ERROR, FLOAT, ScalarType
from mstarc.typecheck.values import Values

SAMPLE_SETTINGS = (
    "temperature",
    "top_k",
    "top_p",
    "repetition_penalty",
    "seed",
    "allow",
)
SAMPLE_RANGES = {
    "temperature": (0.0, 100.0, "is at least 0"),
    "top_k": (0, 10**9, "is at least 0, which takes all tokens"),
    "top_p": (0.0, 1.0, "is from 0 to 1"),
    "repetition_penalty": (1e-9, 100.0, "is above 0; 1 changes nothing"),
}
"""From, to, and the rule in words."""
_WHOLE = ("top_k", "seed")


def samplers_of(
    node: ast.NodeDecl, engine: Engine, state: State
) -> tuple[tuple[str, tuple[ast.Setting, ...]], ...]:
    """The samplers of a node, by name; one without a name is the `default`."""
    values = Values(state)
    samplers = []
    for item in node.items:
        if not isinstance(item, ast.SampleItem):
            continue
        if engine != "kv_cache":
            state.sink.report(
                Diagnostic(
                    code="MS0327",
                    message=f"node `{node.name.text}` samples nothing, and has `sample`",
                    primary=Label(span=item.span, text="only a kv_cache node samples"),
                    helps=("write `: kv_cache`, or take `sample` away",),
                ).label(node.engine.span, f"its engine is `{engine}`")
            )
        check_settings(item.settings, SAMPLE_SETTINGS, "sample", state)
        for setting in item.settings:
            if setting.name.text == "allow":
                _check_allowed(setting, state)
                continue
            refuse_range(setting, state)
            type_ = values.type_of(setting.value, Env())
            is_number = isinstance(type_, ScalarType) and type_.kind in ("int", "float")
            if type_ != ERROR and not is_number:
                state.error(
                    "MS0315", setting.value.span, f"`{setting.name.text}` is a number", f"`{type_}`"
                )
            if setting.name.text in _WHOLE and type_ == FLOAT:
                _refuse_float(setting, state)
            _check_range(setting, state)
        samplers.append((item.name.text if item.name is not None else "default", item.settings))
    return tuple(samplers)


def _refuse_float(setting: ast.Setting, state: State) -> None:
    name = setting.name.text
    state.sink.report(
        Diagnostic(
            code="MS0331",
            message=f"`{name}` is a whole number",
            primary=Label(span=setting.value.span, text="`float`"),
            helps=(
                ("`top_p` is the part of the odds that counts", "write a number such as `50`")
                if name == "top_k"
                else ("write a whole number, or an option of type `int`",)
            ),
        )
    )


def _check_allowed(setting: ast.Setting, state: State) -> None:
    """Refuse ids that are no range, or none that is known before a request."""
    if setting.last is None:
        state.sink.report(
            Diagnostic(
                code="MS0315",
                message="`allow` is a range of token ids",
                primary=Label(span=setting.value.span, text="one value"),
                helps=("write the first and the last id: `allow = 128256 .. 156939`",),
            )
        )
        return
    ends = [
        (end, evaluate(end, state.config, state.resolved, state.sink))
        for end in (setting.value, setting.last)
    ]
    for end, value in ends:
        if value is not None and (type(value) is not int or value < 0):
            state.error("MS0331", end.span, "`allow` is of ids from 0 on", f"is {value}")
            return
    first, last = (value for _, value in ends)
    if isinstance(first, int) and isinstance(last, int) and last < first:
        state.error(
            "MS0331", setting.last.span, f"`allow` is of no id: it begins at {first}", f"is {last}"
        )


def refuse_range(setting: ast.Setting, state: State) -> None:
    """Refuse two ends where one number is wanted."""
    if setting.last is not None:
        state.error(
            "MS0315",
            setting.last.span,
            f"`{setting.name.text}` is one number",
            "only `allow` is a range",
        )


def _check_range(setting: ast.Setting, state: State) -> None:
    """Refuse a number that a sampler cannot work with, or an option that may become one."""
    allowed = SAMPLE_RANGES.get(setting.name.text)
    if allowed is None:
        return
    low, high, rule = allowed
    values: tuple[object, ...] = ()
    option = None
    match setting.value:
        case ast.Int(value=value) | ast.Float(value=value):
            values = (value,)
        case ast.Name() as name:
            symbol = state.resolved.meaning(name)
            if symbol is not None and symbol.kind == "option":
                option = state.options.get(symbol.name)
                values = option.domain[1] if option is not None and option.domain else ()
            elif symbol is not None and symbol.kind == "config":
                values = (state.config.get(symbol.name),)
        case ast.Unary(operand=ast.Int(value=value) | ast.Float(value=value)):
            values = (-value,)
        case _:
            pass
    wrong = [v for v in values if isinstance(v, int | float) and not low <= v <= high]
    if not wrong:
        return
    verb = "may become" if option is not None else "is"
    diagnostic = Diagnostic(
        code="MS0331",
        message=f"`{setting.name.text}` {rule}",
        primary=Label(span=setting.value.span, text=f"{verb} {wrong[0]}"),
    )
    if option is not None and option.decl.domain is not None:
        diagnostic = diagnostic.label(option.decl.domain.span, "what the option may be")
    state.sink.report(diagnostic)


def check_settings(
    settings: tuple[ast.Setting, ...], known: tuple[str, ...], block: str, state: State
) -> None:
    """Refuse settings that a block does not have, and those that it has twice."""
    seen: dict[str, ast.Setting] = {}
    for setting in settings:
        if setting.name.text not in known:
            what = f"setting of `{block}` named"
            report_unknown(setting.name, known, "MS0220", what, state.sink)
        elif (first := seen.setdefault(setting.name.text, setting)) is not setting:
            state.sink.report(
                Diagnostic(
                    code="MS0201",
                    message=f"`{setting.name.text}` is set twice",
                    primary=Label(span=setting.span, text="set again here"),
                ).label(first.span, "set first here")
            )
