"""What goes over something that comes piece by piece: parts of a request, chunks of streams."""

from collections import Counter
from typing import TYPE_CHECKING

from mstarc.diagnostics import Diagnostic, Label
from mstarc.names import Symbol
from mstarc.names.scope import report_unknown
from mstarc.syntax import ast
from mstarc.typecheck.environment import Env, Held, Lost
from mstarc.typecheck.logic import FALSE, TRUE
from mstarc.typecheck.policies import check_policy, chunk_type
from mstarc.typecheck.rhythm import Place, rhythm
from mstarc.typecheck.state import State
from mstarc.typecheck.text import condition_key
from mstarc.typecheck.types import ERROR, MediaType, PartsType, Type

if TYPE_CHECKING:
    from mstarc.typecheck.flow import Flow


def check_for(flow: "Flow", loop: ast.For, env: Env) -> None:
    """Check a `for` over parts. A value that the last part surely sets is certain behind it."""
    state, logic = flow.state, flow.state.logic
    source = state.resolved.meaning(loop.source)
    declared = source.of(ast.InField) if source is not None else None
    parts = state.fields.get(source.name, ERROR) if source is not None else ERROR
    if declared is not None and not isinstance(parts, PartsType) and parts != ERROR:
        state.sink.report(
            Diagnostic(
                code="MS0315",
                message=f"the input `{declared.name.text}` does not come in parts",
                primary=Label(span=loop.source.span, text=f"this is `{parts}`"),
            ).label(declared.span, "declared here")
        )
    quantity = declared.quantity if declared is not None else None
    has_some = (
        quantity is not None and quantity.at_least is not None and quantity.at_least.value > 0
    )
    body = env.copy()
    flow.block(loop.body, body)
    for symbol, held in body.values.items():
        before = env.values.get(symbol)
        if held is before:
            continue
        kept = before.present if before is not None else FALSE
        in_last = _in_pass(flow, loop, "last", held.present)
        in_first = _in_pass(flow, loop, "first", held.present)
        present = logic.either(kept, in_last, in_first) if has_some else kept
        if not has_some and before is None:
            env.lost[symbol] = Lost(
                "MS0516",
                held.span,
                "set only if there is a part",
                f"declare `{loop.source.text}` with `at least 1`",
            )
            continue
        joined = flow.join(symbol, before, held) if before is not None else held.type
        env.set(symbol, Held(joined, present, held.span))


def check_match(flow: "Flow", match: ast.Match, env: Env) -> None:
    """Check a `match` on a part: one arm for each kind that it may be of.

    In the arm of a kind the request has a part of this kind.
    """
    state, logic = flow.state, flow.state.logic
    subject = state.resolved.meaning(match.subject)
    if subject is not None and subject.kind != "part":
        state.error(
            "MS0315", match.subject.span, f"`{match.subject.text}` is no part", "not of a `for`"
        )
    kinds = _kinds(flow, subject)
    seen: dict[str, ast.Arm] = {}
    ends: list[tuple[int, Env]] = []
    doubles = 0
    for arm in match.arms:
        kind = arm.kind.text
        earlier = seen.setdefault(kind, arm)
        doubles += earlier is not arm
        if kinds and kind not in kinds:
            what = f"kind of part in `{match.subject.text}` named"
            report_unknown(arm.kind, kinds, "MS0209", what, state.sink)
        elif earlier is not arm:
            state.sink.report(
                Diagnostic(
                    code="MS0201",
                    message=f"two arms match `{kind}`",
                    primary=Label(span=arm.kind.span, text="never reached"),
                ).label(earlier.kind.span, "matched here")
            )
        is_kind = logic.atom(f"part is {kind} [{match.subject.text}@{_place(subject)}]")
        inner = env.under(logic.both(env.facts, is_kind, logic.atom(f"has {kind}")))
        media = next((m for m in kinds.values() if m.kind == kind), None)
        bound = state.resolved.uses[arm.binding]
        type_ = media if media is not None and earlier is arm else ERROR
        state.types[arm.binding] = type_
        inner.set(bound, Held(type_, TRUE, arm.binding.span))
        flow.block(arm.body, inner)
        ends.append((is_kind, inner))
    missing = [kind for kind in kinds if kind not in seen]
    # An arm for a kind that has one already was meant for another.
    if len(missing) > doubles and all(kind in kinds for kind in seen):
        listed = " and ".join(f"`{kind}`" for kind in missing)
        state.sink.report(
            Diagnostic(
                code="MS0518",
                message=f"a part may be {listed}, and no arm takes it",
                primary=Label(span=match.subject.span, text="not every kind is matched"),
                helps=tuple(f"add `{kind}(x) {{ … }}`" for kind in missing),
            )
        )
    _merge_arms(flow, env, ends)


