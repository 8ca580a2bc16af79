"""Declarations, items and statements, each as the text of one line, split where lines align."""

import re
from typing import assert_never

from mstarc.syntax import ast
from mstarc.syntax.print_exprs import (
    args_text,
    expr_text,
    names_text,
    op_text,
    params_text,
    path_text,
    results_text,
    rhs_text,
    run_text,
    str_text,
    type_text,
)

Cells = tuple[str, ...]
"""The pieces of a line: neighbours of the same kind have the starts of their pieces in line."""


def line_text(cells: Cells) -> str:
    """Pieces as one line of its own."""
    return " ".join(cell for cell in cells if cell)


def braced(header: str, items: list[str]) -> str:
    """A header and its block on one line."""
    return f"{header} {{ {'  '.join(items)} }}" if items else f"{header} {{ }}"


def config_item_cells(item: ast.ConfigItem) -> Cells:
    """`name`, `: type`, `= default`, `from "key"`, `as "public name"`."""
    default = "" if item.default is None else f"= {expr_text(item.default)}"
    source = "" if item.source is None else f"from {str_text(item.source)}"
    aliases = aliases_text(item.aliases).strip()
    return item.name.text, f": {type_text(item.type)}", default, source, aliases


def field_cells(item: ast.RequestField) -> Cells:
    """`opt name`, `: type`, `= default`, `in domain`; inputs and outputs end after the second."""
    type_ = f": {type_text(item.type)}"
    match item:
        case ast.InField():
            rest = [type_, _quantity(item.quantity), "optional" if item.optional else ""]
            return f"in  {item.name.text}", " ".join(text for text in rest if text)
        case ast.OutField():
            via = "" if item.via is None else f"via {op_text(item.via)}"
            rest = [type_, "optional" if item.optional else "", via]
            return f"out {item.name.text}", " ".join(text for text in rest if text)
        case ast.OptField():
            default = "" if item.default is None else f"= {expr_text(item.default)}"
            return f"opt {item.name.text}", type_, default, _domain(item.domain)
        case _:
            assert_never(item)


def _quantity(node: ast.Quantity | None) -> str:
    if node is None:
        return ""
    least = "" if node.at_least is None else f"at least {node.at_least.value}"
    return " ".join(text for text in (least, "turns" if node.turns else "") if text)


def _domain(node: ast.RangeDomain | ast.ChoiceDomain | None) -> str:
    match node:
        case None:
            return ""
        case ast.RangeDomain():
            return f"in {expr_text(node.low)} .. {expr_text(node.high)}"
        case ast.ChoiceDomain():
            return f"in [{', '.join(map(expr_text, node.choices))}]"
        case _:
            assert_never(node)


def let_cells(node: ast.Let) -> Cells:
    """`let name`, `= value`."""
    return f"let {node.name.text}", f"= {expr_text(node.value)}"


def op_cells(node: ast.OpDecl) -> Cells:
    """`op name(params)`, `-> (results)`, its effects."""
    effects = "  ".join(map(_effect, node.effects))
    head = f"op {node.name.text}{params_text(node.params)}"
    return head, results_text(node.results), f" {effects}" if effects else ""


def _effect(node: ast.Effect) -> str:
    match node:
        case ast.Attends():
            argument = "" if node.argument is None else f"({expr_text(node.argument)})"
            return f"attends {node.mask.text}{argument}"
        case ast.Writes():
            return f"writes {names_text(node.contexts)}".rstrip()
        case ast.Reads():
            return f"reads {names_text(node.contexts)}".rstrip()
        case ast.Advance():
            return f"advance {expr_text(node.amount)}"
        case ast.Receptive():
            return f"receptive {node.items.value}"
        case ast.UseSampler():
            return f"sampler {node.name.text}"
        case ast.Stateful():
            return "stateful"
        case ast.Cost():
            return f"cost {settings_text(node.settings)}"
        case _:
            assert_never(node)


def settings_text(settings: tuple[ast.Setting, ...]) -> str:
    """`{ name = value, … }`."""
    texts = [f"{setting.name.text} = {setting_value_text(setting)}" for setting in settings]
    return f"{{ {', '.join(texts)} }}" if texts else "{ }"


def setting_value_text(setting: ast.Setting) -> str:
    """`value`, `first .. last`."""
    value = expr_text(setting.value)
    return value if setting.last is None else f"{value} .. {expr_text(setting.last)}"


def settings_header(item: ast.KvItem | ast.SampleItem) -> str:
    """`kv`, `sample`, `sample name`."""
    if isinstance(item, ast.KvItem):
        return "kv"
    return "sample" if item.name is None else f"sample {item.name.text}"


