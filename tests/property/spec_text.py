"""Hypothesis strategies for syntax trees of the whole language, and for broken spec texts."""

from functools import partial

from hypothesis import strategies as st

from mstarc.source import Span
from mstarc.syntax import ast
from mstarc.syntax.words import RESERVED

AT = Span(path="made", start=0, end=0)

_WORDS = (
    "a",
    "b1",
    "token",
    "h_2",
    "step",
    "cost",
    "max",
    "size",
    "state",
    "chunk",
    "text",
    "Node",
)
names = st.sampled_from(_WORDS).map(lambda text: ast.Name(span=AT, text=text))
# Names that no value is read by may be any word, reserved ones too.
labels = st.sampled_from((*_WORDS, *sorted(RESERVED))).map(
    lambda text: ast.Name(span=AT, text=text)
)
ints = st.integers(0, 10**12).map(lambda value: ast.Int(span=AT, value=value))
floats = st.sampled_from(("0.5", "1.0e-6", "12.25", "3e8")).map(
    lambda text: ast.Float(span=AT, value=float(text), text=text)
)
strings = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=6).map(
    lambda value: ast.Str(span=AT, value=value)
)
bools = st.booleans().map(lambda value: ast.Bool(span=AT, value=value))


def node(
    kind: type[ast.Node], /, **fields: st.SearchStrategy[object]
) -> st.SearchStrategy[ast.Node]:
    """Nodes of one kind."""
    return st.builds(partial(kind, span=AT), **fields)


def several(
    item: st.SearchStrategy[object], least: int = 0, most: int = 3
) -> st.SearchStrategy[tuple[object, ...]]:
    """Tuples of items."""
    return st.lists(item, min_size=least, max_size=most).map(tuple)