def check_each(flow: "Flow", each: ast.Each, env: Env) -> None:
    """Check an `each`: its chunks, then its body, which may not run at all."""
    state = flow.state
    streams = [state.resolved.meaning(name) for name in each.streams]
    infos = [state.streams.get(symbol.name) if symbol is not None else None for symbol in streams]
    body = env.copy()
    if each.policy is not None and infos and infos[0] is not None:
        first = infos[0]
        policy = check_policy(each.policy, first.item, first.marks, state)
        if policy is not None:
            state.policies[each] = policy
    if len(each.items) != len(each.streams):
        state.error(
            "MS0313",
            each.span,
            f"{len(each.streams)} streams are read, and {len(each.items)} names take their chunks",
            "one name a stream",
        )
    for name, info in zip(each.items, infos, strict=False):
        type_: Type = ERROR
        is_told = info is None or info.name in state.doubtful
        if info is not None and not is_told and (each.policy is None or each in state.policies):
            cut = state.policies.get(each, info.policy)
            short = info.tail == "short" or (each.policy is not None and info.tail is None)
            type_ = chunk_type(cut, info.item, short=short, place=each, state=state)
        state.types[name] = type_
        body.set(state.resolved.uses[name], Held(type_, TRUE, name.span))
    if len(each.streams) > 1:
        _check_zip(flow, each)
    flow.block(each.body, body)
    bound = {state.resolved.uses[name] for name in each.items}
    for symbol, held in body.values.items():
        before = env.values.get(symbol)
        if held is before or symbol in bound:
            continue
        if before is None:
            env.lost[symbol] = Lost(
                "MS0516",
                held.span,
                "set only if a chunk comes",
                "set it before `each` as well, for a stream that stays empty",
            )
        else:
            joined = flow.join(symbol, before, held)
            env.set(symbol, Held(joined, before.present, before.span))


def _check_zip(flow: "Flow", each: ast.Each) -> None:
    state = flow.state
    rates = []
    for name in each.streams:
        symbol = state.resolved.meaning(name)
        info = state.streams.get(symbol.name) if symbol is not None else None
        if info is None:
            return
        policy = state.policies.get(each, info.policy)
        rates.append((name, info, (policy.kind, policy.size, policy.stride, policy.context)))
    first_name, first, rate = rates[0]
    for name, info, other in rates[1:]:
        if other != rate:
            state.sink.report(
                Diagnostic(
                    code="MS0411",
                    message=f"`{first_name.text}` and `{name.text}` are not cut in step",
                    primary=Label(span=name.span, text="read in step with the other"),
                    helps=("give both one chunk policy, or write one at the `each`",),
                )
                .label(first.decl.policy.span, f"chunks of `{first_name.text}`")
                .label(info.decl.policy.span, f"chunks of `{name.text}`")
            )
    _check_rhythm(each, state)


def _check_rhythm(each: ast.Each, state: State) -> None:
    first_name, *others = each.streams
    beats: list[Counter[Place]] = []
    for name in each.streams:
        symbol = state.resolved.meaning(name)
        info = state.streams.get(symbol.name) if symbol is not None else None
        machine = state.resolved.symbols.machines.get(info.producer) if info is not None else None
        if symbol is None or machine is None:
            return
        beats.append(rhythm(machine.of(ast.MachineDecl), symbol, state))
    for name, beat in zip(others, beats[1:], strict=True):
        if beat == beats[0]:
            continue
        diagnostic = Diagnostic(
            code="MS0417",
            message=f"`{first_name.text}` and `{name.text}` may not get equally many items",
            primary=Label(span=name.span, text=f"read in step with `{first_name.text}`"),
            notes=("a read in step waits for both, so one that gets more would wait for ever",),
            helps=("send to both in the same places, or read them apart",),
        )
        state.sink.report(diagnostic)


def _merge_arms(flow: "Flow", env: Env, ends: list[tuple[int, Env]]) -> None:
    """Let `env` be the place behind the arms, one of which is taken: a missing one is reported."""
    if not ends:
        return
    behind = ends[-1][1].copy()
    for is_kind, end in reversed(ends[:-1]):
        merged = env.copy()
        flow.merge(merged, is_kind, end, behind)
        behind = merged
    for symbol, held in behind.values.items():
        if env.values.get(symbol) is not held:
            env.set(symbol, held)
    for symbol, lost in behind.lost.items():
        if symbol not in env.values:
            env.lost.setdefault(symbol, lost)


def _kinds(flow: "Flow", subject: Symbol | None) -> dict[str, MediaType]:
    if subject is None or subject.kind != "part":
        return {}
    source = flow.state.resolved.meaning(subject.of(ast.For).source)
    parts = flow.state.fields.get(source.name) if source is not None else None
    return {kind.kind: kind for kind in parts.kinds} if isinstance(parts, PartsType) else {}


def _place(symbol: Symbol | None) -> int:
    return symbol.declaration.span.start if symbol is not None else 0


def _in_pass(flow: "Flow", loop: ast.For, name: str, present: int) -> int:
    """Where a value is set in the pass for which `part.name` holds, whatever the part is else."""
    logic = flow.state.logic
    attribute = ast.Attr(
        span=loop.variable.span,
        base=loop.variable,
        name=ast.Name(span=loop.variable.span, text=name),
    )
    # The variable's own name means the part, as a use of it does.
    held = logic.compose(present, {condition_key(attribute, flow.state.resolved): TRUE})
    mark = f"{loop.variable.text}@{_place(flow.state.resolved.meaning(loop.variable))}"
    return logic.always(held, [atom for atom in logic.atoms_of(held) if mark in atom])
