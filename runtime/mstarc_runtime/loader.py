"""A plan folder → the modules, routes and facts that a run needs.

Every file is checked against the hash that plan.json notes before a line of it runs, and the plan's
ABI against this runtime's. The folder becomes the package `mstarc_plan` of this process; it can
hold one plan.
"""

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from mstarc_runtime.errors import RuntimeFailure, did_you_mean
from mstarc_runtime.plan_api import PLAN_ABI, Admission, Rank, Step, Weights
from mstarc_schedule.batching import PREFILL_TOKENS

PACKAGE = "mstarc_plan"
PLAN_FILE = "plan.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """An input, output or option, as plan.json has it. `via`: (node, op) of an output's text.

    `domain` is what an option may be: ("range", least, most) or ("set", value, …); None is any.
    """

    name: str
    type: str
    optional: bool = False
    default: Any = None
    via: tuple[str, str] | None = None
    domain: tuple[Any, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ViaNode:
    """A host node that the conductor runs itself."""

    name: str
    impl: str
    weights: Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineStart:
    """Where a machine begins."""

    rank: int
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRoute:
    """Who sends to a stream, who reads it, and how many items fit in between."""

    producers: tuple[int, ...]
    consumer: int
    capacity: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFacts:
    """One copy of a rank, as a process of its own. Several may share a device."""

    process: int
    rank: int
    copy: int
    device: int
    module: str

    def __str__(self) -> str:
        return f"rank {self.rank}, copy {self.copy}" if self.copy else f"rank {self.rank}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """The ranks that hold a node's shards, the leader first: `tp` * `sp` of them."""

    node: str
    ranks: tuple[int, ...]
    tp: int
    sp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementFacts:
    """What placement.json says. `devices` gives each device's kind by its number."""

    name: str
    devices: Mapping[int, str]
    max_requests: int
    max_tokens: int
    machines: Mapping[str, MachineStart]
    streams: Mapping[str, StreamRoute]
    processes: tuple[ProcessFacts, ...]
    groups: tuple[GroupFacts, ...] = ()
    regions: tuple[str, ...] = ()
    prefill_tokens: int = PREFILL_TOKENS

    def check_region(self, name: str) -> None:
        """Fails with MS9010 if the placement has no capture region `name`."""
        if name not in self.regions:
            raise RuntimeFailure(
                "MS9010",
                f"`{self.name}` has no capture region `{name}`",
                notes=[f"it has {', '.join(f'`{n}`' for n in self.regions) or 'none'}"],
                helps=did_you_mean(name, self.regions),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPlan:
    """A plan whose files are what they were when it was compiled."""

    folder: Path
    model: str
    spec: str
    inputs: tuple[Declared, ...]
    outputs: tuple[Declared, ...]
    options: tuple[Declared, ...]
    nodes: tuple[str, ...]
    via_nodes: Mapping[str, ViaNode]
    placements: tuple[str, ...]
    request_class: type[Any]
    machines: ModuleType

    def check_node(self, name: str) -> None:
        """Fails with MS9010 if the plan has no node `name`."""
        if name in self.nodes:
            return
        raise RuntimeFailure(
            "MS9010",
            f"the plan has no node `{name}`",
            notes=[f"it has {', '.join(f'`{n}`' for n in self.nodes)}"],
            helps=did_you_mean(name, self.nodes),
        )

    def check(self, request: Any) -> None:
        """Raises RequestRefused."""
        self.machines.check(request)

    def admit(self, request: Any) -> Admission:
        admission: Admission = self.machines.admit(request)
        return admission


def load_plan(folder: Path) -> LoadedPlan:
    """Reads, checks and imports a plan. Fails with MS9004, MS9005 or MS9006."""
    content = _read_json(folder, PLAN_FILE)
    try:
        if content["abi"] != PLAN_ABI:
            raise _other_abi(folder, content)
        _verify_document(folder / PLAN_FILE, content)
        _verify(folder, content["files"])
        messages, machines = _import_shared(folder)
        outputs = tuple(_declared(entry) for entry in content["outputs"])
        used = {output.via[0] for output in outputs if output.via is not None}
        return LoadedPlan(
            folder=folder,
            model=content["model"],
            spec=content["spec"],
            inputs=tuple(_declared(entry) for entry in content["inputs"]),
            outputs=outputs,
            options=tuple(_declared(entry) for entry in content["options"]),
            nodes=tuple(node["name"] for node in content["nodes"]),
            via_nodes={
                node["name"]: _via_node(node) for node in content["nodes"] if node["name"] in used
            },
            placements=tuple(content["placements"]),
            request_class=messages.Request,
            machines=machines,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise _malformed(folder / PLAN_FILE, error) from error


def usual_placement(plan: LoadedPlan) -> str:
    """The placement that runs where nobody names one."""
    if len(plan.placements) == 1 or "cpu" not in plan.placements:
        return plan.placements[0]
    return "cpu"


def load_placement(plan: LoadedPlan, name: str) -> PlacementFacts:
    """What a placement says. Fails with MS9004 or MS9007."""
    if name not in plan.placements:
        raise RuntimeFailure(
            "MS9007",
            f"the plan has no placement `{name}`",
            notes=[f"it has {', '.join(f'`{n}`' for n in plan.placements)}"],
            helps=[
                *did_you_mean(name, plan.placements),
                f"compile the spec again, with `--placement {name}` beside what else is wanted",
            ],
        )
    relative = f"placements/{name}/placement.json"
    content = _read_json(plan.folder, relative)
    try:
        devices = {
            device["device"] if "device" in device else device["rank"]: device["kind"]
            for device in content["devices"]
        }
        return PlacementFacts(
            name=name,
            devices=devices,
            max_requests=content["max_requests"],
            max_tokens=content["max_tokens"],
            machines={
                machine: MachineStart(rank=start["rank"], step=start["step"])
                for machine, start in content["machines"].items()
            },
            streams={stream: _route(entry) for stream, entry in content["streams"].items()},
            processes=_processes(content, devices),
            groups=tuple(
                GroupFacts(
                    node=group["node"], ranks=tuple(group["ranks"]), tp=group["tp"], sp=group["sp"]
                )
                for group in content.get("groups", ())
            ),
            regions=tuple(region["name"] for region in content.get("regions", ())),
            prefill_tokens=content["prefill_tokens"],
        )
    except (KeyError, TypeError) as error:
        raise _malformed(plan.folder / relative, error) from error


def load_rank(plan: LoadedPlan, placement: str, name: str) -> tuple[type[Rank], Sequence[Step]]:
    """The class and the steps of a rank's module."""
    path = plan.folder / "placements" / placement / f"{name}.py"
    module = _import(path, f"{PACKAGE}.placements.{_identifier(placement)}.{name}")
    rank_class: type[Rank] = module.RANK
    steps: Sequence[Step] = module.STEPS
    return rank_class, steps


def _declared(entry: Mapping[str, Any]) -> Declared:
    via, domain = entry.get("via"), entry.get("domain")
    return Declared(
        name=entry["name"],
        type=entry["type"],
        optional=bool(entry.get("optional", False)),
        default=entry.get("default"),
        via=None if via is None else (via[0], via[1]),
        domain=None if domain is None else tuple(domain),
    )


def _via_node(entry: Mapping[str, Any]) -> ViaNode:
    weights = entry.get("weights") or {}
    if isinstance(weights, str):
        weights = {"source": weights}
    return ViaNode(
        name=entry["name"],
        impl=entry["impl"],
        weights=Weights(
            source=weights.get("source", ""),
            under=weights.get("under", ""),
            seed=weights.get("seed", 0),
            config=weights.get("config", {}),
        ),
    )


def _route(entry: Mapping[str, Any]) -> StreamRoute:
    producers = entry.get("producer_ranks") or [entry["producer_rank"]]
    return StreamRoute(
        producers=tuple(producers), consumer=entry["consumer_rank"], capacity=entry["capacity"]
    )


def _processes(content: Mapping[str, Any], devices: Mapping[int, str]) -> tuple[ProcessFacts, ...]:
    """Without a table of processes, every device is a rank and has one process."""
    if "processes" not in content:
        return tuple(
            ProcessFacts(process=index, rank=device, copy=0, device=device, module=f"rank{device}")
            for index, device in enumerate(devices)
        )
    return tuple(
        ProcessFacts(
            process=entry["process"],
            rank=entry["rank"],
            copy=entry["copy"],
            device=entry["device"],
            module=entry["module"],
        )
        for entry in content["processes"]
    )


def _read_json(folder: Path, relative: str) -> Any:
    path = folder / relative
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _unreadable(path, f"the system says: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, str(error)) from error


def _unreadable(path: Path, note: str) -> RuntimeFailure:
    return RuntimeFailure(
        "MS9004",
        f"`{path}` can't be read",
        notes=[note],
        helps=["`mstarc compile SPEC -o PLAN` makes a plan"],
    )


def _verify_document(path: Path, content: Mapping[str, Any]) -> None:
    noted = content["digest"]
    rest = {key: value for key, value in content.items() if key != "digest"}
    if hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest() != noted:
        raise RuntimeFailure(
            "MS9006",
            f"`{path}` was changed after it was compiled",
            notes=["the digest in its last line is of another content"],
            helps=["edit the spec and compile it again"],
        )


def _verify(folder: Path, files: Mapping[str, str]) -> None:
    for relative, noted in sorted(files.items()):
        path = folder / relative
        try:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise _unreadable(path, f"the system says: {error.strerror}") from error
        if found != noted.removeprefix("sha256:"):
            raise RuntimeFailure(
                "MS9006",
                f"`{path}` was changed after it was compiled",
                notes=[f"plan.json notes sha256 {noted}", f"the file has       {found}"],
                helps=["edit the spec and compile it again"],
            )


def _import_shared(folder: Path) -> tuple[ModuleType, ModuleType]:
    package = ModuleType(PACKAGE)
    package.__path__ = [str(folder)]
    for name in [name for name in sys.modules if name.startswith(f"{PACKAGE}.")]:
        del sys.modules[name]
    sys.modules[PACKAGE] = package
    messages = _import(folder / "messages.py", f"{PACKAGE}.messages")
    return messages, _import(folder / "machines.py", f"{PACKAGE}.machines")


def _import(path: Path, name: str) -> ModuleType:
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    # Not through importlib's finders: they would leave a __pycache__ in the plan.
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), module.__dict__)
    return module


def _identifier(placement: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in placement)


def _other_abi(folder: Path, content: Mapping[str, Any]) -> RuntimeFailure:
    return RuntimeFailure(
        "MS9005",
        f"`{folder}` was compiled for plans of ABI {content['abi']}, and this is ABI {PLAN_ABI}",
        notes=[f"mstarc {content.get('mstarc', '?')} made it"],
        helps=["compile the spec again with the installed `mstarc`"],
    )


def _malformed(path: Path, error: Exception) -> RuntimeFailure:
    return RuntimeFailure(
        "MS9004",
        f"`{path}` is not a plan's file",
        notes=[f"{type(error).__name__}: {error}"],
        helps=["`mstarc compile SPEC -o PLAN` makes a plan"],
    )