def node_item_text(item: ast.NodeItem) -> str:
    """An item of a node."""
    match item:
        case ast.ImplItem():
            return f"impl {str_text(item.path)}"
        case ast.WeightsItem():
            under = "" if item.under is None else f" under {str_text(item.under)}"
            size = ""
            if item.size is not None:
                size = f" size {expr_text(item.size.amount)} {item.size.unit.text}"
            return f"weights {str_text(item.source)}{under}{size}"
        case ast.ShardsItem():
            return f"shards {names_text(item.kinds)}"
        case ast.KvItem() | ast.SampleItem():
            return f"{settings_header(item)} {settings_text(item.settings)}"
        case ast.ContextsItem():
            return f"contexts {', '.join(map(_context, item.contexts))}"
        case ast.OpDecl():
            return line_text(op_cells(item))
        case _:
            assert_never(item)


def _context(node: ast.ContextDecl) -> str:
    count = "" if node.count is None else f"[{expr_text(node.count)}]"
    cross = "" if node.cross is None else f" cross({expr_text(node.cross)})"
    return f"{node.name.text}{count}{cross}{aliases_text(node.aliases)}"


def aliases_text(aliases: tuple[ast.Str, ...]) -> str:
    """` as "alias"` for each."""
    return "".join(f" as {str_text(alias)}" for alias in aliases)


def stream_text(node: ast.StreamDecl) -> str:
    """A stream's declaration."""
    marks = f" marks {names_text(node.marks)}" if node.marks else ""
    tail = ""
    if node.tail is not None:
        value = "" if node.tail.value is None else f"({expr_text(node.tail.value)})"
        tail = f" tail {node.tail.kind.text}{value}"
    empty = "" if node.empty is None else f" empty {node.empty.kind.text}"
    head = f"stream {node.name.text} : {type_text(node.item)}"
    return f"{head}{marks} chunk {policy_text(node.policy)}{tail}{empty}"


def policy_text(node: ast.Policy) -> str:
    """`fixed(1)`."""
    return f"{node.name.text}({args_text(node.args)})"


def header_text(decl: ast.NodeDecl | ast.WalkDecl | ast.MachineDecl | ast.StateDecl) -> str:
    """What stands before a declaration's brace."""
    match decl:
        case ast.NodeDecl():
            return f"node {decl.name.text} : {decl.engine.text}{aliases_text(decl.aliases)}"
        case ast.WalkDecl():
            results = results_text(decl.results)
            aliases = f"{aliases_text(decl.aliases)} " if decl.aliases else ""
            params = params_text(decl.params)
            return f"walk {decl.name.text}{aliases}{params}{f' {results}' if results else ''}"
        case ast.MachineDecl():
            when = "" if decl.condition is None else f" when {expr_text(decl.condition)}"
            return f"machine {decl.name.text}{when}"
        case ast.StateDecl():
            return f"state {decl.name.text}"
        case _:
            assert_never(decl)


def assign_cells(node: ast.Assign) -> Cells:
    """The targets, `= value`."""
    targets = ", ".join(t.text if isinstance(t, ast.Name) else "_" for t in node.targets)
    return targets, f"= {rhs_text(node.value)}"


def loop_header(node: ast.Loop) -> str:
    """What stands before a loop's block."""
    count = expr_text(node.bound.count)
    if node.bound.kind == "times" and re.match(r"max\b", count):
        count = f"({count})"  # else the word of a bound
    parts = ["loop", f"{count} times" if node.bound.kind == "times" else f"max {count}"]
    if node.index is not None:
        parts.append(f"as {node.index.text}")
    if node.carries:
        carried = (f"{carry.name.text} = {expr_text(carry.initial)}" for carry in node.carries)
        parts.append(f"carry {', '.join(carried)}")
    if node.collects:
        collected = (f"{item.name.text} = {expr_text(item.value)}" for item in node.collects)
        parts.append(f"collect {', '.join(collected)}")
    if node.while_condition is not None:
        parts.append(f"while {expr_text(node.while_condition)}")
    return " ".join(parts)


def each_header(node: ast.Each) -> str:
    """What stands before the block of an `each`."""
    source = names_text(node.streams)
    if len(node.streams) > 1:
        source = f"zip({source})"
    names = node.items if node.last is None else (*node.items, node.last)
    policy = "" if node.policy is None else f" chunk {policy_text(node.policy)}"
    until = "" if node.until is None else f" until {node.until.text}"
    return f"each {source} as {names_text(names)}{policy}{until}"


def is_bare_run(body: ast.Block) -> bool:
    """Whether the body of an `each` is a `run` that was written without braces."""
    match body.statements:
        case (ast.RunStmt() as only,):
            return only.span == body.span
    return False


