"""What a request's listener is told of an error in a step."""

import traceback

from mstarc_runtime.engine.op_results import WrongResult
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.kvcache.errors import ContextFull
from mstarc_runtime.live import RankPlan
from mstarc_runtime.plan_api import DeviceStep, HostStep


def describe(
    error: BaseException, step: DeviceStep | HostStep | None, plan: RankPlan
) -> RuntimeFailure:
    """What ended a request, and where: in which step, of which node, on which line."""
    where: tuple[str, ...] = ()
    if step is not None:
        nodes = step.nodes if isinstance(step, DeviceStep) else (step.node,)
        names = ", ".join(f"`{node}`" for node in nodes)
        where = (
            f"in step `{step.name}`, node {names}, on rank {plan.rank}",
            f"{plan.spec}:{step.line}",
        )
    if isinstance(error, RuntimeFailure):
        notes = (*error.notes, *where)
        return RuntimeFailure(error.code, error.message, notes=notes, helps=error.helps)
    if isinstance(error, WrongResult):
        emits = step.emits if isinstance(step, DeviceStep) else ()
        outputs = ", ".join(f"`{output}`" for output in emits)
        reach = (f"the step emits {outputs}",) if outputs else ()
        return RuntimeFailure(
            "MS9322",
            str(error),
            notes=(*error.notes, *reach, *where),
            helps=["correct the class that `impl` names, or the op's type in the spec"],
        )
    if isinstance(error, ContextFull):
        return RuntimeFailure(
            "MS9309",
            f"a request needs {error.rows} rows of context `{error.context}`",
            notes=(f"a request may hold {error.limit}", *where),
            helps=["ask for less, or compile for a deployment with a greater `max_seq_len`"],
        )
    name = type(error).__name__
    message = f"step `{step.name}` failed: {name}: {error}" if step else f"{name}: {error}"
    last = traceback.extract_tb(error.__traceback__)[-1:]
    at = tuple(f"raised at {frame.filename}:{frame.lineno}" for frame in last)
    return RuntimeFailure("MS9304", message, notes=(*where, *at))
