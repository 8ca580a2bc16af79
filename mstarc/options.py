"""What a command line asks of the compiler, as values."""

from mstarc.records import dataclass
from mstarc.source import SourceFile

DEFAULT_PLACEMENT = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions:
    """How to compile a spec.

    Each of `placements` (`cpu`, `2xcpu`) makes one placement of the plan, and without any it is
    placed on one CPU. With `deployments`, the texts of deployment files, each of these makes one,
    and `placements` has at most the devices for them. `sizes` replaces config values. `stop_after`
    and `dump_after` name a stage or a pass.
    """

    placements: tuple[str, ...] = ()
    deployments: tuple[SourceFile, ...] = ()
    sizes: SourceFile | None = None
    stop_after: str | None = None
    dump_after: str | None = None
    require_graphs: bool = False
