"""Mistakes in specs, by kind: those of names and of what is left out here, others imported."""

import re
from collections.abc import Callable, Iterator

from mutants import Mutant, changed, left_out, pick, typo
from originals import Mistake, N, Original, original, without_comments
from spec_changes import (
    missing_dim,
    reversed_domain,
    surplus_argument,
    swapped_arguments,
    swapped_dtype,
    swapped_statements,
    without_condition,
    without_domain,
    wrong_arrow,
    wrong_default,
    wrong_dim,
    wrong_engine,
    wrong_field,
    wrong_media,
    wrong_number,
    wrong_policy,
    wrong_rate,
    wrong_window,
)

from mstarc.source import SourceFile, Span
from mstarc.syntax import ast


def spec_mutants(source: SourceFile, per_kind: int) -> list[Mutant]:
    """Up to `per_kind` mistakes of every kind, at places that are the same in every run."""
    spec = original(source)
    found = []
    for name, mistake in MISTAKES.items():
        found += pick(list(mistake(spec)), f"{source.path}/{name}", per_kind)
    return found


# Names


def _misspelt(
    kind: str, names: Callable[[Original], list[ast.Name]], *, declared: bool = False
) -> Mistake:
    def mistake(spec: Original) -> Iterator[Mutant]:
        for name in names(spec):
            also = [name.text] if declared else []
            wrong = typo(name.text, spec.names)
            yield changed(kind, spec.source, name.span, wrong, also=also)

    return mistake


def _values(spec: Original) -> list[ast.Name]:
    values = [arg.value for call in spec.all_of(ast.OpCall) for arg in call.args]
    values += [arg.value for call in spec.all_of(ast.RunCall) for arg in call.args]
    values += [emit.value for emit in spec.all_of(ast.Emit)]
    return [value for value in values if isinstance(value, ast.Name)]


def _config_uses(spec: Original) -> list[ast.Name]:
    config = {item.name.text for item in spec.tree.config_items}
    declared: set[ast.Name] = {item.name for item in spec.tree.config_items}
    for node in ast.descendants(spec.tree):
        if isinstance(node, ast.Param | ast.Result | ast.TypeField | ast.Setting | ast.InField):
            declared.add(node.name)
    return [n for n in spec.all_of(ast.Name) if n.text in config and n not in declared]


def _settings(spec: Original) -> list[ast.Name]:
    return [setting.name for setting in spec.all_of(ast.Setting)]


def _policy_settings(spec: Original) -> list[ast.Name]:
    return [
        arg.name
        for policy in spec.all_of(ast.Policy)
        for arg in policy.args
        if arg.name is not None
    ]


def _dtypes(spec: Original) -> list[ast.Name]:
    return [type_.dtype for type_ in spec.all_of(ast.TensorType)]


def _nexts(spec: Original) -> list[ast.Name]:
    return [n.target for n in spec.all_of(ast.Next) if n.target.text != "done"]


def _word_misspelt(spec: Original) -> Iterator[Mutant]:
    words = "node|walk|machine|state|stream|loop|emit|send|next|each|request|impl|config"
    for found in re.finditer(rf"^[ ]*({words})\b(?=[ ])", spec.source.text, re.MULTILINE):
        span = Span(path=spec.source.path, start=found.start(1), end=found.end(1))
        yield changed("word misspelt", spec.source, span, typo(found[1]))


def _doubled(spec: Original) -> Iterator[Mutant]:
    """A declaration pasted, and the paste not renamed."""
    for kind in (ast.NodeDecl, ast.WalkDecl, ast.StreamDecl, ast.MachineDecl):
        for decl in spec.tree.all_of(kind):
            text = spec.source.slice(decl.span)
            end = Span(path=spec.source.path, start=decl.span.end, end=decl.span.end)
            yield changed("declaration pasted twice", spec.source, end, f"\n\n{text}")


