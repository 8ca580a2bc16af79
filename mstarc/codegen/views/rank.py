"""The module of one rank: a class with a method a step, and the table of steps (`step_table`)."""

from collections.abc import Set
from itertools import zip_longest

from mstarc.codegen.bodies import BodyWriter
from mstarc.codegen.expressions import constant_name
from mstarc.codegen.pyrepr import LINE_LENGTH, layout_call, layout_tuple, pyrepr, two_columns
from mstarc.codegen.views.build_method import build_lines, release_lines
from mstarc.codegen.views.docs import (
    numbered,
    step_doc,
    step_words,
    wrapped_doc,
    wrapped_statements,
)
from mstarc.codegen.views.machines import origin
from mstarc.codegen.views.step_table import StepTable, method_name
from mstarc.diagnostics import InternalError
from mstarc.ir.exprs import Binary, Const, Expr, LetRef, LoopIndex, Option, TableItem
from mstarc.plan.naming import identifier
from mstarc.plan.plan import (
    BranchPlan,
    JoinPlan,
    MarkPlan,
    PlacedPlan,
    Plan,
    RankPlan,
    RunStep,
    SpreadPlan,
    Step,
)
from mstarc.plan.signatures import Signatures
from mstarc.records import dataclass

# What a step does has at least so many columns in the table of steps.
_LEAST_ROOM = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A method of the class; `section` is the comment above it, where one begins."""

    section: str
    head: str
    doc: tuple[str, ...]
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankView:
    """Everything in `rank<N>.py`."""

    title: str
    origin: str
    table: tuple[str, ...]
    api_names: tuple[str, ...]
    machine_import: str
    numbers: tuple[str, ...]
    class_name: str
    doc: tuple[str, ...]
    rank: int
    build: tuple[str, ...]
    release: tuple[str, ...]
    methods: tuple[Method, ...]
    steps: str


def rank_view(plan: Plan, placed: PlacedPlan, rank: RankPlan) -> RankView:
    """The view of one rank of one placement."""
    return _RankWriter(plan, placed, rank).view()


class _RankWriter:
    def __init__(self, plan: Plan, placed: PlacedPlan, rank: RankPlan) -> None:
        self.plan = plan
        self.placed = placed
        self.rank = rank
        self.class_name = f"Rank{rank.rank}"
        self.names = {step.id: step.name for r in placed.ranks for step in r.steps}
        configured = {constant_name(name) for name, _ in plan.program.config}
        self.constants = {step.id: _constant(step, configured) for step in rank.steps}
        self.bodies = BodyWriter(
            rank=rank,
            variables={variable.name: variable for variable in placed.variables},
            signatures=Signatures(placed.program),
        )
        self.api: set[str] = {"Builder", "Rank"}
        self.table = StepTable(class_name=self.class_name, constants=self.constants, api=self.api)

    def view(self) -> RankView:
        methods = self._methods()
        steps = [self.table.row(step) for step in self.rank.steps]
        build, names, api = build_lines(self.rank)
        self.api |= api
        return RankView(
            title=f"{self.plan.program.model} on {self.placed.placement.name}, "
            f"rank {self.rank.rank} of {_of(self.placed)}: "
            f"{'all that this process does, step by step' if steps else 'a shard, and no steps'}.",
            origin=origin(self.plan),
            table=self._overview(),
            api_names=tuple(sorted(self.api, key=_import_order)),
            machine_import=_import(sorted(self.bodies.used | names)),
            numbers=tuple(f"{self.constants[step.id]} = {step.id}" for step in self.rank.steps),
            class_name=self.class_name,
            doc=wrapped_doc(self._summary(), 4),
            rank=self.rank.rank,
            build=build,
            release=release_lines(self.rank),
            methods=methods,
            steps=layout_tuple(steps, 0, before=LINE_LENGTH) if steps else "()",
        )

    def _summary(self) -> str:
        nodes = [node.node.name for node in self.rank.nodes]
        if not self.rank.steps:
            shards = [f"`{n.node.name}` for rank {n.group[0]}" for n in self.rank.nodes]
            return f"Holds a shard of {', and of '.join(shards)}, and has no steps of its own."
        machines = list(self.rank.machines)
        return f"{numbered('node', nodes)}; {numbered('machine', machines).lower()}."

    def _overview(self) -> tuple[str, ...]:
        steps = self.rank.steps
        if not steps:
            return ()
        number = max(len(str(step.id)) for step in steps)
        name = max(len(step.name) for step in steps)
        left = LINE_LENGTH - 10 - number - name
        region = min(max(len("region"), *(len(_where(step)) for step in steps)), left - _LEAST_ROOM)
        words = {
            step.id: wrapped_statements(step_words(step, self.names), left - region)
            for step in steps
        }
        does = max(len(line) for lines in words.values() for line in lines)
        table = [f"    {'':{number}}  {'step':{name}}  {'does':{does}}  region"]
        for step in steps:
            cells = (
                (str(step.id),),
                (step.name,),
                words[step.id],
                wrapped_statements((_where(step),), region),
            )
            for first, second, third, fourth in zip_longest(*cells, fillvalue=""):
                row = f"    {first:>{number}}  {second:{name}}  {third:{does}}  {fourth}"
                table.append(row.rstrip())
        return tuple(table)

    # Methods

    def _methods(self) -> tuple[Method, ...]:
        methods: list[Method] = []
        last = ""
        for step in self.rank.steps:
            if not isinstance(step, RunStep | BranchPlan):
                continue
            place = f"{self.plan.spec}:{step.section.line}"
            section = two_columns(f"    # {step.section.text}", place)
            if len(section) > LINE_LENGTH:
                section = f"    # {step.section.text}\n{two_columns('    #', place)}"
            shown = "" if section == last else section
            last = section
            for method in self._methods_of(step):
                methods.append(
                    Method(section=shown, head=method.head, doc=method.doc, lines=method.lines)
                )
                shown = ""
        return tuple(methods)

    def _methods_of(self, step: RunStep | BranchPlan) -> list[Method]:
        name = method_name(step)
        if isinstance(step, BranchPlan):
            return [
                Method(
                    section="",
                    head=f"def {name}(self, slot: int) -> bool:",
                    doc=wrapped_doc(step.text, 8),
                    lines=(*_looked_up(step.test), "        return taken"),
                )
            ]
        methods = []
        prepare = self.bodies.prepare(step)
        if prepare:
            head = f"def {name}_prepare(self, b: Batch) -> None:"
            methods.append(Method(section="", head=head, doc=(), lines=prepare))
        argument = "job: Job" if step.kind == "host" else "b: Batch"
        self.api.add("Job" if step.kind == "host" else "Batch")
        body = self.bodies.body(step)
        methods.append(
            Method(
                section="",
                head=f"def {name}(self, {argument}) -> None:",
                doc=wrapped_doc(step_doc(step), 8),
                lines=body,
            )
        )
        if step.prompt is not None and step.prompt.pieces is not None:
            pieces = step.prompt.pieces
            methods.append(
                Method(
                    section="",
                    head=f"def {name}_piece(self, b: Batch) -> None:",
                    doc=wrapped_doc(f"{pieces.call.text}: a piece that is not the last", 8),
                    lines=self.bodies.piece(step, pieces),
                )
            )
        return methods


def _of(placed: PlacedPlan) -> str:
    """How many ranks there are, or which, where they are not numbered from 0."""
    ranks = [rank.rank for rank in placed.ranks]
    if ranks == list(range(len(ranks))):
        return str(len(ranks))
    return f"[{', '.join(map(str, ranks))}]"


def _import(names: list[str]) -> str:
    """The line that takes names from `machines.py`, or lines."""
    flat = f"from mstarc_plan.machines import {', '.join(names)}"
    if not names or len(flat) <= LINE_LENGTH:
        return flat if names else ""
    return layout_call("from mstarc_plan.machines import ", names, 0)


def _looked_up(test: Expr) -> tuple[str, ...]:
    """The lines that set `taken` to what admission has computed for a choice."""
    match test:
        case Option(name):
            return (f"        taken: bool = self.options(slot)[{pyrepr(name)}]",)
        case TableItem(name, number):
            return (
                f"        number = {_pass_number(number)}",
                f"        taken: bool = self.options(slot)[{pyrepr(name)}][number]",
            )
        case _:
            raise InternalError(f"not computed at admission: {test}", stage="codegen")


def _pass_number(number: Expr, outer: int = 0) -> str:
    """Which entry a pass asks for, among the passes of one loop or of several."""
    match number:
        case LoopIndex(loop):
            return f"self.{identifier(loop)}.number(slot)"
        case Const(value, _):
            return pyrepr(value)
        case Option(name) | LetRef(name):
            return f"self.options(slot)[{pyrepr(name)}]"
        case Binary(operator, left, right) if operator in ("+", "-", "*"):
            level = 2 if operator == "*" else 1
            text = f"{_pass_number(left, level)} {operator} {_pass_number(right, level + 1)}"
            return f"({text})" if level < outer else text
        case _:
            raise InternalError(f"no number of a pass: {number}", stage="codegen")


def _constant(step: Step, configured: Set[str]) -> str:
    name = identifier(step.name).upper()
    return f"{name}_STEP" if name in configured else name


def _where(step: Step) -> str:
    match step:
        case RunStep(region=str() as region):
            return region
        case RunStep(why=why):
            return why
        case BranchPlan() | MarkPlan() | SpreadPlan() | JoinPlan():
            return "host"
        case _:
            return ""


def _import_order(name: str) -> tuple[bool, str]:
    return (not name.isupper(), name)
