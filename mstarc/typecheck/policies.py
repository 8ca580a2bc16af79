"""Chunk policies: their numbers, and the type of what a chunk holds."""

from mstarc.diagnostics import Diagnostic, Edit, Fix, Label
from mstarc.names.scope import report_unknown
from mstarc.records import dataclass
from mstarc.syntax import ast
from mstarc.typecheck.constants import evaluate
from mstarc.typecheck.dims import DimVar, constant
from mstarc.typecheck.environment import Env
from mstarc.typecheck.state import State
from mstarc.typecheck.text import text_of
from mstarc.typecheck.typed import PolicyInfo
from mstarc.typecheck.types import Type, with_leading
from mstarc.typecheck.values import Values

PARAMETERS = {
    "fixed": ("size",),
    "sliding": ("window", "stride"),
    "left_context": ("chunk", "context", "ramp"),
    "until": ("condition", "max"),
}
_OPTIONAL = ("ramp",)


@dataclass(frozen=True, slots=True)
class _Given:
    """The arguments of a policy by the names of its parameters."""

    policy: ast.Policy
    args: dict[str, ast.Arg]
    state: State

    def number(self, name: str, *, least: int, inequality: str) -> int | None:
        """A whole number of at least `least`."""
        arg = self.args.get(name)
        if arg is None:
            return None
        state = self.state
        value = evaluate(arg.value, state.config, state.resolved, state.sink)
        if value is None:
            return None
        if type(value) is not int:
            state.error("MS0401", arg.value.span, f"`{name}` counts items", f"{value} is no count")
            return None
        if value < least:
            report_inequality(self.policy, arg.value, inequality, f"{name} is {value}", state)
            return None
        return value


def check_policy(
    policy: ast.Policy, item: Type, marks: tuple[str, ...], state: State
) -> PolicyInfo | None:
    """A chunk policy with its numbers worked out; None where something in it is wrong."""
    kind = policy.name.text
    if kind not in PARAMETERS:
        report_unknown(policy.name, PARAMETERS, "MS0218", "chunk policy", state.sink)
        return None
    given = _match(policy, state)
    if given is None:
        return None
    match kind:
        case "fixed":
            size = given.number("size", least=1, inequality="size ≥ 1")
            return None if size is None else PolicyInfo(kind="fixed", size=size, decl=policy)
        case "sliding":
            return _sliding(given)
        case "left_context":
            return _left_context(given)
        case _:
            return _until(given, item, marks)


def chunk_type(
    policy: PolicyInfo, item: Type, *, short: bool, place: ast.Node, state: State
) -> Type:
    """What a read of a stream gives: the item itself for `fixed(1)`, else items in a row."""
    if policy.kind == "fixed" and policy.size == 1:
        return item
    varies = policy.kind == "until" or (policy.kind == "left_context" and policy.context > 0)
    if varies or policy.ramp or short:
        return with_leading(item, state.fresh_dim(place, DimVar("chunk", 0, "chunk"), "chunk"))
    return with_leading(item, constant(policy.size))


def can_leave_items(policy: PolicyInfo) -> bool:
    """Whether items may be left over when the producer closes."""
    return not (policy.kind == "fixed" and policy.size == 1) and not (
        policy.kind == "left_context" and policy.size == 1
    )


def report_inequality(
    policy: ast.Policy, at: ast.Node, inequality: str, found: str, state: State, *, remedy: str = ""
) -> None:
    """Report numbers that a policy cannot have, with what must hold."""
    state.sink.report(
        Diagnostic(
            code="MS0402",
            message=f"`{policy.name.text}` needs {inequality}",
            primary=Label(span=at.span, text=found),
            helps=(remedy,) if remedy else (),
        )
    )


def _sliding(given: _Given) -> PolicyInfo | None:
    inequality = "1 ≤ stride ≤ window"
    window = given.number("window", least=1, inequality="window ≥ 1")
    stride = given.number("stride", least=1, inequality=inequality)
    if window is None or stride is None:
        return None
    if stride > window:
        at = given.args["stride"].value
        given.state.sink.report(
            Diagnostic(
                code="MS0402",
                message=f"`sliding` needs {inequality}: these chunks skip items",
                primary=Label(span=at.span, text=f"moves {stride} items forward"),
                notes=(f"items {window} to {stride - 1} of every {stride} would reach no chunk",),
                helps=(
                    f"make the stride at most {window}, or write `fixed({window})` for chunks that "
                    "do not overlap",
                ),
                fix=Fix(
                    message=f"write `stride = {window}`",
                    edits=(Edit(span=at.span, text=str(window)),),
                    applicability="unsafe",
                ),
            ).label(given.args["window"].value.span, f"but a window holds {window}")
        )
        return None
    return PolicyInfo(kind="sliding", size=window, stride=stride, decl=given.policy)