def _other_name(
    kind: str, uses: Callable[[Original], list[ast.Name]], what: type[ast.Decl]
) -> Mistake:
    """Another declared thing of the same kind is named."""

    def mistake(spec: Original) -> Iterator[Mutant]:
        names = [decl.name.text for decl in spec.tree.all_of(what)]  # type: ignore[attr-defined]
        for use in uses(spec):
            others = [name for name in names if name != use.text]
            if others:
                yield changed(kind, spec.source, use.span, others[0], also=[use.text, others[0]])

    return mistake


# Left out


def _without(kind: str, nodes: Callable[[Original], list[ast.Node]]) -> Mistake:
    def mistake(spec: Original) -> Iterator[Mutant]:
        for node in nodes(spec):
            named = {n.text for n in ast.descendants(node) if isinstance(n, ast.Name)}
            block = spec.block_around(node.span)
            yield left_out(kind, spec.source, node.span, block, also=named)

    return mistake


def _each(kind: type[N]) -> Callable[[Original], list[ast.Node]]:
    return lambda spec: list(spec.all_of(kind))


def _needed_effects(spec: Original) -> list[ast.Node]:
    return [*spec.all_of(ast.Writes), *spec.all_of(ast.Stateful)]


def _without_argument(spec: Original) -> Iterator[Mutant]:
    for call in [*spec.all_of(ast.OpCall), *spec.all_of(ast.RunCall)]:
        if call.args:
            last = call.args[-1].span
            start = call.args[-2].span.end if len(call.args) > 1 else last.start
            span = Span(path=last.path, start=start, end=last.end)
            yield changed("argument left out", spec.source, span, "")


def _without_carry(spec: Original) -> Iterator[Mutant]:
    for loop in spec.all_of(ast.Loop):
        if loop.carries:
            first, last = loop.carries[0].span, loop.carries[-1].span
            begin = spec.source.text.rfind("carry", 0, first.start)
            span = Span(path=first.path, start=begin, end=last.end)
            names = [carry.name.text for carry in loop.carries]
            yield changed("`carry` left out", spec.source, span, "", also=names)


def _without_bound(spec: Original) -> Iterator[Mutant]:
    for loop in spec.all_of(ast.Loop):
        yield changed("loop without a bound", spec.source, loop.bound.span, "")


def _without_mark(kind: str, mark: str) -> Mistake:
    def mistake(spec: Original) -> Iterator[Mutant]:
        for found in re.finditer(re.escape(mark), without_comments(spec.source.text)):
            span = Span(path=spec.source.path, start=found.start(), end=found.end())
            if mark == "}":
                # What is open is the block, from its first line on.
                yield left_out(kind, spec.source, span, spec.block_around(span))
            else:
                yield changed(kind, spec.source, span, "")

    return mistake


