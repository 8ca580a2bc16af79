"""Contexts over the whole spec: what is forked or read must be written somewhere that runs."""

from mstarc.diagnostics import Diagnostic, Label
from mstarc.syntax import ast
from mstarc.typecheck.links import Links
from mstarc.typecheck.state import State
from mstarc.typecheck.typed import WalkInfo


def check_contexts(links: Links, state: State) -> None:
    """Refuse forks and reads of contexts that nothing ever writes."""
    written: set[tuple[str, str]] = set()
    idle = _in_idle_walks(links, state)
    in_vain: dict[tuple[str, str], WalkInfo] = {}
    read: list[tuple[str, str, ast.OpCall]] = []
    forks = [
        node
        for declaration in state.resolved.spec.declarations
        if isinstance(declaration, ast.WalkDecl | ast.MachineDecl)
        for node in ast.descendants(declaration)
        if isinstance(node, ast.Fork)
    ]
    for fork in forks:
        written.add((fork.target.node.text, fork.target.context.name.text))
    for call, chosen in state.contexts.items():
        if not isinstance(call, ast.OpCall):
            continue
        node = state.nodes[call.target.node.text]
        op = node.ops[call.target.op.text]
        context = chosen.split("[")[0]
        if call in idle:
            names = (context, *op.writes[1:]) if op.writes else ()
            in_vain.update(dict.fromkeys(((node.name, name) for name in names), idle[call]))
        elif op.writes:
            written.update((node.name, name) for name in (context, *op.writes[1:]))
            read.extend((node.name, name, call) for name in op.reads)
        else:
            read.extend((node.name, name, call) for name in (context, *op.reads[1:]))
    for fork in forks:
        source = (fork.source.node.text, fork.source.context.name.text)
        if source in written or fork.source not in state.contexts:
            continue
        state.sink.report(
            Diagnostic(
                code="MS0533",
                message=f"`{source[0]}.{source[1]}` is forked, and nothing ever writes it",
                primary=Label(span=fork.source.span, text="always empty"),
                helps=(
                    f"call an op that writes it before the fork, or write `release {source[0]}."
                    f"{fork.target.context.name.text}` to empty the other",
                ),
            )
        )
    reported: set[tuple[str, str]] = set()
    for node_name, context, call in read:
        if (node_name, context) in written or (node_name, context) in reported:
            continue
        reported.add((node_name, context))
        op = state.nodes[node_name].ops[call.target.op.text]
        diagnostic = Diagnostic(
            code="MS0535",
            message=f"`{op.title}` reads `{node_name}.{context}`, which nothing ever writes",
            primary=Label(span=call.span, text="reads an empty context"),
        ).label(op.decl.name.span, "declared here")
        walk = in_vain.get((node_name, context))
        if walk is None:
            diagnostic = diagnostic.help("call an op that writes it first")
        else:
            diagnostic = diagnostic.label(walk.decl.name.span, "writes it, and no machine runs it")
            diagnostic = diagnostic.help(f"run it first: `run {walk.name}(…)`")
        state.sink.report(diagnostic)


def _in_idle_walks(links: Links, state: State) -> dict[ast.OpCall, WalkInfo]:
    """The calls of walks that no machine runs, which is reported on its own."""
    run = {walk for walks in links.walks.values() for walk in walks}
    return {
        node: walk
        for walk in state.walks.values()
        if walk.name not in run
        for node in ast.descendants(walk.decl.body)
        if isinstance(node, ast.OpCall)
    }
