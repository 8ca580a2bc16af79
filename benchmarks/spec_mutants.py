"""Mistakes in specs: each kind is a function from a spec to all places where it can be made."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from mutants import Mutant, changed, left_out, pick, typo

from mstarc.diagnostics import DiagnosticSink
from mstarc.source import SourceFile, Span
from mstarc.syntax import ast
from mstarc.syntax.parser import parse

N = TypeVar("N", bound=ast.Node)


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """A spec that is right, its tree, and every name in it."""

    source: SourceFile
    tree: ast.Spec
    names: frozenset[str]

    def all_of(self, kind: type[N]) -> list[N]:
        """Every node of a class, in source order."""
        return [node for node in ast.descendants(self.tree) if isinstance(node, kind)]

    def block_around(self, span: Span) -> Span:
        """The smallest block or declaration that holds `span`, from the head of its line."""
        holders = [
            node.span
            for node in ast.descendants(self.tree)
            if isinstance(node, ast.Block | ast.NodeDecl | ast.MachineDecl | ast.RequestDecl)
            and node.span.start <= span.start
            and span.end <= node.span.end
            and node.span != span
        ]
        return min(holders, key=lambda held: held.end - held.start, default=self.tree.span)


Mistake = Callable[[Original], Iterator[Mutant]]


def original(source: SourceFile) -> Original:
    """A spec without syntax errors, ready to be broken."""
    sink = DiagnosticSink()
    tree = parse(source, sink)
    assert tree is not None and not sink.has_errors, f"{source.path} is broken already"
    names = {node.text for node in ast.descendants(tree) if isinstance(node, ast.Name)}
    return Original(source=source, tree=tree, names=frozenset(names))


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
        for found in re.finditer(re.escape(mark), _without_comments(spec.source.text)):
            span = Span(path=spec.source.path, start=found.start(), end=found.end())
            if mark == "}":
                # What is open is the block, from its first line on.
                yield left_out(kind, spec.source, span, spec.block_around(span))
            else:
                yield changed(kind, spec.source, span, "")

    return mistake


def _without_comments(text: str) -> str:
    """The text with comments blanked, so that offsets stay."""
    return re.sub(r"#[^\n]*", lambda found: " " * len(found[0]), text)


# Changed


def _swapped_dtype(spec: Original) -> Iterator[Mutant]:
    other = {"i64": "f32", "f32": "i64", "bf16": "f32", "bool": "i64"}
    for op in spec.all_of(ast.OpDecl):
        for item in (*op.params, *op.results):
            if isinstance(item.type, ast.TensorType) and item.type.dtype.text in other:
                name = item.type.dtype
                also = [op.name.text, item.name.text]
                yield changed("other dtype", spec.source, name.span, other[name.text], also=also)


def _wrong_dim(spec: Original) -> Iterator[Mutant]:
    for op in spec.all_of(ast.OpDecl):
        for item in (*op.params, *op.results):
            if isinstance(item.type, ast.TensorType):
                for dim in item.type.dims:
                    if isinstance(dim, ast.Int):
                        text, also = str(dim.value + 1), [op.name.text, item.name.text]
                        yield changed("other dim", spec.source, dim.span, text, also=also)


def _missing_dim(spec: Original) -> Iterator[Mutant]:
    for op in spec.all_of(ast.OpDecl):
        for param in op.params:
            if isinstance(param.type, ast.TensorType) and len(param.type.dims) > 1:
                first, second = param.type.dims[0].span, param.type.dims[1].span
                span = Span(path=first.path, start=first.start, end=second.start)
                yield changed("dim left out", spec.source, span, "", also=[op.name.text])


def _swapped_arguments(spec: Original) -> Iterator[Mutant]:
    for call in [*spec.all_of(ast.OpCall), *spec.all_of(ast.RunCall)]:
        plain = [arg for arg in call.args if arg.name is None]
        for left, right in pairwise(plain):
            a, b = spec.source.slice(left.span), spec.source.slice(right.span)
            between = spec.source.text[left.span.end : right.span.start]
            span = left.span.cover(right.span)
            yield changed("arguments swapped", spec.source, span, f"{b}{between}{a}")


def _surplus_argument(spec: Original) -> Iterator[Mutant]:
    for call in spec.all_of(ast.OpCall):
        if call.args:
            last = call.args[-1].span
            text = f"{spec.source.slice(last)}, 0"
            yield changed("argument too many", spec.source, last, text)


def _wrong_policy(spec: Original) -> Iterator[Mutant]:
    """A stride longer than its window, a chunk of nothing."""
    for policy in spec.all_of(ast.Policy):
        for arg in policy.args:
            if not isinstance(arg.value, ast.Int):
                continue
            name = arg.name.text if arg.name is not None else ""
            text = str(arg.value.value * 9) if name == "stride" else "0"
            if name != "context":
                yield changed("impossible chunk", spec.source, arg.value.span, text)


def _wrong_window(spec: Original) -> Iterator[Mutant]:
    for policy in spec.all_of(ast.Policy):
        for arg in policy.args:
            fixed = policy.name.text in ("sliding", "fixed")
            size = arg.name is None or arg.name.text == "window"
            if isinstance(arg.value, ast.Int) and fixed and size:
                text = str(arg.value.value + 1)
                yield changed("other window", spec.source, arg.value.span, text)


def _wrong_default(spec: Original) -> Iterator[Mutant]:
    for option in spec.all_of(ast.OptField):
        if isinstance(option.domain, ast.RangeDomain) and option.default is not None:
            text = f"{spec.source.slice(option.domain.high.span)}9"
            yield changed("default outside its domain", spec.source, option.default.span, text)


def _reversed_domain(spec: Original) -> Iterator[Mutant]:
    for domain in spec.all_of(ast.RangeDomain):
        low, high = spec.source.slice(domain.low.span), spec.source.slice(domain.high.span)
        span = domain.low.span.cover(domain.high.span)
        yield changed("domain reversed", spec.source, span, f"{high} .. {low}")


def _without_domain(spec: Original) -> Iterator[Mutant]:
    for option in spec.all_of(ast.OptField):
        if isinstance(option.domain, ast.RangeDomain):
            yield changed("domain left out", spec.source, option.domain.span, "")


def _wrong_media(spec: Original) -> Iterator[Mutant]:
    for field in spec.tree.request_fields:
        if isinstance(field, ast.InField | ast.OutField) and not isinstance(
            field.type, ast.PartsType
        ):
            name = field.name.text
            other = "text" if spec.source.slice(field.type.span) != "text" else "image"
            yield changed("other medium", spec.source, field.type.span, other, also=[name])


def _wrong_engine(spec: Original) -> Iterator[Mutant]:
    for node in spec.all_of(ast.NodeDecl):
        other = "stateless" if node.engine.text == "kv_cache" else "kv_cache"
        span = node.engine.span
        mutant = changed("other engine", spec.source, span, other, also=[node.name.text])
        block = range(
            spec.source.position(node.span.start).line, spec.source.position(node.span.end).line + 1
        )
        yield Mutant(
            kind=mutant.kind,
            what=mutant.what,
            text=mutant.text,
            lines=mutant.lines | frozenset(block),
        )


def _swapped_statements(spec: Original) -> Iterator[Mutant]:
    """Two statements in the wrong order, where the second reads what the first sets."""
    for block in spec.all_of(ast.Block):
        for first, second in pairwise(block.statements):
            if not isinstance(first, ast.Assign):
                continue
            set_names = {n.text for n in first.targets if isinstance(n, ast.Name)}
            read = {n.text for n in ast.descendants(second) if isinstance(n, ast.Name)}
            if set_names & read:
                a, b = spec.source.slice(first.span), spec.source.slice(second.span)
                between = spec.source.text[first.span.end : second.span.start]
                span = first.span.cover(second.span)
                yield changed("statements swapped", spec.source, span, f"{b}{between}{a}")


def _wrong_arrow(spec: Original) -> Iterator[Mutant]:
    for found in re.finditer("<-", _without_comments(spec.source.text)):
        span = Span(path=spec.source.path, start=found.start(), end=found.end())
        yield changed("wrong arrow", spec.source, span, "->")


def _wrong_field(spec: Original) -> Iterator[Mutant]:
    for attr in spec.all_of(ast.Attr):
        wrong = typo(attr.name.text, spec.names)
        yield changed("field misspelt", spec.source, attr.name.span, wrong)


def _wrong_rate(spec: Original) -> Iterator[Mutant]:
    for media in spec.all_of(ast.MediaType):
        yield changed("other sampling rate", spec.source, media.argument.span, "22050")


def _wrong_number(spec: Original) -> Iterator[Mutant]:
    for item in spec.tree.config_items:
        if isinstance(item.default, ast.Int):
            also = [item.name.text]
            text = str(item.default.value // 2)
            yield changed("other number in config", spec.source, item.default.span, text, also=also)


def _without_condition(spec: Original) -> Iterator[Mutant]:
    for loop in spec.all_of(ast.Loop):
        if loop.while_condition is not None:
            condition = loop.while_condition.span
            start = spec.source.text.rfind("while", 0, condition.start)
            names = [
                n.text for n in ast.descendants(loop.while_condition) if isinstance(n, ast.Name)
            ]
            span = Span(path=condition.path, start=start, end=condition.end)
            yield changed("`while` left out", spec.source, span, "", also=names)


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
    "field": _wrong_field,
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
    "no-domain": _without_domain,
    "no-while": _without_condition,
    "no-brace": _without_mark("`}` left out", "}"),
    "no-open-brace": _without_mark("`{` left out", "{"),
    "no-comma": _without_mark("comma left out", ","),
    "no-quote": _without_mark("quote left out", '"'),
    "no-parenthesis": _without_mark("`)` left out", ")"),
    "arrow": _wrong_arrow,
    "dtype": _swapped_dtype,
    "dim": _wrong_dim,
    "dim-missing": _missing_dim,
    "arguments": _swapped_arguments,
    "surplus": _surplus_argument,
    "chunk": _wrong_policy,
    "window": _wrong_window,
    "default": _wrong_default,
    "domain": _reversed_domain,
    "media": _wrong_media,
    "engine": _wrong_engine,
    "order": _swapped_statements,
    "rate": _wrong_rate,
    "number": _wrong_number,
}
"""Every kind of mistake by a short name."""