MISTAKES: dict[str, Mistake] = {
    "word": _word_misspelt,
    "node": _misspelt("node misspelt", lambda s: [c.target.node for c in s.all_of(ast.OpCall)]),
    "op": _misspelt("op misspelt", lambda s: [c.target.op for c in s.all_of(ast.OpCall)]),
    "walk": _misspelt("walk misspelt", lambda s: [c.walk for c in s.all_of(ast.RunCall)]),
    "stream-sent": _misspelt("stream misspelt", lambda s: [n.stream for n in s.all_of(ast.Send)]),
    "stream-read": _misspelt(
        "stream misspelt", lambda s: [n for e in s.all_of(ast.Each) for n in e.streams]
    ),
    "output": _misspelt("output misspelt", lambda s: [n.output for n in s.all_of(ast.Emit)]),
    "value": _misspelt("value misspelt", _values),
    "config": _misspelt("config value misspelt", _config_uses),
    "setting": _misspelt("setting misspelt", _settings),
    "policy": _misspelt("policy misspelt", lambda s: [p.name for p in s.all_of(ast.Policy)]),
    "policy-setting": _misspelt("setting misspelt", _policy_settings),
    "dtype-name": _misspelt("dtype misspelt", _dtypes),
    "state": _misspelt("state misspelt", _nexts),
    "field": wrong_field,
    "via": _misspelt(
        "op misspelt", lambda s: [f.via.op for f in s.all_of(ast.OutField) if f.via is not None]
    ),
    "node-declared": _misspelt(
        "node misspelt where declared",
        lambda s: [n.name for n in s.all_of(ast.NodeDecl)],
        declared=True,
    ),
    "op-declared": _misspelt(
        "op misspelt where declared",
        lambda s: [n.name for n in s.all_of(ast.OpDecl)],
        declared=True,
    ),
    "walk-declared": _misspelt(
        "walk misspelt where declared",
        lambda s: [n.name for n in s.all_of(ast.WalkDecl)],
        declared=True,
    ),
    "parameter-declared": _misspelt(
        "parameter misspelt where declared",
        lambda s: [p.name for w in s.all_of(ast.WalkDecl) for p in w.params],
        declared=True,
    ),
    "output-declared": _misspelt(
        "output misspelt where declared",
        lambda s: [f.name for f in s.all_of(ast.OutField)],
        declared=True,
    ),
    "option-declared": _misspelt(
        "option misspelt where declared",
        lambda s: [f.name for f in s.all_of(ast.OptField)],
        declared=True,
    ),
    "doubled": _doubled,
    "other-node": _other_name(
        "other node", lambda s: [c.target.node for c in s.all_of(ast.OpCall)], ast.NodeDecl
    ),
    "other-walk": _other_name(
        "other walk", lambda s: [c.walk for c in s.all_of(ast.RunCall)], ast.WalkDecl
    ),
    "other-stream": _other_name(
        "other stream", lambda s: [n.stream for n in s.all_of(ast.Send)], ast.StreamDecl
    ),
    "no-send": _without("`send` left out", _each(ast.Send)),
    "no-emit": _without("`emit` left out", _each(ast.Emit)),
    "no-call": _without("statement left out", _each(ast.Assign)),
    "no-run": _without("`run` left out", _each(ast.RunStmt)),
    "no-next": _without("`next` left out", _each(ast.Next)),
    "no-each": _without("`each` left out", _each(ast.Each)),
    "no-state": _without("state left out", _each(ast.StateDecl)),
    "no-machine": _without("machine left out", _each(ast.MachineDecl)),
    "no-node": _without("node left out", _each(ast.NodeDecl)),
    "no-stream": _without("stream left out", _each(ast.StreamDecl)),
    "no-walk": _without("walk left out", _each(ast.WalkDecl)),
    "no-op": _without("op left out", _each(ast.OpDecl)),
    "no-impl": _without("`impl` left out", _each(ast.ImplItem)),
    "no-kv": _without("`kv` left out", _each(ast.KvItem)),
    "no-effect": _without("effect left out", _needed_effects),
    "no-config": _without("config value left out", _each(ast.ConfigItem)),
    "no-option": _without("option left out", _each(ast.OptField)),
    "no-argument": _without_argument,
    "no-carry": _without_carry,
    "no-bound": _without_bound,
    "no-domain": without_domain,
    "no-while": without_condition,
    "no-brace": _without_mark("`}` left out", "}"),
    "no-open-brace": _without_mark("`{` left out", "{"),
    "no-comma": _without_mark("comma left out", ","),
    "no-quote": _without_mark("quote left out", '"'),
    "no-parenthesis": _without_mark("`)` left out", ")"),
    "arrow": wrong_arrow,
    "dtype": swapped_dtype,
    "dim": wrong_dim,
    "dim-missing": missing_dim,
    "arguments": swapped_arguments,
    "surplus": surplus_argument,
    "chunk": wrong_policy,
    "window": wrong_window,
    "default": wrong_default,
    "domain": reversed_domain,
    "media": wrong_media,
    "engine": wrong_engine,
    "order": swapped_statements,
    "rate": wrong_rate,
    "number": wrong_number,
}
"""Every kind of mistake by a short name."""
