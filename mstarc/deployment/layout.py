"""Which node runs on which ranks, by a deployment: its names looked up in the program.

node_names: [LLM], ranks: [0, 1], graph_walks: [prefill]   ->   assign lm walks (start) ranks [0]
                                                               copy 1 of rank 0 device 1
"""

from collections.abc import Iterable
from dataclasses import replace

from mstarc.deployment.groups import check_sizes, copies_of, cut_of, replicas_of
from mstarc.deployment.model import Deployment, Group, Named
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label, did_you_mean
from mstarc.ir.decisions import Assignment, Copy
from mstarc.ir.graph import Call, Node, Program, Run
from mstarc.ir.walking import statements_of
from mstarc.records import dataclass
from mstarc.source import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Who holds what. Nodes of engine `host` may be left out."""

    assignments: tuple[Assignment, ...]
    copies: tuple[Copy, ...]


@dataclass(frozen=True, slots=True)
class _Placed:
    """A node, or one context of it, in some walks (None: all) by one group."""

    name: Named
    group: Group
    walks: frozenset[str] | None
    context: str | None

    def is_at(self, walk: str, context: str | None) -> bool:
        """Whether the group means calls in a walk on a context."""
        return (self.walks is None or walk in self.walks) and self.context in (None, context)


def resolve_layout(
    deployment: Deployment, program: Program, rank_count: int, sink: DiagnosticSink
) -> Layout | None:
    """The layout that a file asks for, or None after reporting what is wrong with it."""
    resolver = _Layout(deployment, program, rank_count, sink)
    layout = resolver.resolve()
    return None if resolver.failed else layout


class _Layout:
    def __init__(
        self, deployment: Deployment, program: Program, rank_count: int, sink: DiagnosticSink
    ) -> None:
        self.deployment = deployment
        self.program = program
        self.rank_count = rank_count
        self.sink = sink
        self.failed = False
        # One public name may stand for several nodes, which then go together.
        self.nodes: dict[str, tuple[Node, ...]] = {}
        self.contexts: dict[str, tuple[Node, str]] = {}
        for node in program.nodes:
            for name in (node.name, *node.aliases):
                self.nodes[name] = (*self.nodes.get(name, ()), node)
            for context in node.contexts:
                for name in (f"{node.name}.{context.name}", *context.aliases):
                    self.contexts[name] = node, context.name
        self.folded = dict(program.folded)
        # Several walks too.
        self.walks: dict[str, frozenset[str]] = {}
        for walk in program.walks:
            for name in (walk.name, *walk.aliases):
                self.walks[name] = self.walks.get(name, frozenset()) | {walk.name}
        self.calls = _calls_of(program)
        # Names that an unknown one is near to: it is one mistake, not two.
        self.meant: set[str] = set()

    def report(self, diagnostic: Diagnostic) -> None:
        self.failed = True
        self.sink.report(diagnostic)

    def error(
        self,
        code: str,
        span: Span,
        message: str,
        label: str = "",
        *helps: str,
        labels: tuple[Label, ...] = (),
    ) -> None:
        primary = Label(span=span, text=label)
        self.report(
            Diagnostic(code=code, message=message, primary=primary, labels=labels, helps=helps)
        )

    def resolve(self) -> Layout:
        model = self.deployment.model
        if model.value != self.program.model:
            message = f"the deployment is for the model `{model.value}`"
            self.error("MS0606", model.span, message, f"the spec is of `{self.program.model}`")
            # Its names are those of the other model.
            return Layout(assignments=(), copies=())
        placed: dict[str, list[_Placed]] = {}
        for group in self.deployment.groups:
            self.check_group(group)
            walks = self.walks_of(group)
            for name in group.nodes:
                context = self.contexts[name.value][1] if name.value in self.contexts else None
                for node in self.with_effect(name, self.nodes_of(name), group, walks):
                    placed.setdefault(node.name, []).append(_Placed(name, group, walks, context))
        for node in self.program.nodes:
            if node.name in placed:
                self.check_node(node, placed[node.name])
                self.check_cuts(node, placed[node.name])
                self.check_state(node, placed[node.name])
        self.check_all_placed(placed)
        if self.failed:
            return Layout(assignments=(), copies=())
        self.check_folded(placed)
        nodes = [node for node in self.program.nodes if node.name in placed]
        return Layout(
            assignments=tuple(a for node in nodes for a in _assignments(node, placed[node.name])),
            copies=copies_of(self.deployment.groups, self.report),
        )

    def check_group(self, group: Group) -> None:
        for rank in group.ranks:
            if rank.value >= self.rank_count:
                message = f"rank {rank.value} is out of range"
                label = f"there are {self.rank_count} devices: ranks 0 to {self.rank_count - 1}"
                if self.rank_count == 1:
                    label = "there is one device: rank 0"
                place = self.deployment.devices_span
                labels = (Label(span=place, text="the devices"),) if place is not None else ()
                self.error("MS0612", rank.span, message, label, labels=labels)
        check_sizes(group, self.nodes, self.report)

    def walks_of(self, group: Group) -> frozenset[str] | None:
        if group.walks is None:
            return None
        found: frozenset[str] = frozenset()
        for walk in group.walks:
            if walk.value in self.walks:
                found |= self.walks[walk.value]
                continue
            self.unknown("MS0609", "walk", walk, self.walks)
        return found

    def unknown(self, code: str, what: str, name: Named, known: Iterable[str]) -> None:
        near = did_you_mean(name.value, known)
        self.meant.update(near)
        helps = (f"did you mean {', '.join(f'`{n}`' for n in near)}?",) if near else ()
        message = f"unknown {what} `{name.value}`"
        label = f"`{self.program.model}` has no {what} of this name"
        self.error(code, name.span, message, label, *helps)

    def nodes_of(self, name: Named) -> tuple[Node, ...]:
        if name.value in self.nodes:
            return self.nodes[name.value]
        if name.value in self.folded:
            # A public name that has no node here: it runs where the node does that holds it.
            return ()
        if name.value in self.contexts:
            return (self.contexts[name.value][0],)
        self.unknown("MS0608", "node", name, [*self.nodes, *self.folded, *self.contexts])
        return ()

    def with_effect(
        self,
        name: Named,
        nodes: tuple[Node, ...],
        group: Group,
        walks: frozenset[str] | None,
    ) -> tuple[Node, ...]:
        """The nodes that a walk of the group calls. Names without an effect are warned about."""
        if any(walk.value not in self.walks for walk in group.walks or ()):
            # Reported already, and perhaps the one that calls it.
            return nodes
        context = self.contexts[name.value][1] if name.value in self.contexts else None
        called = {node.name: self.walks_with(node, context) for node in nodes}
        kept = tuple(
            node
            for node in nodes
            if walks is None or not called[node.name] or walks & called[node.name]
        )
        if nodes and not kept:
            message = f"no walk of its group calls node `{name.value}`"
            callers = sorted(frozenset().union(*called.values()))
            listed = ", ".join(f"`{walk}`" for walk in callers)
            self.warn(name.span, message, f"{listed} {'call' if len(callers) > 1 else 'calls'} it")
            return ()
        for walk in group.walks or () if nodes else ():
            meant = self.walks.get(walk.value)
            if meant is None or any(self.is_called(n, meant) for n in group.nodes):
                continue
            message = f"walk `{walk.value}` calls no node of its group"
            self.warn(walk.span, message, "naming it here has no effect")
        return kept

    def walks_with(self, node: Node, context: str | None) -> frozenset[str]:
        """The walks that call a node, or that call it on one context."""
        calls = self.calls.get(node.name, {})
        return frozenset(walk for walk, on in calls.items() if context is None or context in on)

    def warn(self, span: Span, message: str, label: str) -> None:
        primary = Label(span=span, text=label)
        self.sink.report(Diagnostic(code="MS0619", message=message, primary=primary))

    def is_called(self, name: Named, walks: frozenset[str]) -> bool:
        """Whether one of the walks calls what the name stands for."""
        if name.value in self.contexts:
            node, context = self.contexts[name.value]
            return bool(walks & self.walks_with(node, context))
        return any(walks & self.walks_with(n, None) for n in self.nodes.get(name.value, ()))

    def check_node(self, node: Node, entries: list[_Placed]) -> None:
        for index, entry in enumerate(entries):
            for earlier in entries[:index]:
                self.check_apart(earlier, entry)
        first = next((entry for entry in entries if entry.context is None), None)
        if first is None:
            message = f"node `{node.name}` is in no node group"
            label = f"only its context `{entries[0].context}` is"
            help_ = f"add `{(node.aliases or (node.name,))[0]}` to the `node_names` of a group"
            self.error("MS0607", entries[0].name.span, message, label, help_)
            return
        for walk, contexts in sorted(self.calls.get(node.name, {}).items()):
            if all(any(e.is_at(walk, context) for e in entries) for context in contexts):
                continue
            if self.meant & {name for name, walks in self.walks.items() if walk in walks}:
                continue
            message = f"node `{first.name.value}` has no rank in walk `{walk}`"
            label = "no group of this node names the walk"
            help_ = f"add `{walk}` to `graph_walks`, or leave `graph_walks` out"
            self.error("MS0607", first.name.span, message, label, help_)

    def check_folded(self, placed: dict[str, list[_Placed]]) -> None:
        """Warn of a public name without a node that is put on other ranks than what holds it."""
        nodes = {node.name: node for node in self.program.nodes}
        for group in self.deployment.groups:
            for name in group.nodes:
                holder = self.folded.get(name.value)
                if holder is None or holder not in placed:
                    continue
                ranks = {r for e in placed[holder] for r in _group_of(nodes[holder], e)[0]}
                if ranks & set(replicas_of(group)[0]):
                    continue
                listed = ", ".join(map(str, sorted(ranks)))
                message = f"`{name.value}` here changes nothing"
                label = f"it is a part of `{holder}`, which is on rank {listed}"
                primary = Label(span=name.span, text=label)
                self.sink.report(Diagnostic(code="MS0630", message=message, primary=primary))

    def check_state(self, node: Node, entries: list[_Placed]) -> None:
        """Report a node that keeps something of a request on two ranks: it would keep halves."""
        kept = next((op for op in node.ops if op.stateful), None)
        if kept is None or len({_group_of(node, entry)[0] for entry in entries}) < 2:
            return
        message = f"`{entries[-1].name.value}` keeps state of a request, and is on several ranks"
        label = f"op `{kept.name}` is `stateful`"
        self.error("MS0615", entries[-1].name.span, message, label, "place it on one rank")

    def check_cuts(self, node: Node, entries: list[_Placed]) -> None:
        """Report a rank that would hold a node whole and a shard of it, or two shards."""
        held: dict[int, _Placed] = {}
        for entry in entries:
            ranks, tp, sp = _group_of(node, entry)
            for rank in ranks:
                first = held.setdefault(rank, entry)
                if _group_of(node, first) == (ranks, tp, sp):
                    continue
                primary = Label(span=entry.group.ranks_span, text=_words(ranks, tp, sp))
                diagnostic = Diagnostic(
                    code="MS0622",
                    message=f"rank {rank} holds `{entry.name.value}` in two ways",
                    primary=primary,
                    helps=("give both groups the same ranks and sizes, or no rank in common",),
                )
                words = _words(*_group_of(node, first))
                self.report(diagnostic.label(first.group.ranks_span, words))
                return

    def check_apart(self, first: _Placed, entry: _Placed) -> None:
        """Report two groups that mean the same calls."""
        if first.context != entry.context:
            return
        both = (
            None
            if first.walks is None or entry.walks is None
            else sorted(first.walks & entry.walks)
        )
        if both is None or both:
            where = f" in walk `{both[0]}`" if both else ""
            message = f"node `{entry.name.value}` is placed twice{where}"
            primary = Label(span=entry.name.span, text="again")
            diagnostic = Diagnostic(code="MS0613", message=message, primary=primary)
            self.report(diagnostic.label(first.name.span, "first here"))

    def check_all_placed(self, placed: dict[str, list[_Placed]]) -> None:
        """Report what has no rank, and is not on the host: what is never called needs none."""
        called = _called(self.program)
        for node in self.program.nodes:
            if node.engine == "host" or node.name in placed or node.name not in called:
                continue
            if self.meant & {node.name, *node.aliases}:
                continue
            message = f"node `{node.name}` is in no node group"
            help_ = f"add `{(node.aliases or (node.name,))[0]}` to the `node_names` of a group"
            span = self.deployment.groups_span
            self.error("MS0607", span, message, f"none of these names `{node.name}`", help_)


def _group_of(node: Node, entry: _Placed) -> tuple[tuple[int, ...], int, int]:
    """Ranks, tp and sp. A node that stays whole in a group that cuts others is on its leader."""
    tp, sp = cut_of(node, entry.group)
    return replicas_of(entry.group)[0][: tp * sp], tp, sp


def _words(ranks: tuple[int, ...], tp: int, sp: int) -> str:
    if len(ranks) == 1:
        return f"whole on rank {ranks[0]}"
    cuts = [f"tp {tp}"] if tp > 1 else []
    cuts += [f"sp {sp}"] if sp > 1 else []
    return f"cut over ranks {', '.join(map(str, ranks))}: {', '.join(cuts)}"


def _assignments(node: Node, entries: list[_Placed]) -> list[Assignment]:
    """One for each group of a node; one alone where all its groups are the same ranks."""
    found = []
    for entry in entries:
        ranks, tp, sp = _group_of(node, entry)
        walks = tuple(sorted(entry.walks or ()))
        contexts = () if entry.context is None else (entry.context,)
        found.append(
            Assignment(node=node.name, ranks=ranks, walks=walks, contexts=contexts, tp=tp, sp=sp)
        )
    alike = {(assignment.ranks, assignment.tp, assignment.sp) for assignment in found}
    return [replace(found[0], walks=(), contexts=())] if len(alike) == 1 else found


def _called(program: Program) -> frozenset[str]:
    """The nodes that machines call, themselves or in a walk that they run."""
    states = [s for machine in program.machines for s in machine.states]
    own = [statement for state in states for statement in statements_of(state.body)]
    runs = {statement.walk for statement in own if isinstance(statement, Run)}
    walks = [walk for walk in program.walks if walk.name in runs]
    run = [statement for walk in walks for statement in statements_of(walk.body)]
    return frozenset(s.node for s in (*own, *run) if isinstance(s, Call))


def _calls_of(program: Program) -> dict[str, dict[str, frozenset[str | None]]]:
    """By node and walk, the contexts that calls are on."""
    found: dict[str, dict[str, frozenset[str | None]]] = {}
    for walk in program.walks:
        for statement in statements_of(walk.body):
            if isinstance(statement, Call):
                walks = found.setdefault(statement.node, {})
                walks[walk.name] = walks.get(walk.name, frozenset()) | {statement.context}
    return found
