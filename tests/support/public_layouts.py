"""Layouts that people wrote by hand for the models here, as the search would see them.

Files of others, which are not in the repository: `PUBLIC_LAYOUTS` names the folder where they are.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from mstarc import driver
from mstarc.analysis.cost_table import cost_table
from mstarc.analysis.memory import limits_of
from mstarc.analysis.placement.model import Model, model_of
from mstarc.analysis.placement.problem import Home, Layout, Objective, Option
from mstarc.analysis.placement.score import score
from mstarc.analysis.placement.search import search
from mstarc.deployment import parse_devices
from mstarc.ir.decisions import Placement, fitting
from mstarc.ir.graph import Program
from mstarc.ir.text import parse_program
from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from tests.support.golden import ROOT

FOLDER = Path(os.environ.get("PUBLIC_LAYOUTS", ROOT.parent / "shared/data/mstar-configs"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Public:
    """A file, the program that it is for, as the passes before and after `place` have it."""

    name: str
    program: Program
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Seconds or price by the objective: of the layout by hand, of the best with the same devices.

    `by_hand` is None where the layout has no room for the requests that the best one has room for.
    """

    objective: Objective
    devices: str
    by_hand: float | None
    best: float
    layout: Layout


def public_layouts() -> Iterator[tuple[str, SourceFile, SourceFile]]:
    """(name, spec, deployment) of every file whose model has a spec here."""
    specs = {}
    for path in sorted((ROOT / "specs").glob("*.mstar")):
        specs[path.stem] = SourceFile(path=f"specs/{path.name}", text=path.read_text("utf-8"))
    for path in sorted(FOLDER.glob("*.yaml")):
        text = path.read_text("utf-8")
        model = next(
            (
                line.partition(":")[2].strip().strip("\"'")
                for line in text.splitlines()
                if line.startswith("model:")
            ),
            "",
        )
        spec = specs.get(model) or next((s for s in specs.values() if f'"{model}"' in s.text), None)
        if spec is not None:
            yield path.stem, spec, SourceFile(path=path.name, text=text)


def read_public(name: str, spec: SourceFile, deployment: SourceFile) -> Public | str:
    """The layout as it is placed on H200s, or why it is refused."""
    stages = []
    for stage in ("split-optional-arguments", "place"):
        options = CompileOptions(
            deployments=(deployment,), default_kind="H200", stop_after=stage, dump_after=stage
        )
        outcome = driver.compile_spec(spec, options)
        errors = [d for d in outcome.diagnostics if not d.code.startswith("MS061")]
        if not outcome.dump:
            return "; ".join(d.message for d in errors or outcome.diagnostics)
        stages.append(parse_program(outcome.dump, "program.mir"))
    before, after = stages
    assert after.placement is not None
    return Public(name=name, program=before, placement=after.placement)


def compare(public: Public, objective: Objective) -> Compared:
    """The layout by hand beside the best one, for as many requests as the best has room for."""
    placement = public.placement
    used = {*placement.ranks, *(copy.device for copy in placement.copies)}
    devices = parse_devices(f"{len(used)}xH200")
    assert devices is not None
    limits = limits_of(None, devices.kind)
    limits = replace(limits, tokens=placement.max_tokens, requests=placement.max_requests)
    table = cost_table(public.program, devices, limits)
    requests = limits.requests
    while True:
        model = model_of(public.program, table, requests)
        found = search(model.problem, objective)
        if found:
            break
        requests //= 2
        assert requests, "not even one request fits"
    by_hand = score(model.problem, homes_of(model, placement), objective)
    return Compared(
        objective=objective,
        devices=devices.name,
        by_hand=None if by_hand is None else by_hand.key[0],
        best=found[0].key[0],
        layout=found[0],
    )


def homes_of(model: Model, placement: Placement) -> dict[str, Home]:
    """Where each piece is by a placement. Ranks are numbered anew from 0."""
    numbers = {rank: index for index, rank in enumerate(placement.ranks)}
    homes: dict[str, Home] = {}
    for part in model.parts.values():
        assignments = {
            fitting(placement.of(part.node), call.walk, call.context) for call in part.calls
        }
        groups = {(a.ranks, a.tp, a.sp) for a in assignments}
        assert len(groups) == 1, f"{part.name} is at several places"
        ((ranks, tp, sp),) = groups
        homes[part.name] = Home(
            option=Option(0, tp, sp), ranks=tuple(numbers[rank] for rank in ranks)
        )
    return homes
