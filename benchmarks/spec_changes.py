"""Mistakes in specs where something stands that is wrong: types, numbers, orders, engines.

Each is a function from a spec to all places where it can be made.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from mutants import Mutant, changed, typo
from originals import Original, without_comments

from mstarc.source import Span
from mstarc.syntax import ast


def swapped_dtype(spec: Original) -> Iterator[Mutant]:
    other = {"i64": "f32", "f32": "i64", "bf16": "f32", "bool": "i64"}
    for op in spec.all_of(ast.OpDecl):
        for item in (*op.params, *op.results):
            if isinstance(item.type, ast.TensorType) and item.type.dtype.text in other:
                name = item.type.dtype
                also = [op.name.text, item.name.text]
                yield changed("other dtype", spec.source, name.span, other[name.text], also=also)


def wrong_dim(spec: Original) -> Iterator[Mutant]:
    for op in spec.all_of(ast.OpDecl):
        for item in (*op.params, *op.results):
            if isinstance(item.type, ast.TensorType):
                for dim in item.type.dims:
                    if isinstance(dim, ast.Int):
                        text, also = str(dim.value + 1), [op.name.text, item.name.text]
                        yield changed("other dim", spec.source, dim.span, text, also=also)


def missing_dim(spec: Original) -> Iterator[Mutant]:
    for op in spec.all_of(ast.OpDecl):
        for param in op.params:
            if isinstance(param.type, ast.TensorType) and len(param.type.dims) > 1:
                first, second = param.type.dims[0].span, param.type.dims[1].span
                span = Span(path=first.path, start=first.start, end=second.start)
                yield changed("dim left out", spec.source, span, "", also=[op.name.text])


def swapped_arguments(spec: Original) -> Iterator[Mutant]:
    for call in [*spec.all_of(ast.OpCall), *spec.all_of(ast.RunCall)]:
        plain = [arg for arg in call.args if arg.name is None]
        for left, right in pairwise(plain):
            a, b = spec.source.slice(left.span), spec.source.slice(right.span)
            between = spec.source.text[left.span.end : right.span.start]
            span = left.span.cover(right.span)
            yield changed("arguments swapped", spec.source, span, f"{b}{between}{a}")


def surplus_argument(spec: Original) -> Iterator[Mutant]:
    for call in spec.all_of(ast.OpCall):
        if call.args:
            last = call.args[-1].span
            text = f"{spec.source.slice(last)}, 0"
            yield changed("argument too many", spec.source, last, text)


def wrong_policy(spec: Original) -> Iterator[Mutant]:
    """A stride longer than its window, a chunk of nothing."""
    for policy in spec.all_of(ast.Policy):
        for arg in policy.args:
            if not isinstance(arg.value, ast.Int):
                continue
            name = arg.name.text if arg.name is not None else ""
            text = str(arg.value.value * 9) if name == "stride" else "0"
            if name != "context":
                yield changed("impossible chunk", spec.source, arg.value.span, text)


def wrong_window(spec: Original) -> Iterator[Mutant]:
    for policy in spec.all_of(ast.Policy):
        for arg in policy.args:
            fixed = policy.name.text in ("sliding", "fixed")
            size = arg.name is None or arg.name.text == "window"
            if isinstance(arg.value, ast.Int) and fixed and size:
                text = str(arg.value.value + 1)
                yield changed("other window", spec.source, arg.value.span, text)


def wrong_default(spec: Original) -> Iterator[Mutant]:
    for option in spec.all_of(ast.OptField):
        if isinstance(option.domain, ast.RangeDomain) and option.default is not None:
            text = f"{spec.source.slice(option.domain.high.span)}9"
            yield changed("default outside its domain", spec.source, option.default.span, text)


def reversed_domain(spec: Original) -> Iterator[Mutant]:
    for domain in spec.all_of(ast.RangeDomain):
        low, high = spec.source.slice(domain.low.span), spec.source.slice(domain.high.span)
        span = domain.low.span.cover(domain.high.span)
        yield changed("domain reversed", spec.source, span, f"{high} .. {low}")


def without_domain(spec: Original) -> Iterator[Mutant]:
    for option in spec.all_of(ast.OptField):
        if isinstance(option.domain, ast.RangeDomain):
            yield changed("domain left out", spec.source, option.domain.span, "")


def wrong_media(spec: Original) -> Iterator[Mutant]:
    for field in spec.tree.request_fields:
        if isinstance(field, ast.InField | ast.OutField) and not isinstance(
            field.type, ast.PartsType
        ):
            name = field.name.text
            other = "text" if spec.source.slice(field.type.span) != "text" else "image"
            yield changed("other medium", spec.source, field.type.span, other, also=[name])


def wrong_engine(spec: Original) -> Iterator[Mutant]:
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


def swapped_statements(spec: Original) -> Iterator[Mutant]:
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


def wrong_arrow(spec: Original) -> Iterator[Mutant]:
    for found in re.finditer("<-", without_comments(spec.source.text)):
        span = Span(path=spec.source.path, start=found.start(), end=found.end())
        yield changed("wrong arrow", spec.source, span, "->")


def wrong_field(spec: Original) -> Iterator[Mutant]:
    for attr in spec.all_of(ast.Attr):
        wrong = typo(attr.name.text, spec.names)
        yield changed("field misspelt", spec.source, attr.name.span, wrong)


def wrong_rate(spec: Original) -> Iterator[Mutant]:
    for media in spec.all_of(ast.MediaType):
        yield changed("other sampling rate", spec.source, media.argument.span, "22050")


def wrong_number(spec: Original) -> Iterator[Mutant]:
    for item in spec.tree.config_items:
        if isinstance(item.default, ast.Int):
            also = [item.name.text]
            text = str(item.default.value // 2)
            yield changed("other number in config", spec.source, item.default.span, text, also=also)


def without_condition(spec: Original) -> Iterator[Mutant]:
    for loop in spec.all_of(ast.Loop):
        if loop.while_condition is not None:
            condition = loop.while_condition.span
            start = spec.source.text.rfind("while", 0, condition.start)
            names = [
                n.text for n in ast.descendants(loop.while_condition) if isinstance(n, ast.Name)
            ]
            span = Span(path=condition.path, start=start, end=condition.end)
            yield changed("`while` left out", spec.source, span, "", also=names)
