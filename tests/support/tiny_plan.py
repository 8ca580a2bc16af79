"""A shipped spec, compiled in its tiny sizes and loaded on ranks of this process."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from mstarc_runtime.assembly import Extras, RunSettings
from mstarc_runtime.attention.makers import BackendMaker
from mstarc_runtime.engine.eager import Executor
from mstarc_runtime.launch import LocalRanks
from mstarc_runtime.loader import load_placement, load_plan
from mstarc_runtime.request import PreparedRequest
from mstarc_runtime.weights.progress import PlainProgress
from tests.runtime.rig import Collected, nowhere
from tests.support.captured_toys import compile_into
from tests.support.shipped_specs import SPECS_BY_NAME


def ranks_of(
    name: str,
    folder: Path,
    *,
    sizes: SourceFile | None = None,
    implementations: Mapping[str, Any] | None = None,
    executor: Executor | None = None,
    attention: BackendMaker | None = None,
    stretch: int | None = None,
    **settings: Any,
) -> LocalRanks:
    """The spec's plan on one CPU, written into `folder`; `implementations` replace models."""
    spec = SPECS_BY_NAME[name]
    options = CompileOptions(placements=("cpu",), sizes=sizes or spec.sizes)
    plan = load_plan(compile_into(folder, spec.source, options))
    return LocalRanks(
        plan,
        load_placement(plan, "cpu"),
        settings=RunSettings(cache_dir=Path("/nonexistent"), threads=1, **settings),
        progress=PlainProgress(nowhere()),
        extras=Extras(
            implementations=implementations or {},
            executor=executor,
            attention=attention,
            stretch=stretch,
        ),
    )


def submit(
    ranks: LocalRanks,
    wants: Iterable[str],
    inputs: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
) -> Collected:
    """Asks; the listener has what came when `run_until_done` is through."""
    listener = Collected()
    prepared = PreparedRequest(
        name="", inputs=inputs, options=options or {}, wants=frozenset(wants), seed=0
    )
    ranks.conductor.submit(prepared, listener)
    return listener
