"""Which node runs on which ranks, by a deployment: its names looked up in the program."""

from collections.abc import Iterable

from mstarc.deployment.model import Deployment, Group, Named
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label, did_you_mean
from mstarc.ir.exprs import Const
from mstarc.ir.graph import Call, Node, Program
from mstarc.ir.walking import statements_of
from mstarc.records import dataclass
from mstarc.source import Span


@dataclass(frozen=True, slots=True)
class _Placed:
    """A node in some walks (None: all) by one group."""

    name: Named
    group: Group
    walks: frozenset[str] | None


def resolve_layout(
    deployment: Deployment, program: Program, rank_count: int, sink: DiagnosticSink
) -> dict[str, tuple[int, ...]] | None:
    """Ranks of each node that the file names, or None after reporting what is wrong.

    Nodes of engine `host` may be left out.
    """
    layout = _Layout(deployment, program, rank_count, sink)
    ranks = layout.resolve()
    return None if layout.failed else ranks


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
        self.contexts: dict[str, str] = {}
        for node in program.nodes:
            for name in (node.name, *node.aliases):
                self.nodes[name] = (*self.nodes.get(name, ()), node)
            for context in node.contexts:
                self.contexts.update((alias, node.name) for alias in context.aliases)
        self.folded = dict(program.folded)
        self.walks = {
            name: walk.name for walk in program.walks for name in (walk.name, *walk.aliases)
        }
        self.called_in = _called_in(program)
        # Names that an unknown one is near to: it is one mistake, not two.
        self.meant: set[str] = set()

    def error(
        self,
        code: str,
        span: Span,
        message: str,
        label: str = "",
        *helps: str,
        labels: tuple[Label, ...] = (),
    ) -> None:
        self.failed = True
        primary = Label(span=span, text=label)
        self.sink.report(
            Diagnostic(code=code, message=message, primary=primary, labels=labels, helps=helps)
        )

    def resolve(self) -> dict[str, tuple[int, ...]]:
        model = self.deployment.model
        if model.value != self.program.model:
            message = f"the deployment is for the model `{model.value}`"
            self.error("MS0606", model.span, message, f"the spec is of `{self.program.model}`")
        placed: dict[str, list[_Placed]] = {}
        for group in self.deployment.groups:
            self.check_group(group)
            walks = self.walks_of(group)
            for name in group.nodes:
                for node in self.with_effect(name, self.nodes_of(name), group, walks):
                    placed.setdefault(node.name, []).append(_Placed(name, group, walks))
        for node in self.program.nodes:
            if node.name in placed:
                self.check_node(node, placed[node.name])
        self.check_all_placed(placed)
        return {
            name: tuple(rank.value for rank in entries[0].group.ranks)
            for name, entries in placed.items()
        }

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
        tp = group.tp_size.value if group.tp_size is not None else 1
        sp = group.sp_size.value if group.sp_size is not None else 1
        if len(group.ranks) % (tp * sp):
            message = f"{len(group.ranks)} ranks cannot be cut into groups of {tp * sp}"
            sizes = f"tp_size {tp} times sp_size {sp}" if sp > 1 else f"tp_size is {tp}"
            label = f"{sizes}, and {len(group.ranks)} % {tp * sp} = {len(group.ranks) % (tp * sp)}"
            self.error("MS0614", group.ranks_span, message, label)
            return
        if tp > 1 and group.tp_size is not None:
            if not self.is_refused(group, "tensor") and not self.splits_heads(group, tp):
                self.not_built(group.tp_size.span, f"tensor parallel over {tp} ranks")
        elif sp > 1 and group.sp_size is not None:
            if not self.is_refused(group, "sequence"):
                self.not_built(group.sp_size.span, f"sequence parallel over {sp} ranks")
        elif len(group.ranks) > 1:
            self.not_built(group.ranks_span, f"a node on {len(group.ranks)} ranks")

    def is_refused(self, group: Group, way: str) -> bool:
        """Whether a node of the group cannot be cut this way: reported."""
        known = [name for name in group.nodes if name.value in self.nodes]
        rigid = [n for n in known if not any(way in node.shards for node in self.nodes[n.value])]
        size = "tp_size" if way == "tensor" else "sp_size"
        for name in rigid:
            shards = any(node.shards for node in self.nodes[name.value])
            message = f"node `{name.value}` cannot be cut over ranks"
            label = f"the spec gives it no `shards{' ' + way if shards else ''}`"
            help_ = f"give it `{size}: 1`, or state in the spec what it `shards`"
            number = group.tp_size if way == "tensor" else group.sp_size
            cut = (Label(span=number.span, text="the cut"),) if number is not None else ()
            self.error("MS0616", name.span, message, label, help_, labels=cut)
        return bool(rigid)

    def splits_heads(self, group: Group, tp: int) -> bool:
        """Whether ranks would get unequal numbers of a node's heads: reported.

        Fewer heads than ranks are copied, as long as each goes to as many ranks.
        """
        assert group.tp_size is not None
        for name in group.nodes:
            for node in self.nodes.get(name.value, ()):
                heads = dict(node.kv).get("heads")
                count = heads.value if isinstance(heads, Const) else None
                if not isinstance(count, int) or not node.shards or not (count % tp and tp % count):
                    continue
                message = f"{count} heads of `{name.value}` cannot be shared by {tp} ranks"
                label = f"{count} % {tp} = {count % tp}"
                fitting = [n for n in range(2, tp + 1) if count % n == 0]
                help_ = f"take `tp_size: {fitting[-1] if fitting else 1}`"
                self.error("MS0620", group.tp_size.span, message, label, help_)
                return True
        return False

    def not_built(self, span: Span, what: str) -> None:
        message = f"{what} is not built yet"
        help_ = "put each node whole on one rank, the same in all its walks"
        self.error("MS0615", span, message, "this version places nodes whole", help_)

    def walks_of(self, group: Group) -> frozenset[str] | None:
        if group.walks is None:
            return None
        found: list[str] = []
        for walk in group.walks:
            if walk.value in self.walks:
                found.append(self.walks[walk.value])
                continue
            self.unknown("MS0609", "walk", walk, self.walks)
        return frozenset(found)

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
            owner = self.contexts[name.value]
            self.not_built(name.span, f"a rank of its own for a context of `{owner}`")
            return ()
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
        called = {node.name: self.called_in.get(node.name, frozenset()) for node in nodes}
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
            walk_name = self.walks.get(walk.value)
            if walk_name is None or any(self.is_called(n, walk_name) for n in group.nodes):
                continue
            message = f"walk `{walk.value}` calls no node of its group"
            self.warn(walk.span, message, "naming it here has no effect")
        return kept

    def warn(self, span: Span, message: str, label: str) -> None:
        primary = Label(span=span, text=label)
        self.sink.report(Diagnostic(code="MS0619", message=message, primary=primary))

    def is_called(self, name: Named, walk: str) -> bool:
        nodes = self.nodes.get(name.value, ())
        return any(walk in self.called_in.get(node.name, frozenset()) for node in nodes)

    def check_node(self, node: Node, entries: list[_Placed]) -> None:
        first = entries[0]
        for entry in entries[1:]:
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
                self.sink.report(diagnostic.label(first.name.span, "first here"))
                self.failed = True
            elif _ranks(entry) != _ranks(first):
                what = f"node `{entry.name.value}` on different ranks by walk"
                self.not_built(entry.group.ranks_span, what)
        if any(entry.walks is None for entry in entries):
            return
        covered = {walk for entry in entries for walk in entry.walks or ()}
        for walk in sorted(self.called_in.get(node.name, frozenset()) - covered):
            if self.meant & {name for name, own in self.walks.items() if own == walk}:
                continue
            message = f"node `{first.name.value}` has no rank in walk `{walk}`"
            label = "no group of this node names the walk"
            help_ = f"add `{walk}` to `graph_walks`, or leave `graph_walks` out"
            self.error("MS0607", first.name.span, message, label, help_)

    def check_all_placed(self, placed: dict[str, list[_Placed]]) -> None:
        for node in self.program.nodes:
            if node.engine == "host" or node.name in placed:
                continue
            if self.meant & {node.name, *node.aliases}:
                continue
            message = f"node `{node.name}` is in no node group"
            help_ = f"add `{(node.aliases or (node.name,))[0]}` to the `node_names` of a group"
            span = self.deployment.groups_span
            self.error("MS0607", span, message, f"none of these names `{node.name}`", help_)


def _ranks(entry: _Placed) -> tuple[int, ...]:
    return tuple(rank.value for rank in entry.group.ranks)


def _called_in(program: Program) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for walk in program.walks:
        for statement in statements_of(walk.body):
            if isinstance(statement, Call):
                found.setdefault(statement.node, set()).add(walk.name)
    return {name: frozenset(walks) for name, walks in found.items()}
