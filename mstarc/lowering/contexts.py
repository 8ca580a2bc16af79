"""Forks, releases and marks: the same in walks and in states."""

from mstarc.ir import graph as ir
from mstarc.lowering.exprs import Exprs, maybe
from mstarc.syntax import ast


def lower_fork(fork: ast.Fork, exprs: Exprs) -> ir.Fork:
    """A fork."""
    return ir.Fork(
        node=fork.target.node.text,
        target=fork.target.context.name.text,
        source=fork.source.context.name.text,
        target_index=maybe(fork.target.context.index, exprs),
        source_index=maybe(fork.source.context.index, exprs),
        condition=maybe(fork.condition, exprs),
        span=fork.span,
    )


def lower_release(release: ast.Release, exprs: Exprs) -> ir.Release:
    """A release."""
    return ir.Release(
        node=release.target.node.text,
        context=release.target.context.name.text,
        index=maybe(release.target.context.index, exprs),
        span=release.span,
    )


def lower_mark(mark: ast.Mark) -> ir.MarkStream:
    """A mark."""
    return ir.MarkStream(stream=mark.stream.text, mark=mark.mark.text, span=mark.span)