def _left_context(given: _Given) -> PolicyInfo | None:
    state = given.state
    chunk = given.number("chunk", least=1, inequality="chunk ≥ 1")
    context = given.number("context", least=0, inequality="context ≥ 0")
    ramp: tuple[int, ...] = ()
    if "ramp" in given.args:
        expr = given.args["ramp"].value
        value = evaluate(expr, state.config, state.resolved, state.sink)
        if value is None:
            return None
        sizes = value if isinstance(value, tuple) else (value,)
        ramp = tuple(size for size in sizes if type(size) is int)
        grows = all(a <= b for a, b in zip(ramp, (*ramp[1:], chunk or ramp[-1]), strict=True))
        if len(ramp) != len(sizes) or any(size < 1 for size in ramp) or not grows:
            inequality = "1 ≤ first ≤ … ≤ last ≤ chunk in its ramp"
            report_inequality(
                given.policy,
                expr,
                inequality,
                f"the ramp is {text_of(expr)}",
                state,
                remedy="write the first chunks' sizes, the smallest first, none above `chunk`",
            )
            return None
    if chunk is None or context is None:
        return None
    return PolicyInfo(
        kind="left_context", size=chunk, context=context, ramp=ramp, decl=given.policy
    )


def _until(given: _Given, item: Type, marks: tuple[str, ...]) -> PolicyInfo | None:
    state = given.state
    size = given.number("max", least=1, inequality="max ≥ 1")
    condition = given.args["condition"].value
    mark = None
    if isinstance(condition, ast.Name):
        symbol = state.resolved.meaning(condition)
        if symbol is not None and symbol.kind == "mark":
            mark = symbol.name
    if mark is None:
        values = Values(state)
        if not values.truth(condition, Env(item=item)):
            return None
        if not _names_item(condition, state):
            _report_never(condition, marks, state)
            return None
    if size is None:
        return None
    stop = condition if mark is None else None
    return PolicyInfo(kind="until", size=size, stop=stop, mark=mark, decl=given.policy)


def _names_item(condition: ast.Expr, state: State) -> bool:
    return any(
        (symbol := state.resolved.meaning(name)) is not None and symbol.kind == "item"
        for name in ast.descendants(condition)
        if isinstance(name, ast.Name)
    )


def _report_never(condition: ast.Expr, marks: tuple[str, ...], state: State) -> None:
    helps = ["ask something of `item`, as in `item in clause_ends`"]
    if marks:
        helps.append(f"or name a mark of the stream: {', '.join(f'`{mark}`' for mark in marks)}")
    state.sink.report(
        Diagnostic(
            code="MS0403",
            message="where this chunk ends does not depend on the items",
            primary=Label(span=condition.span, text="the same for every item"),
            notes=("a condition that never holds would make every chunk wait for `max` items",),
            helps=tuple(helps),
        )
    )


def _match(policy: ast.Policy, state: State) -> _Given | None:
    kind = policy.name.text
    names = PARAMETERS[kind]
    args: dict[str, ast.Arg] = {}
    position = 0
    good = True
    for arg in policy.args:
        if arg.name is None:
            if position >= len(names):
                state.error("MS0401", arg.span, f"`{kind}` takes {len(names)} numbers", "too many")
                return None
            name = names[position]
            position += 1
        else:
            name = arg.name.text
            if name not in names:
                what = f"setting of `{kind}` named"
                report_unknown(arg.name, names, "MS0220", what, state.sink)
                good = False
                continue
        if name in args:
            state.error("MS0312", arg.span, f"`{kind}` is given `{name}` twice", "given again")
            good = False
        args.setdefault(name, arg)
    missing = [name for name in names if name not in args and name not in _OPTIONAL]
    if missing and good:
        listed = " and ".join(f"`{name}`" for name in missing)
        example = {
            "fixed": "fixed(4)",
            "sliding": "sliding(window = 28, stride = 7)",
            "left_context": "left_context(chunk = 25, context = 25)",
            "until": "until(item in ends, max = 24)",
        }[kind]
        state.sink.report(
            Diagnostic(
                code="MS0401",
                message=f"`{kind}` is not given {listed}",
                primary=Label(span=policy.span, text="not complete"),
                helps=(f"as in `{example}`",),
            )
        )
        good = False
    return _Given(policy, args, state) if good else None
