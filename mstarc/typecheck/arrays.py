"""Arrays of contexts: which one of them is meant, and what a call on all of them gives."""

from typing import TYPE_CHECKING

from mstarc.diagnostics import Diagnostic, Label
from mstarc.syntax import ast
from mstarc.typecheck.dims import Dim, DimVar, constant
from mstarc.typecheck.environment import Env
from mstarc.typecheck.state import State
from mstarc.typecheck.statics import static_dim
from mstarc.typecheck.text import text_of
from mstarc.typecheck.typed import ContextInfo

if TYPE_CHECKING:
    from mstarc.typecheck.values import Values


def chosen_context(
    ref: ast.ContextRef, info: ContextInfo | None, env: Env, values: "Values"
) -> str:
    """The context that is meant, as in `main` or `dream[2]`; an index is checked."""
    name, index, state = ref.name.text, ref.index, values.state
    if index is None or not values.whole_number(index, env, "which of the contexts is meant"):
        return name
    if info is not None and info.count is None:
        diagnostic = Diagnostic(
            code="MS0531",
            message=f"`{name}` is one context",
            primary=Label(span=ref.span, text="one of several is meant here"),
            helps=(f"write `{name}`",),
        )
        if info.decl is not None:
            diagnostic = diagnostic.label(info.decl.span, f"`{name}[n]` would be n contexts")
        state.sink.report(diagnostic)
    elif info is not None and info.count is not None:
        _check_range(ref, index, info, state)
    return f"{name}[{text_of(index)}]"


def _check_range(ref: ast.ContextRef, index: ast.Expr, info: ContextInfo, state: State) -> None:
    assert info.count is not None
    count, number = static_dim(info.count, state), static_dim(index, state)
    size = count.value if count is not None else None
    at = number.value if number is not None else None
    if at is None or (at >= 0 and (size is None or at < size)):
        return
    diagnostic = Diagnostic(
        code="MS0531",
        message=f"there is no `{ref.name.text}[{at}]`",
        primary=Label(span=index.span, text=f"this is {at}"),
        helps=(f"they are counted from 0 to {size - 1}" if size else "they are counted from 0",),
    )
    if info.decl is not None:
        diagnostic = diagnostic.label(info.decl.span, "declared here")
    state.sink.report(diagnostic)


def check_largest(count: ast.Expr, what: str, state: State) -> None:
    """Refuse (MS0332) what is kept on the device at its largest, where that is not known."""
    size = static_dim(count, state)
    if size is None or size.replace(lambda var: _end_of(var, 1, state)).value is not None:
        return
    state.sink.report(
        Diagnostic(
            code="MS0332",
            message=f"the length of {what} has no largest value",
            primary=Label(span=count.span, text="nothing bounds this"),
            notes=("it is kept on the device, as long as it may be",),
            helps=("give the option a range: `opt n : int = 10 in 1 .. 100`",),
        )
    )


def _end_of(var: DimVar, end: int, state: State) -> Dim | None:
    """The least (0) or largest (1) value of an option's range."""
    option = state.options.get(var.name)
    if option is None or option.domain is None:
        return None
    numbers = [value for value in option.domain[1] if isinstance(value, int)]
    if not numbers:
        return None
    return constant((min, max)[end](numbers))


def check_count(count: ast.Expr, state: State) -> None:
    """Refuse (MS0327) an array whose largest size is not known, or that may be empty."""
    size = static_dim(count, state)
    if size is None:
        return
    most = size.replace(lambda var: _end_of(var, 1, state)).value
    least = size.replace(lambda var: _end_of(var, 0, state)).value
    if most is None:
        message, label = "an array of contexts has a largest size", "nothing bounds this"
        help_ = "give the option a range: `opt n : int = 4 in 1 .. 16`"
    elif least is not None and least < 1:
        message, label = "an array of contexts has at least one", f"this may be {least}"
        help_ = "let the option's range begin with 1"
    else:
        return
    state.sink.report(
        Diagnostic(
            code="MS0327",
            message=message,
            primary=Label(span=count.span, text=label),
            helps=(help_,),
        )
    )


def check_fork(fork: ast.Fork, contexts: tuple[ContextInfo, ...], state: State) -> None:
    """Refuse (MS0532) forks of an array into one context, and of arrays of other sizes."""
    counts = {context.name: context.count for context in contexts}
    target, source = fork.target.context, fork.source.context
    to = counts.get(target.name.text) if target.index is None else None
    of = counts.get(source.name.text) if source.index is None else None
    if of is None:
        return
    if to is None:
        label = f"`{source.name.text}` is several contexts"
        helps = (f"say which: `{source.name.text}[0]`",)
    else:
        sizes = static_dim(to, state), static_dim(of, state)
        if sizes[0] == sizes[1]:
            return
        label = f"{text_of(of)} contexts for {text_of(to)}"
        helps = ("fork them one by one, or declare both as long",)
    state.sink.report(
        Diagnostic(
            code="MS0532",
            message="a fork goes from one context to one, or to each of an array",
            primary=Label(span=fork.source.span, text=label),
            helps=helps,
        ).label(fork.target.span, "forked into this")
    )
