"""What a command line asks of the compiler, as values."""

from dataclasses import dataclass

from mstarc.source import SourceFile

DEFAULT_PLACEMENT = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions:
    """How to compile a spec.

    `placements` are device sets to place on (`cpu`, `2xcpu`), `deployments` the texts of deployment
    files; each makes one placement of the plan, and without any it is placed on one CPU. `sizes`
    replaces config values. `stop_after` and `dump_after` name a stage or a pass.
    """

    placements: tuple[str, ...] = ()
    deployments: tuple[SourceFile, ...] = ()
    sizes: SourceFile | None = None
    stop_after: str | None = None
    dump_after: str | None = None
    require_graphs: bool = False
