"""A stream that holds much memory for each request."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding
from mstarc.syntax import ast
from mstarc.typecheck.typed import PolicyInfo, StreamInfo
from mstarc.typecheck.types import TensorType, TupleType, Type

MOST_BYTES = 64 * 2**20

_BYTES = {"f32": 4, "bf16": 2, "f16": 2, "i64": 8, "i32": 4, "u8": 1, "bool": 1}


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every stream whose ring is larger than 64 MiB a request.

    A ring holds at least the items of one chunk, with its context, and those of one step more.
    """
    for stream in context.typed.streams.values():
        item_bytes = _bytes(stream.item)
        if item_bytes is None:
            continue
        policy = max(_policies(stream, context), key=_items)
        total = _items(policy) * item_bytes
        if total <= MOST_BYTES:
            continue
        message = f"stream `{stream.name}` holds at least {_shown(total)} for each request"
        yield (
            finding("MS1022", policy.decl.span, message, f"keeps {_items(policy)} items")
            .label(stream.decl.item.span, f"an item is {_shown(item_bytes)}")
            .note("a ring is made for each request that may run at once")
            .help("make chunks smaller, or send something smaller than what is made of it")
        )


def _items(policy: PolicyInfo) -> int:
    step = policy.stride if policy.kind == "sliding" else policy.size
    return policy.size + policy.context + step


def _policies(stream: StreamInfo, context: RuleContext) -> list[PolicyInfo]:
    reads = [
        context.typed.policies[each]
        for each in context.nodes.get(ast.Each, ())
        if isinstance(each, ast.Each)
        and each in context.typed.policies
        and stream.name in (name.text for name in each.streams)
    ]
    return [stream.policy, *reads]


def _bytes(type_: Type) -> int | None:
    match type_:
        case TensorType(dtype, dims):
            total = _BYTES[dtype]
            for dim in dims:
                if dim.value is None:
                    return None
                total *= dim.value
            return total
        case TupleType(fields):
            sizes = [_bytes(entry) for _, entry in fields]
            known = [size for size in sizes if size is not None]
            return sum(known) if len(known) == len(sizes) else None
        case _:
            return None


def _shown(count: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} bytes"


RULE = Rule(code="MS1022", group="memory", status="preview", check=check)
