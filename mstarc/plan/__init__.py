"""Plans: a program cut into numbered steps, flat, so that code generation only has to write it.

Takes programs that the passes have placed and gives a `Plan`. `flatten` and `loops` cut machines
and the walks that they run into steps, `liveness` finds which values outlive a step, `layout`
numbers the steps and puts hops between ranks, `holdings` lists what each rank holds. It decides
nothing about devices (`passes`) and writes no text (`codegen`). Start at `build.py`.
"""

from mstarc.plan.abi import PLAN_ABI
from mstarc.plan.build import build_plan, node_weights
from mstarc.plan.plan import NodeWeights, PlacedPlan, Plan

__all__ = ["PLAN_ABI", "NodeWeights", "PlacedPlan", "Plan", "build_plan", "node_weights"]
