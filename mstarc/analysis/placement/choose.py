"""The best placement of a program on some devices: its costs made numbers, searched, and put back.

A layout must have room for all requests that may run at once, as long as they are expected to be.
Where none has, the best one for half of them is taken, and so on. Where none has room for one
request, what comes out is the layout that lacks least, for whoever counts memory to refuse.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from mstarc.analysis.cost_table import CostTable, Mix, cost_table
from mstarc.analysis.memory import Limits
from mstarc.analysis.op_costs import Profile
from mstarc.analysis.placement.at_once import layouts_at_once
from mstarc.analysis.placement.model import Model, model_of
from mstarc.analysis.placement.problem import DEFAULT_OBJECTIVE, Layout, Objective, Problem
from mstarc.analysis.placement.result import Chosen, chosen
from mstarc.analysis.placement.search import search
from mstarc.deployment import Devices
from mstarc.ir.graph import Program
from mstarc.records import dataclass

# The next best of a layout are mostly itself with a small node elsewhere: what is worse by less
# than this is not shown beside it.
APART = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """`layouts` are the best and its runners-up; `chosen` is the best.

    Each copy has room for `requests` at once; 0 where not even one fits.
    """

    table: CostTable
    model: Model
    objective: Objective
    requests: int
    layouts: tuple[Layout, ...]
    chosen: Chosen


def choose(
    program: Program,
    devices: Devices,
    limits: Limits,
    *,
    objective: Objective = DEFAULT_OBJECTIVE,
    measured: Mapping[str, int] | None = None,
    kept: Mapping[str, int] | None = None,
    profile: Profile | None = None,
    mix: Mix | None = None,
    keep: int = 1,
) -> Choice | None:
    """The best layout of a program and `keep - 1` runners-up.

    None where even without a limit of memory there is no layout: the program has no device node.
    """
    table = cost_table(
        program, devices, limits, measured=measured, kept=kept, profile=profile, mix=mix
    )
    if table.mix.at_once is not None:
        shared = layouts_at_once(
            lambda requests: model_of(program, table, requests),
            table.mix.at_once,
            objective,
            keep,
            APART,
        )
        if shared is not None:
            return Choice(
                table=table,
                model=shared.model,
                objective=objective,
                requests=shared.requests,
                layouts=shared.layouts,
                chosen=chosen(shared.model, shared.layouts[0], devices),
            )
    requests = limits.requests if table.mix.batch is None else table.mix.batch
    model = model_of(program, table, requests)
    if not model.problem.pieces:
        return None
    while not (found := search(model.problem, objective, keep=keep, apart=APART)) and requests > 1:
        requests //= 2
        model = model_of(program, table, requests)
    if not found:
        requests = 0
        tries = (search(problem, objective) for problem in _roomier(model.problem))
        found = next(layouts for layouts in tries if layouts)
    return Choice(
        table=table,
        model=model,
        objective=objective,
        requests=requests,
        layouts=found,
        chosen=chosen(model, found[0], devices),
    )


def _roomier(problem: Problem) -> Iterator[Problem]:
    """The same with more and more memory."""
    capacities = [part.capacity_bytes for part in problem.supply]
    factor = 1.0
    while True:
        factor *= 1.1
        yield replace(
            problem,
            supply=tuple(
                replace(part, capacity_bytes=int(capacity * factor) + 1)
                for part, capacity in zip(problem.supply, capacities, strict=True)
            ),
        )
