"""What a command line asks of the compiler, as values."""

from typing import TYPE_CHECKING

from mstarc.records import dataclass
from mstarc.source import SourceFile

if TYPE_CHECKING:
    from mstarc.deployment.settings import GivenSetting

DEFAULT_PLACEMENT = "cpu"
DEPLOYED_KIND = "H200"
"""What a deployment file without `devices` is placed on: such files are written for GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFolder:
    """A local checkpoint as it was read: of a node, or with `node` "" of the model.

    `headers` are (path, text) of the header of each safetensors file, `config` is its config.json.
    """

    node: str
    path: str
    headers: tuple[tuple[str, str], ...]
    config: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions:
    """How to compile a spec.

    Each of `placements` (`cpu`, `2xcpu`) makes one placement of the plan, and without any it is
    placed on one CPU. With `deployments`, the texts of deployment files, each of these makes one,
    and `placements` has at most the devices for them. `variant` names one of the model's, where no
    deployment does. `sizes` replaces config values. `kinds` are
    device kinds of one's own, `profile` is what was measured, and `checkpoints` say how large
    weights are. `settings` stand above the deployments' values, the lowest first, and a deployment
    without `devices` is placed on devices of `default_kind`. `objective` is that of automatic
    placement, one of `OBJECTIVES` in `analysis.placement.problem`, or None for the usual one;
    `requests`, a file of kinds of requests, and `at_once`, how many run on all devices together,
    are what is placed for.
    `stop_after` and `dump_after` name a stage or a pass.
    """

    placements: tuple[str, ...] = ()
    deployments: tuple[SourceFile, ...] = ()
    variant: str | None = None
    sizes: SourceFile | None = None
    kinds: SourceFile | None = None
    profile: SourceFile | None = None
    checkpoints: tuple[CheckpointFolder, ...] = ()
    settings: "tuple[GivenSetting, ...]" = ()
    default_kind: str = DEFAULT_PLACEMENT
    objective: str | None = None
    requests: SourceFile | None = None
    at_once: int | None = None
    stop_after: str | None = None
    dump_after: str | None = None
    require_graphs: bool = False
