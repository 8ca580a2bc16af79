"""A plan under a load: the one function that a command calls."""

from math import inf
from random import Random

from mstarc.analysis.placement.mixing import mix_of
from mstarc.analysis.sized_calls import rows_by_site
from mstarc.deployment import Devices
from mstarc.deployment.mix import RequestKind
from mstarc.passes.context import PassContext
from mstarc.plan.plan import Plan
from mstarc.records import dataclass
from mstarc.simulate.cells import one_cell
from mstarc.simulate.result import Simulated, result_of
from mstarc.simulate.run import Simulation
from mstarc.simulate.sample import samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`rate` requests a second for `seconds`, or `burst` of them at once, of some kinds."""

    kinds: tuple[RequestKind, ...]
    rate: float
    seconds: float
    burst: int | None
    seed: int


def simulate(plan: Plan, target: PassContext, load: Load) -> Simulated:
    """What comes of the load on the plan's placement; a burst is waited for to its end."""
    placed, cells = one_cell(plan.placements[0])
    placement = placed.placement
    # All devices are taken to be like the first: `Devices.kind`.
    kind = target.kind(placement.devices[0].kind)
    simulation = Simulation(
        placed,
        plan.admission,
        Devices(name=placement.name, parts=((kind, len(placement.devices)),)),
        slots=max(1, placement.max_requests // cells),
        measured=target.weight_bytes,
        profile=target.profile,
        sized=rows_by_site(plan.program, mix_of(plan.program, load.kinds).options),
    )
    drawn = list(
        samples(
            plan.program,
            plan.admission,
            load.kinds,
            rate=load.rate / cells,
            seconds=load.seconds,
            burst=None if load.burst is None else max(1, load.burst // cells),
            random=Random(load.seed),
        )
    )
    simulation.run(drawn, load.seconds if load.burst is None else inf)
    return result_of(
        simulation,
        come=len(drawn),
        until_s=load.seconds,
        is_burst=load.burst is not None,
        cells=cells,
    )
