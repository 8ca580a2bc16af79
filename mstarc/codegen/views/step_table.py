"""The table of a rank's steps: one constructor of `plan_api` a step, with what comes after it."""

from collections.abc import Mapping

from mstarc.codegen.pyrepr import layout_call, layout_tuple, pyrepr
from mstarc.codegen.views.build_method import policy_settings
from mstarc.plan.draft import CutPlan
from mstarc.plan.naming import identifier
from mstarc.plan.plan import (
    BranchPlan,
    DonePlan,
    HopPlan,
    JoinPlan,
    MarkPlan,
    RunStep,
    SpreadPlan,
    Step,
    Target,
)
from mstarc.plan.prompt import Pieces
from mstarc.records import dataclass


@dataclass(slots=True, kw_only=True)
class StepTable:
    """Writes the rows. `api` collects the names that they need of plan_api."""

    class_name: str
    constants: Mapping[int, str]
    api: set[str]

    def row(self, step: Step) -> str:
        """What stands in the table for a step."""
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
                        f"test={self.class_name}.{method_name(step)}",
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
        run = f"{self.class_name}.{method_name(step)}"
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
        if step.stretch:
            arguments.append(f"stretch={step.stretch}")
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
        if step.prompt is not None and step.prompt.pieces is not None:
            arguments.append(f"pieces={self._pieces(step.prompt.pieces, run)}")
        arguments.append(f"then={self._target(step.then)}")
        arguments.append(f"line={step.line}")
        name = "DeviceStep" if device else "HostStep"
        self.api.add(name)
        return self._lay_out(name, arguments)

    def _pieces(self, pieces: Pieces, run: str) -> str:
        self.api.add("Pieces")
        of = layout_tuple([pyrepr(name) for name in pieces.of], 12, before=len("of="), after=1)
        arguments = [
            f"run={run}_piece",
            f"of={of}",
            f"node={pyrepr(pieces.node)}",
            f"context={pyrepr(pieces.context)}",
            f"op={pyrepr(pieces.op)}",
        ]
        arguments += ["shared=True"] if pieces.is_shared else []
        return layout_call("Pieces", arguments, 8, before=len("pieces=") + 1)

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


def method_name(step: Step) -> str:
    """The name of a step's method."""
    return identifier(step.name)


def _tuple(name: str, items: tuple[str, ...]) -> str:
    return layout_tuple([pyrepr(item) for item in items], 8, before=len(name) + 1, after=1)
