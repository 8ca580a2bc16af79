"""What passes know besides the program: where it should run, and where to report."""

from collections.abc import Callable, Mapping
from dataclasses import field

from mstarc.analysis.cost_table import Mix
from mstarc.analysis.placement.problem import DEFAULT_OBJECTIVE, Objective
from mstarc.deployment import CATALOG, Deployment, DeviceKind, Devices, device_kind
from mstarc.deployment.profile import MeasuredProfile
from mstarc.diagnostics import DiagnosticSink
from mstarc.ir.decisions import Placement
from mstarc.ir.graph import Program
from mstarc.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PassContext:
    """`devices` or `deployment` says where: with both, the deployment's ranks are among `devices`.

    `weight_bytes` are measured sizes by node, which go before declared ones, and `weight_sources`
    says how each was found; `kept_bytes` is what nodes keep on their devices besides. `kinds` are
    the devices that are known, `profile` is what was measured of the program, `objective` is what
    automatic placement makes least and `mix` for what requests; with a `placement` nothing is
    searched. With `require_graphs` a device call that no capture region holds is an error. A
    deployment without devices is placed on some of `default_kind`. `settings` are those of the
    command line where there is no deployment; they place nothing.
    """

    sink: DiagnosticSink
    devices: Devices | None = None
    deployment: Deployment | None = None
    settings: Deployment | None = None
    weight_bytes: Mapping[str, int] = field(default_factory=dict)
    weight_sources: Mapping[str, str] = field(default_factory=dict)
    kept_bytes: Mapping[str, int] = field(default_factory=dict)
    kinds: tuple[DeviceKind, ...] = CATALOG
    profile: MeasuredProfile | None = None
    default_kind: str = "cpu"
    objective: Objective = DEFAULT_OBJECTIVE
    mix: Mix | None = None
    placement: Placement | None = None
    require_graphs: bool = False

    @property
    def numbers(self) -> Deployment | None:
        """What says how many requests run, and how long they are: the deployment, or `settings`."""
        return self.deployment or self.settings

    def kind(self, name: str) -> DeviceKind:
        """The kind of device with this name, which a placement uses."""
        found = device_kind(name, self.kinds)
        assert found is not None, name
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class PassEntry:
    """One pass: its name for users, and the function."""

    name: str
    run: Callable[[Program, PassContext], Program]