def condition_text(node: ast.Expr | None) -> str:
    """` if condition`, or nothing."""
    return "" if node is None else f" if {expr_text(node)}"


def stmt_text(node: ast.Stmt) -> str:
    """A statement on one line, its blocks included."""
    match node:
        case ast.Assign():
            return line_text(assign_cells(node))
        case ast.Let():
            return line_text(let_cells(node))
        case ast.CallStmt():
            return expr_text(node.call)
        case ast.RunStmt():
            return run_text(node.call)
        case ast.Send():
            values = ", ".join(map(expr_text, node.values))
            return f"send {node.stream.text} <- {values}{condition_text(node.condition)}"
        case ast.Emit():
            value = f"{expr_text(node.value)}{condition_text(node.condition)}"
            return f"emit {node.output.text} <- {value}"
        case ast.Fork():
            source = f"{path_text(node.source)}{condition_text(node.condition)}"
            return f"fork {path_text(node.target)} = {source}"
        case ast.Release():
            return f"release {path_text(node.target)}"
        case ast.Mark():
            return f"mark {node.stream.text}.{node.mark.text}"
        case ast.Next():
            otherwise = "" if node.otherwise is None else f" else {node.otherwise.text}"
            return f"next {node.target.text}{condition_text(node.condition)}{otherwise}"
        case ast.When():
            return _when_text(node)
        case ast.Match():
            return braced(f"match {node.subject.text}", [arm_text(arm) for arm in node.arms])
        case ast.Each() if is_bare_run(node.body):
            return f"{each_header(node)} {stmt_text(node.body.statements[0])}"
        case ast.Loop():
            return f"{block_text(loop_header(node), node.body)}{until_text(node)}"
        case ast.Parallel() | ast.For() | ast.Each():
            return block_text(block_header(node), node.body)
        case _:
            assert_never(node)


def block_header(node: ast.Loop | ast.Parallel | ast.For | ast.Each) -> str:
    """What stands before the block of a statement that has one."""
    match node:
        case ast.Loop():
            return loop_header(node)
        case ast.Parallel():
            return "parallel"
        case ast.For():
            return f"for {node.variable.text} in {node.source.text}"
        case ast.Each():
            return each_header(node)
        case _:
            assert_never(node)


def until_text(node: ast.Loop) -> str:
    """What stands after a loop's block."""
    return "" if node.until_condition is None else f" until {expr_text(node.until_condition)}"


def block_text(header: str, block: ast.Block) -> str:
    """A header and a block on one line."""
    return braced(header, [stmt_text(statement) for statement in block.statements])


def arm_text(arm: ast.Arm) -> str:
    """An arm of a `match` on one line."""
    return block_text(arm_header(arm), arm.body)


def arm_header(arm: ast.Arm) -> str:
    """`kind(name)`."""
    return f"{arm.kind.text}({arm.binding.text})"


def _when_text(node: ast.When) -> str:
    text = block_text(f"when {expr_text(node.condition)}", node.then)
    match node.otherwise:
        case None:
            return text
        case ast.When():
            return f"{text} else {_when_text(node.otherwise)}"
        case ast.Block():
            return f"{text} {block_text('else', node.otherwise)}"
        case _:
            assert_never(node.otherwise)


def decl_text(decl: ast.Decl) -> str:
    """A declaration on one line."""
    match decl:
        case ast.ConfigDecl():
            return braced("config", [line_text(config_item_cells(item)) for item in decl.items])
        case ast.RequestDecl():
            return braced("request", [line_text(field_cells(item)) for item in decl.fields])
        case ast.NeedDecl():
            return f"need {expr_text(decl.condition)}"
        case ast.Let():
            return line_text(let_cells(decl))
        case ast.TableDecl():
            index = f"{decl.index.text} in {expr_text(decl.length)}"
            return f"table {decl.name.text}[{index}] = {expr_text(decl.value)}"
        case ast.VariantDecl():
            source = "" if decl.source is None else f" from {str_text(decl.source)}"
            without = f" without {names_text(decl.without)}" if decl.without else ""
            values = f" {settings_text(decl.settings)}" if decl.settings else ""
            return f"variant {str_text(decl.name)}{source}{without}{values}"
        case ast.FoldedDecl():
            return f"folded {str_text(decl.alias)} into {decl.node.text}"
        case ast.NodeDecl():
            return braced(header_text(decl), [node_item_text(item) for item in decl.items])
        case ast.StreamDecl():
            return stream_text(decl)
        case ast.WalkDecl():
            return block_text(header_text(decl), decl.body)
        case ast.MachineDecl():
            states = [block_text(header_text(state), state.body) for state in decl.states]
            return braced(header_text(decl), states)
        case _:
            assert_never(decl)
