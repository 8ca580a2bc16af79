"""What a command line asks of the compiler, as values."""

from dataclasses import dataclass
from typing import Literal

from mstarc.source import SourceFile

Stage = Literal["parse", "resolve", "check", "lower", "passes", "plan"]
STAGES: tuple[Stage, ...] = ("parse", "resolve", "check", "lower", "passes", "plan")
DEFAULT_PLACEMENT = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions:
    """How to compile a spec.

    `placements` are device sets to place on (`cpu`, `2xcpu`), `deployments` the texts of deployment
    files; each makes one placement of the plan, and without any it is placed on one CPU. `sizes`
    replaces config values. `dump_after` names a stage or a pass.
    """

    placements: tuple[str, ...] = ()
    deployments: tuple[SourceFile, ...] = ()
    sizes: SourceFile | None = None
    stop_after: Stage | None = None
    dump_after: str | None = None
    require_graphs: bool = False
