"""Bytes that nodes take on a device: weights and pages of KV rows for the requests that run."""

from collections.abc import Mapping
from math import ceil

from mstarc.analysis.sizes import kv_row_bytes, weight_bytes
from mstarc.deployment import Deployment, DeviceKind
from mstarc.ir.exprs import Const, Option
from mstarc.ir.graph import Context, Node, Program
from mstarc.records import dataclass

PAGE_TOKENS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many requests run at once, rows of a context of one, rows of a page.

    `pages` is the number of pages of each node and rank, where the deployment says so.
    """

    requests: int
    tokens: int
    page_tokens: int = PAGE_TOKENS
    pages: int | None = None


def limits_of(deployment: Deployment | None, kind: DeviceKind) -> Limits:
    """What a deployment says, else the defaults of the device kind."""
    if deployment is None:
        return Limits(requests=kind.max_requests, tokens=kind.max_tokens)
    return Limits(
        requests=deployment.max_requests.value if deployment.max_requests else kind.max_requests,
        tokens=deployment.max_seq_len.value if deployment.max_seq_len else kind.max_tokens,
        page_tokens=deployment.page_tokens.value if deployment.page_tokens else PAGE_TOKENS,
        pages=deployment.max_pages.value if deployment.max_pages else None,
    )


def pages_of(program: Program, node: Node, limits: Limits) -> int:
    """Pages of a node: those of all contexts at their longest, for every request that may run.

    A context is as long as a request may be, or as the node's `length` says. Contexts share pages
    after a fork, so this is never too few.
    """
    if limits.pages is not None:
        return limits.pages
    length = dict(node.kv).get("length")
    longest = limits.tokens
    if isinstance(length, Const) and isinstance(length.value, int):
        longest = min(longest, length.value)
    rows_and_counts = [
        (
            context.cross if context.cross is not None else longest,
            _count(program, context),
        )
        for context in node.contexts or (Context(name="main"),)
    ]
    a_request = sum(ceil(rows / limits.page_tokens) * count for rows, count in rows_and_counts)
    return a_request * limits.requests


def full_rows(program: Program, node: Node, limits: Limits) -> list[tuple[str, int]]:
    """Rows of each context of a node for one request at its longest, in the node's order.

    A context is as long as a request may be, or as the node's `length` says; an array of contexts
    counts as its sum.
    """
    length = dict(node.kv).get("length")
    longest = limits.tokens
    if isinstance(length, Const) and isinstance(length.value, int):
        longest = min(longest, length.value)
    return [
        (
            context.name,
            (context.cross if context.cross is not None else longest) * _count(program, context),
        )
        for context in node.contexts or (Context(name="main"),)
    ]


def _count(program: Program, context: Context) -> int:
    match context.count:
        case Const(int(value)):
            return value
        case Option(name):
            option = next(option for option in program.options if option.name == name)
            if option.domain is not None and option.domain[0] == "range":
                return int(option.domain[1][1])
            return int(option.default or 1)
        case _:
            return 1


def node_bytes(
    program: Program,
    node: Node,
    kind: DeviceKind,
    limits: Limits,
    measured: Mapping[str, int],
) -> tuple[int, int]:
    """Bytes of weights and of KV pages; what is not known counts as none."""
    weights = weight_bytes(node, measured) or 0
    if node.engine != "kv_cache":
        return weights, 0
    row = kv_row_bytes(node, kind.dtype) or 0
    return weights, pages_of(program, node, limits) * limits.page_tokens * row
