"""The ranks of a node group: whether nodes can be cut so, and which of them are replicas.

ranks: [0, 1, 2, 3], tp_size: 2   ->   ranks 0 and 1 hold the node, 2 and 3 a copy of both
"""

from collections.abc import Callable, Mapping, Sequence

from mstarc.deployment.model import Group, Named
from mstarc.diagnostics import Diagnostic, Label
from mstarc.ir.decisions import Copy
from mstarc.ir.exprs import Const
from mstarc.ir.graph import Node

Report = Callable[[Diagnostic], None]
Nodes = Mapping[str, Sequence[Node]]


def sizes_of(group: Group) -> tuple[int, int]:
    """tp and sp of a group."""
    tp = group.tp_size.value if group.tp_size is not None else 1
    sp = group.sp_size.value if group.sp_size is not None else 1
    return tp, sp


def replicas_of(group: Group) -> tuple[tuple[int, ...], ...]:
    """The devices of each replica, the lowest first; the first replica is that of the IR."""
    tp, sp = sizes_of(group)
    ranks = [rank.value for rank in group.ranks]
    size = tp * sp
    return tuple(sorted(tuple(sorted(ranks[i : i + size])) for i in range(0, len(ranks), size)))


def cut_of(node: Node, group: Group) -> tuple[int, int]:
    """tp and sp of a node in its group: of several that share a name, some may stay whole."""
    tp, sp = sizes_of(group)
    whole = (tp > 1 and "tensor" not in node.shards) or (sp > 1 and "sequence" not in node.shards)
    return (1, 1) if whole else (tp, sp)


def copies_of(groups: Sequence[Group], report: Report) -> tuple[Copy, ...]:
    """The replicas of all ranks. Groups that share a rank must share its replicas."""
    found: dict[int, tuple[tuple[int, ...], Group]] = {}
    for group in groups:
        first, *others = replicas_of(group)
        for place, rank in enumerate(first):
            devices = tuple(other[place] for other in others)
            known, before = found.setdefault(rank, (devices, group))
            if known != devices:
                _report_unlike(rank, before, group, report)
                return ()
    return tuple(
        Copy(rank=rank, copy=number, device=device)
        for rank in sorted(found)
        for number, device in enumerate(found[rank][0], 1)
    )


def _report_unlike(rank: int, before: Group, group: Group, report: Report) -> None:
    one, other = (", ".join(str(r.value) for r in g.ranks) for g in (before, group))
    diagnostic = Diagnostic(
        code="MS0621",
        message=f"rank {rank} is copied for one group and not for another",
        primary=Label(span=group.ranks_span, text=f"ranks {other}"),
        notes=("a replica is a copy of all that its rank holds",),
        helps=(f"give both groups the ranks [{one}], or this one a rank of its own",),
    )
    report(diagnostic.label(before.ranks_span, f"ranks {one}"))


def check_sizes(group: Group, nodes: Nodes, report: Report) -> None:
    """Report a group whose nodes cannot be cut as it says."""
    tp, sp = sizes_of(group)
    count, size = len(group.ranks), tp * sp
    if count % size:
        message = f"{count} ranks cannot be cut into groups of {size}"
        sizes = f"tp_size {tp} times sp_size {sp}" if sp > 1 else f"tp_size is {tp}"
        text = f"{sizes}, and {count} % {size} = {count % size}"
        label = Label(span=group.ranks_span, text=text)
        report(Diagnostic(code="MS0614", message=message, primary=label))
        return
    rigid = tp > 1 and _is_rigid(group, "tensor", nodes, report)
    rigid = (sp > 1 and _is_rigid(group, "sequence", nodes, report)) or rigid
    if size > 1 and not rigid:
        _check_heads(group, size, nodes, report)


def _is_rigid(group: Group, way: str, nodes: Nodes, report: Report) -> bool:
    """Whether a node of the group cannot be cut this way: reported."""
    known = [name for name in group.nodes if name.value in nodes]
    rigid = [name for name in known if not any(way in n.shards for n in nodes[name.value])]
    number = group.tp_size if way == "tensor" else group.sp_size
    for name in rigid:
        report(
            _rigid(name, way, any(node.shards for node in nodes[name.value])).label(
                number.span if number is not None else group.span, "the cut"
            )
        )
    return bool(rigid)


def _rigid(name: Named, way: str, shards: bool) -> Diagnostic:
    size = "tp_size" if way == "tensor" else "sp_size"
    text = f"the spec gives it no `shards{' ' + way if shards else ''}`"
    return Diagnostic(
        code="MS0616",
        message=f"node `{name.value}` cannot be cut over ranks",
        primary=Label(span=name.span, text=text),
        helps=(f"give it `{size}: 1`, or state in the spec what it `shards`",),
    )


def _check_heads(group: Group, size: int, nodes: Nodes, report: Report) -> None:
    """Report where ranks would get unequal numbers of a node's heads.

    Fewer heads than ranks are copied, as long as each goes to as many ranks. Ranks that share the
    rows of a request each attend all of them with some of the heads.
    """
    number = group.tp_size if sizes_of(group)[0] > 1 else group.sp_size
    assert number is not None
    for name in group.nodes:
        for node in nodes.get(name.value, ()):
            heads = dict(node.kv).get("heads")
            count = heads.value if isinstance(heads, Const) else None
            if not isinstance(count, int) or cut_of(node, group) == (1, 1):
                continue
            if not (count % size and size % count):
                continue
            fitting = [n for n in range(2, size + 1) if count % n == 0]
            key = "tp_size" if number is group.tp_size else "sp_size"
            help_ = f"take `{key}: {fitting[-1] if fitting else 1}`"
            if 1 not in sizes_of(group):
                help_ = f"take sizes whose product divides {count}"
            text = f"{count} % {size} = {count % size}"
            report(
                Diagnostic(
                    code="MS0620",
                    message=f"{count} heads of `{name.value}` cannot be shared by {size} ranks",
                    primary=Label(span=number.span, text=text),
                    helps=(help_,),
                )
            )
            return
