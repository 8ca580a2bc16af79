"""The module of one rank: a class with a method a step, and the table of steps."""

from collections.abc import Set

from mstarc.codegen.bodies import BodyWriter
from mstarc.codegen.expressions import constant_name
from mstarc.codegen.pyrepr import LINE_LENGTH, layout_call, layout_tuple, pyrepr, two_columns
from mstarc.codegen.views.build_method import build_lines, policy_settings, release_lines
from mstarc.codegen.views.docs import (
    numbered,
    step_doc,
    step_words,
    wrapped_doc,
    wrapped_statements,
)
from mstarc.codegen.views.machines import origin
from mstarc.diagnostics import InternalError
from mstarc.ir.exprs import Binary, Const, Expr, LetRef, LoopIndex, Option, TableItem
from mstarc.plan.draft import CutPlan
from mstarc.plan.naming import identifier
from mstarc.plan.plan import (
    BranchPlan,
    DonePlan,
    HopPlan,
    JoinPlan,
    MarkPlan,
    PlacedPlan,
    Plan,
    RankPlan,
    RunStep,
    SpreadPlan,
    Step,
    Target,
)
from mstarc.plan.signatures import Signatures
from mstarc.records import dataclass


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

    def view(self) -> RankView:
        methods = self._methods()
        steps = [self._step(step) for step in self.rank.steps]
        build, names, api = build_lines(self.rank)
        self.api |= api
        return RankView(
            title=f"{self.plan.program.model} on {self.placed.placement.name}, "
            f"rank {self.rank.rank} of {_of(self.placed)}: "
            f"{'all that this process does, step by step' if steps else 'a shard, and no steps'}.",
            origin=origin(self.plan),
            table=self._table(),
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

    def _table(self) -> tuple[str, ...]:
        steps = self.rank.steps
        if not steps:
            return ()
        number = max(len(str(step.id)) for step in steps)
        name = max(len(step.name) for step in steps)
        region = max(len(_where(step)) for step in steps)
        room = max(LINE_LENGTH - 10 - number - name - max(region, 6), 30)
        words = {step.id: wrapped_statements(step_words(step, self.names), room) for step in steps}
        does = max(len(line) for lines in words.values() for line in lines)
        table = [f"    {'':{number}}  {'step':{name}}  {'does':{does}}  region"]
        for step in steps:
            for index, line in enumerate(words[step.id]):
                first = (str(step.id), step.name, _where(step)) if index == 0 else ("", "", "")
                left = f"    {first[0]:>{number}}  {first[1]:{name}}"
                table.append(f"{left}  {line:{does}}  {first[2]}".rstrip())
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
            shown = "" if section == last else section
            last = section
            for method in self._methods_of(step):
                methods.append(
                    Method(section=shown, head=method.head, doc=method.doc, lines=method.lines)
                )
                shown = ""
        return tuple(methods)

    def _methods_of(self, step: RunStep | BranchPlan) -> list[Method]:
        name = _method(step)
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
        return methods

    # The table of steps

    def _step(self, step: Step) -> str:
        match step:
            case RunStep():
                return self._run_step(step)
            case BranchPlan():
                self.api.add("BranchStep")
                return self._lay_out(
                    "BranchStep",
                    [
                        f"id={self.constants[step.id]}",
                        f"name={pyrepr(step.name)}",
                        f"test={self.class_name}.{_method(step)}",
                        f"yes={self._target(step.yes)}",
                        f"no={self._target(step.no)}",
                        f"line={step.line}",
                    ],
                )
            case MarkPlan():
                self.api.add("MarkStep")
                return self._lay_out(
                    "MarkStep",
                    [
                        f"id={self.constants[step.id]}",
                        f"name={pyrepr(step.name)}",
                        f"streams={_tuple('streams', step.streams)}",
                        f"mark={pyrepr(step.mark)}",
                        f"then={self.constants[step.then]}",
                        f"line={step.line}",
                    ],
                )
            case SpreadPlan():
                self.api.add("SpreadStep")
                branches = [self.constants[number] for number in step.branches]
                return self._lay_out(
                    "SpreadStep",
                    [
                        f"id={self.constants[step.id]}",
                        f"name={pyrepr(step.name)}",
                        f"branches={layout_tuple(branches, 8, before=len('branches='), after=1)}",
                        f"line={step.line}",
                    ],
                )
            case JoinPlan():
                self.api.add("JoinStep")
                return self._lay_out(
                    "JoinStep",
                    [
                        f"id={self.constants[step.id]}",
                        f"name={pyrepr(step.name)}",
                        f"arrivals={step.arrivals}",
                        f"then={self.constants[step.then]}",
                        f"line={step.line}",
                    ],
                )
            case HopPlan():
                self.api.add("HopStep")
                arguments = [
                    f"id={self.constants[step.id]}",
                    f"rank={step.rank}",
                    f"step={step.step}",
                    f"values={_tuple('values', tuple(step.values))}",
                ]
                if step.contexts:
                    pairs = [pyrepr(context) for context in step.contexts]
                    laid_out = layout_tuple(pairs, 8, before=len("contexts="), after=1)
                    arguments.append(f"contexts={laid_out}")
                return self._lay_out("HopStep", arguments)
            case DonePlan():
                self.api.add("DoneStep")
                arguments = [f"id={self.constants[step.id]}", f"machine={pyrepr(step.machine)}"]
                if step.closes:
                    arguments.append(f"closes={_tuple('closes', step.closes)}")
                return self._lay_out("DoneStep", arguments)

    def _run_step(self, step: RunStep) -> str:
        device = step.kind == "device"
        run = f"{self.class_name}.{_method(step)}"
        arguments = [
            f"id={self.constants[step.id]}",
            f"name={pyrepr(step.name)}",
            f"run={run}",
        ]
        if step.prepares:
            arguments.append(f"prepare={run}_prepare")
        if device:
            arguments.append(f"nodes={_tuple('nodes', step.nodes)}")
            arguments.append(f"rows={pyrepr(step.rows)}")
            if step.region is not None:
                arguments.append(f"region={pyrepr(step.region)}")
            if step.buckets:
                arguments.append(f"buckets={pyrepr(step.buckets)}")
        else:
            arguments.append(f"node={pyrepr(step.nodes[0])}")
        if step.reads:
            arguments.append(f"reads={_tuple('reads', step.reads)}")
        if step.cut is not None:
            arguments.append(f"cut={self._cut(step.cut)}")
        if step.pulls:
            arguments.append(f"pulls={_tuple('pulls', step.pulls)}")
        if step.sure:
            arguments.append("sure=True")
        if step.drained is not None:
            arguments.append(f"drained={self.constants[step.drained]}")
        if step.last is not None:
            arguments.append(f"last={self.constants[step.last]}")
        if step.sends:
            arguments.append(f"sends={pyrepr(step.sends)}")
        if device and step.passes:
            arguments.append(f"passes={_tuple('passes', step.passes)}")
        if step.emits:
            arguments.append(f"emits={_tuple('emits', step.emits)}")
        arguments.append(f"then={self._target(step.then)}")
        arguments.append(f"line={step.line}")
        name = "DeviceStep" if device else "HostStep"
        self.api.add(name)
        return self._lay_out(name, arguments)

    def _cut(self, cut: CutPlan) -> str:
        self.api |= {"Cut", "Policy"}
        policy = layout_call("Policy", policy_settings(cut.policy, cut.tail, None), 12, before=7)
        arguments = [f"policy={policy}"]
        if cut.until is not None:
            arguments.append(f"until={pyrepr(cut.until)}")
        return layout_call("Cut", arguments, 8, before=len("cut=") + 1)

    def _target(self, target: Target) -> str:
        if isinstance(target, int):
            return self.constants[target]
        name = "Enter" if target.kind == "enter" else "Again"
        self.api.add(name)
        return layout_call(
            name,
            [
                pyrepr(target.loop),
                f"first={self.constants[target.first]}",
                f"otherwise={self.constants[target.otherwise]}",
            ],
            8,
            before=len("then="),
            tail="",
        )

    def _lay_out(self, name: str, arguments: list[str]) -> str:
        return layout_call(name, arguments, 4, before=len(","))


def _of(placed: PlacedPlan) -> str:
    """How many ranks there are, or which, where they are not numbered from 0."""
    ranks = [rank.rank for rank in placed.ranks]
    if ranks == list(range(len(ranks))):
        return str(len(ranks))
    return f"[{', '.join(map(str, ranks))}]"


def _tuple(name: str, items: tuple[str, ...]) -> str:
    return layout_tuple([pyrepr(item) for item in items], 8, before=len(name) + 1, after=1)


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


def _method(step: Step) -> str:
    return identifier(step.name)


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