def maybe(item: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """An item, or none."""
    return st.none() | item


docs = maybe(st.sampled_from(("What it does.", "Two\nlines", "with # inside", "")))
op_refs = node(ast.OpRef, node=names, op=labels)


def _larger(inner: st.SearchStrategy[ast.Node]) -> st.SearchStrategy[ast.Node]:
    args = several(node(ast.Arg, name=maybe(labels_of_args), value=inner))
    return st.one_of(
        node(ast.List, items=several(inner)),
        node(ast.Tuple, items=several(inner, 2)),
        node(ast.Unary, op=st.just("-"), operand=inner),
        node(
            ast.Binary, op=st.sampled_from(("+", "-", "*", "/", "//", "%")), left=inner, right=inner
        ),
        node(
            ast.Compare,
            op=st.sampled_from(("==", "!=", "<", "<=", ">", ">=")),
            left=inner,
            right=inner,
        ),
        node(ast.Member, item=inner, container=inner),
        node(ast.And, left=inner, right=inner),
        node(ast.Or, left=inner, right=inner),
        node(ast.Not, operand=inner),
        node(ast.Wants, output=labels_of_args),
        node(ast.Has, subject=labels_of_args),
        node(ast.Attr, base=inner, name=labels),
        node(ast.Index, base=inner, items=several(inner | slices(inner), 1)),
        node(ast.CallExpr, function=names, args=args),
        node(ast.OpCall, target=op_refs, args=args, context=st.none()),
    )


def slices(inner: st.SearchStrategy[ast.Node]) -> st.SearchStrategy[ast.Node]:
    """Slices with ends or without."""
    return node(ast.Slice, lower=maybe(inner), upper=maybe(inner))


labels_of_args = names
exprs = st.recursive(
    names | ints | floats | strings | bools | node(ast.NoneLit), _larger, max_leaves=8
)
sums = names | ints | node(ast.Binary, op=st.sampled_from(("+", "*", "//")), left=names, right=ints)
literals = st.one_of(
    ints,
    floats,
    strings,
    bools,
    node(ast.Unary, op=st.just("-"), operand=ints | floats),
    node(ast.List, items=several(ints | strings)),
)
numbers = ints | floats | node(ast.Unary, op=st.just("-"), operand=ints | floats)

_kinds = st.sampled_from(("text", "image", "audio")).map(lambda t: ast.Name(span=AT, text=t))
_scalars = st.sampled_from(("int", "float", "str", "bool")).map(lambda t: ast.Name(span=AT, text=t))
_plain_types = st.one_of(
    node(ast.ScalarType, name=names),
    node(ast.TensorType, dtype=names, dims=several(sums | node(ast.UnknownDim), 1)),
    node(ast.MediaType, name=names, argument=literals),
    node(ast.PartsType, kinds=several(_kinds, 1)),
    node(ast.ListType, element=_scalars),
)
types = st.recursive(
    _plain_types | node(ast.OptionalType, inner=_plain_types),
    lambda inner: node(
        ast.TupleType, fields=several(node(ast.TypeField, name=labels, type=inner), 1)
    ),
    max_leaves=3,
)
params = several(node(ast.Param, name=names, type=types, default=maybe(literals)))
op_params = several(node(ast.Param, name=labels, type=types, default=maybe(literals)))
results = several(node(ast.Result, name=labels, type=types, condition=maybe(exprs)))
aliases = several(strings, most=2)
settings = several(node(ast.Setting, name=labels, value=exprs, last=maybe(exprs)))

args = several(node(ast.Arg, name=maybe(names), value=exprs))
context_refs = node(ast.ContextRef, name=names, index=maybe(exprs))
context_paths = node(ast.ContextPath, node=names, context=context_refs)
op_calls = node(ast.OpCall, target=op_refs, args=args, context=maybe(context_refs))
run_calls = node(ast.RunCall, walk=names, args=args)
pulls = node(ast.Pull, stream=names, or_none=st.booleans())
policies = node(ast.Policy, name=names, args=args)

_assigns = node(
    ast.Assign,
    targets=several(names | node(ast.Discard), 1),
    value=st.one_of(exprs, op_calls, run_calls, pulls),
)
_both = st.one_of(
    _assigns,
    node(ast.CallStmt, call=op_calls),
    node(ast.RunStmt, call=run_calls),
    node(ast.Fork, target=context_paths, source=context_paths, condition=maybe(exprs)),
    node(ast.Release, target=context_paths),
    node(ast.Mark, stream=names, mark=names),
)
_walk_lines = st.one_of(
    _both,
    node(ast.Send, stream=names, values=several(exprs, 1), condition=maybe(exprs)),
    node(ast.Emit, output=names, value=exprs, condition=maybe(exprs)),
)
_machine_lines = st.one_of(
    _both,
    node(ast.Let, name=names, value=exprs, doc=docs),
    node(ast.Next, target=names, condition=st.none(), otherwise=st.none()),
    node(ast.Next, target=names, condition=exprs, otherwise=maybe(names)),
)


def _blocks(inner: st.SearchStrategy[ast.Node]) -> st.SearchStrategy[ast.Node]:
    return node(ast.Block, statements=several(inner))


def _when(inner: st.SearchStrategy[ast.Node]) -> st.SearchStrategy[ast.Node]:
    blocks = _blocks(inner)
    plain = node(ast.When, condition=exprs, then=blocks, otherwise=maybe(blocks))
    return plain | node(ast.When, condition=exprs, then=blocks, otherwise=plain)


def _walk_blocks(inner: st.SearchStrategy[ast.Node]) -> st.SearchStrategy[ast.Node]:
    bound = node(ast.LoopBound, kind=st.sampled_from(("times", "max")), count=sums)
    return st.one_of(
        _when(inner),
        node(ast.Parallel, body=_blocks(inner)),
        node(
            ast.Loop,
            bound=bound,
            index=maybe(names),
            carries=several(node(ast.Carry, name=names, initial=exprs), most=2),
            collects=several(node(ast.Collect, name=names, value=exprs), most=2),
            while_condition=maybe(exprs),
            body=_blocks(inner),
            until_condition=maybe(exprs),
        ),
    )


def _machine_blocks(inner: st.SearchStrategy[ast.Node]) -> st.SearchStrategy[ast.Node]:
    blocks = _blocks(inner)
    each = {"policy": maybe(policies), "until": maybe(names), "body": blocks, "last": maybe(names)}
    return st.one_of(
        _when(inner),
        node(ast.For, variable=names, source=names, body=blocks),
        node(
            ast.Match,
            subject=names,
            arms=several(node(ast.Arm, kind=names, binding=names, body=blocks), 1),
        ),
        node(ast.Each, streams=several(names, 1, 1), items=several(names, 1, 1), **each),
        node(ast.Each, streams=several(names, 2, 2), items=several(names, 2, 2), **each),
    )


walk_statements = st.recursive(_walk_lines, _walk_blocks, max_leaves=4)
machine_statements = st.recursive(_machine_lines, _machine_blocks, max_leaves=4)

config_items = node(
    ast.ConfigItem,
    name=names,
    type=types,
    default=maybe(literals),
    source=maybe(strings),
    aliases=aliases,
    doc=docs,
)
_quantities = node(ast.Quantity, at_least=ints, turns=st.booleans()) | node(
    ast.Quantity, at_least=st.none(), turns=st.just(True)
)
_domains = node(ast.RangeDomain, low=numbers, high=numbers) | node(
    ast.ChoiceDomain, choices=several(literals, 1)
)
fields = st.one_of(
    node(
        ast.InField,
        name=names,
        type=types,
        quantity=maybe(_quantities),
        optional=st.booleans(),
        doc=docs,
    ),
    node(
        ast.OutField, name=names, type=types, optional=st.booleans(), via=maybe(op_refs), doc=docs
    ),
    node(
        ast.OptField,
        name=names,
        type=types,
        default=maybe(literals),
        domain=maybe(_domains),
        doc=docs,
    ),
)
effects = st.one_of(
    node(ast.Attends, mask=names, argument=maybe(sums)),
    node(
        ast.Writes,
        contexts=several(st.sampled_from("ab").map(lambda text: ast.Name(span=AT, text=text))),
    ),
    node(ast.Reads, contexts=st.just(())),
    node(ast.Advance, amount=sums),
    node(ast.Receptive, items=ints),
    node(ast.UseSampler, name=names),
    node(ast.Stateful),
    node(ast.Cost, settings=settings),
)
ops = node(
    ast.OpDecl, name=labels, params=op_params, results=results, effects=several(effects), doc=docs
)
_sizes = node(ast.ByteSize, amount=ints | floats, unit=names)
_contexts = node(
    ast.ContextDecl, name=names, count=maybe(exprs), cross=maybe(sums), aliases=aliases
)
# A sampler's name that is also the word of an item would be read as that item.
_plain_names = st.sampled_from(("a", "b")).map(lambda text: ast.Name(span=AT, text=text))
node_items = st.one_of(
    node(ast.ImplItem, path=strings),
    node(ast.WeightsItem, source=strings, under=maybe(strings), size=maybe(_sizes)),
    node(ast.ShardsItem, kinds=several(_plain_names, 1)),
    node(ast.KvItem, settings=settings),
    node(ast.SampleItem, name=maybe(_plain_names), settings=settings),
    node(ast.ContextsItem, contexts=several(_contexts, 1)),
    ops,
)
_states = node(ast.StateDecl, name=labels, body=_blocks(machine_statements), doc=docs)
declarations = st.one_of(
    node(ast.ConfigDecl, items=several(config_items), doc=docs),
    node(ast.RequestDecl, fields=several(fields), doc=docs),
    node(ast.NeedDecl, condition=exprs, doc=docs),
    node(ast.Let, name=names, value=exprs, doc=docs),
    node(ast.TableDecl, name=names, index=names, length=sums, value=exprs, doc=docs),
    node(
        ast.VariantDecl,
        name=strings,
        source=maybe(strings),
        without=several(_plain_names),
        settings=settings,
        doc=docs,
    ),
    node(ast.FoldedDecl, alias=strings, node=names, doc=docs),
    node(
        ast.NodeDecl, name=names, engine=names, aliases=aliases, items=several(node_items), doc=docs
    ),
    node(
        ast.StreamDecl,
        name=names,
        item=types,
        marks=several(_plain_names),
        policy=policies,
        tail=maybe(node(ast.Tail, kind=names, value=maybe(literals))),
        empty=maybe(node(ast.Empty, kind=names)),
        doc=docs,
    ),
    node(
        ast.WalkDecl,
        name=labels,
        aliases=aliases,
        params=params,
        results=results,
        body=_blocks(walk_statements),
        doc=docs,
    ),
    node(ast.MachineDecl, name=names, condition=maybe(exprs), states=several(_states, 1), doc=docs),
)
specs = node(
    ast.Spec,
    version=st.just(1),
    model=node(ast.ModelDecl, name=names, source=maybe(strings), doc=docs),
    declarations=several(declarations, most=4),
)
