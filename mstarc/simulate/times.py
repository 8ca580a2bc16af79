"""Seconds of a step for the rows that run together: its calls, one after the other.

Sizes are rounded to steps of about a tenth, so that steps of nearly the same sizes are worked out
once.
"""

from collections.abc import Mapping
from math import ceil, log

from mstarc.analysis.op_costs import Profile, find_op, seconds
from mstarc.deployment import DeviceKind
from mstarc.plan.actions import Action, CallOp, Repeat
from mstarc.plan.plan import NodePlan, RunStep

_STEP = 1.1


class StepTimes:
    """The seconds of steps of one placement on devices of one kind.

    `sized` has the rows of calls, by site, that have as many as options say.
    """

    def __init__(
        self,
        kind: DeviceKind,
        measured: Mapping[str, int],
        profile: Profile | None,
        sized: Mapping[str, int],
    ) -> None:
        self.kind = kind
        self._sized = sized
        self._measured = measured
        self._profile = profile
        self._known: dict[tuple[int, int, int, int], float] = {}
        self._calls: dict[int, list[tuple[CallOp, int]]] = {}

    def of(
        self,
        step: RunStep,
        nodes: Mapping[str, NodePlan],
        batch: int,
        rows: float,
        context: float,
    ) -> float:
        """Seconds for `batch` requests of `rows` rows each that attend to `context` rows."""
        key = step.id, batch, _rounded(rows), _rounded(context)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._seconds(step, nodes, *key[1:])
        return known

    def _seconds(
        self, step: RunStep, nodes: Mapping[str, NodePlan], batch: int, rows: int, context: int
    ) -> float:
        calls = self._calls.setdefault(step.id, list(_calls(step.actions, 1)))
        total = told = 0.0
        for call, times in calls:
            held = nodes[call.node]
            taken = seconds(
                held.node,
                find_op(held.node, call.op),
                self.kind,
                batch=batch,
                rows=self._sized.get(call.site, rows),
                context_rows=context,
                tp=held.tp,
                measured=self._measured,
                profile=self._profile,
            )
            total += times * taken / held.sp
            told += times * self.kind.shard_call_s if held.tp * held.sp > 1 else 0.0
        launches = sum(times for _, times in calls)
        if not calls:
            return 0.0 if step.kind == "host" else self.kind.launch_s
        if step.region is not None and not self.kind.is_cpu:
            # One graph is one launch, and one message to other ranks.
            total -= (launches - 1) * self.kind.launch_s
            told = min(told, self.kind.shard_call_s)
        return total + told


def _calls(actions: tuple[Action, ...], times: int) -> list[tuple[CallOp, int]]:
    found: list[tuple[CallOp, int]] = []
    for action in actions:
        if isinstance(action, CallOp):
            # Contexts that are called at once take as long as one after the other, at most.
            found.append((action, times * max(1, len(action.contexts))))
        elif isinstance(action, Repeat):
            found += _calls(action.body, times * action.passes)
    return found


def _rounded(value: float) -> int:
    """A whole number near the value; the same for values that are nearly the same."""
    if value < 16:
        return ceil(value)
    return int(_STEP ** round(log(value, _STEP)))
