"""Profiles: what was measured of a plan's ops and of the machine, as a file.

    model: orpheus
    device: cpu                       # the kind that was measured
    facts: {bandwidth_bytes_per_s: 11.2e9, matrix_flops_per_s: 95e9, hop_s: 74e-6}
    weights: {lm: 4718592}            # bytes on that device
    ops:
      lm.step:
        - {batch: 1, rows: 1, context: 64, seconds: 0.00061}
        - {batch: 8, rows: 1, context: 64, seconds: 0.00188}

`mstarc bench --calibrate` writes one, `--profile` reads it. Facts stand above those of the kind in
the catalogue; seconds of an op stand above those that are worked out.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from math import inf, log
from typing import Any

from mstarc.deployment.catalog import DeviceKind, device_kind
from mstarc.deployment.nodes import read_root
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label, did_you_mean
from mstarc.records import dataclass
from mstarc.source import SourceFile, Span

FACTS = (
    "bandwidth_bytes_per_s",
    "matrix_flops_per_s",
    "hop_s",
    "launch_s",
    "link_bytes_per_s",
    "shard_call_s",
)
_TOP = ("model", "device", "facts", "weights", "ops")
_POINT = ("batch", "rows", "context", "seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpPoint:
    """One measured call: requests in it, rows of a free size, rows of context, seconds."""

    batch: int
    rows: int
    context: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredProfile:
    """A profile. `ops` are by (node, op); points in the order of rows and batch."""

    model: str
    device: str
    facts: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, int] = field(default_factory=dict)
    ops: Mapping[tuple[str, str], tuple[OpPoint, ...]] = field(default_factory=dict)

    def op_seconds(
        self, kind: DeviceKind, node: str, op: str, *, batch: int, rows: int
    ) -> tuple[float, tuple[int, int]] | None:
        """Seconds of a measured call near this one, and the (batch, rows) that they are of.

        Between two measured batches of the same rows it is on the line between them.
        """
        points = self.ops.get((node, op), ())
        if kind.name != self.device or not points:
            return None
        nearest = min((p.rows for p in points), key=lambda n: (abs(log(n / max(rows, 1))), n))
        line = sorted((p for p in points if p.rows == nearest), key=lambda p: p.batch)
        below = [p for p in line if p.batch <= batch]
        above = [p for p in line if p.batch >= batch]
        if not below or not above:
            end = above[0] if above else below[-1]
            return end.seconds, (end.batch, nearest)
        low, high = below[-1], above[0]
        if low.batch == high.batch:
            return low.seconds, (batch, nearest)
        part = (batch - low.batch) / (high.batch - low.batch)
        return low.seconds + part * (high.seconds - low.seconds), (batch, nearest)


def with_facts(kind: DeviceKind, profile: MeasuredProfile) -> DeviceKind:
    """The kind with what was measured of it: what a kernel reaches, so no share of it is lost."""
    if kind.name != profile.device:
        return kind
    changes: dict[str, Any] = dict(profile.facts)
    if "bandwidth_bytes_per_s" in changes:
        changes["bandwidth_share"] = 1.0
    if "matrix_flops_per_s" in changes:
        changes["matrix_share"] = 1.0
        changes["rates"] = ()
    return replace(kind, **changes)


def read_profile(
    file: SourceFile, kinds: tuple[DeviceKind, ...], sink: DiagnosticSink
) -> MeasuredProfile | None:
    """What the file says, or none after reporting (MS0626) what is wrong with it."""
    found = read_root(file, "MS0626", sink)
    return None if found is None else _Reader(file, kinds, sink).profile(found[0])


def print_profile(profile: MeasuredProfile) -> str:
    """The text of a profile: the same for the same numbers."""
    lines = [f"model: {profile.model}", f"device: {profile.device}"]
    if profile.facts:
        lines.append("facts:")
        lines += [f"  {name}: {_number(profile.facts[name])}" for name in sorted(profile.facts)]
    if profile.weights:
        lines.append("weights:")
        lines += [f"  {name}: {size}" for name, size in profile.weights.items()]
    if profile.ops:
        lines.append("ops:")
    for (node, op), points in profile.ops.items():
        lines.append(f"  {node}.{op}:")
        lines += [
            f"    - {{batch: {point.batch}, rows: {point.rows}, context: {point.context}, "
            f"seconds: {_number(point.seconds)}}}"
            for point in points
        ]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    """With a point, so that YAML reads a number: `1.25e-05`."""
    text = f"{value:.4g}"
    return text if "e" not in text or "." in text else text.replace("e", ".0e")


class _Reader:
    def __init__(
        self, file: SourceFile, kinds: tuple[DeviceKind, ...], sink: DiagnosticSink
    ) -> None:
        self.file = file
        self.kinds = kinds
        self.sink = sink
        self.failed = False

    def profile(self, root: Any) -> MeasuredProfile | None:
        top = self.mapping(root, "a profile", _TOP)
        for key in ("model", "device"):
            if key not in top:
                self.error(root, f"the profile has no `{key}`", "it is missing here")
        device = top.get("device")
        kind = device_kind(str(device.value), self.kinds) if device is not None else None
        if device is not None and kind is None:
            names = [known.name for known in self.kinds]
            near = did_you_mean(str(device.value), names)
            self.error(
                device,
                f"there is no device kind `{device.value}`",
                "",
                f"did you mean `{near[0]}`?" if near else f"there are {', '.join(names)}",
            )
        facts = self.mapping(top.get("facts"), "`facts`", FACTS)
        weights = self.mapping(top.get("weights"), "`weights`")
        ops = {
            name: self.points(name, node)
            for name, node in self.mapping(top.get("ops"), "`ops`").items()
        }
        values = {name: self.number(name, node, inf) for name, node in facts.items()}
        sizes = {name: int(self.number(name, node, inf)) for name, node in weights.items()}
        if self.failed or kind is None:
            return None
        return MeasuredProfile(
            model=str(top["model"].value),
            device=kind.name,
            facts=values,
            weights=sizes,
            ops={
                (name.partition(".")[0], name.partition(".")[2]): found
                for name, found in ops.items()
            },
        )

    def points(self, name: str, node: Any) -> tuple[OpPoint, ...]:
        if "." not in name:
            self.error(node, f"`{name}` is no op", "an op is written `node.op`")
        if node is None or node.id != "sequence" or not node.value:
            self.error(node, f"`{name}` has a list of measured calls", "this has none")
            return ()
        found: list[OpPoint] = []
        for item in node.value:
            values = self.mapping(item, "a measured call", _POINT)
            for key in ("batch", "seconds"):
                if key not in values:
                    self.error(item, f"a measured call has a `{key}`", "this has none")
            numbers = {key: self.number(key, value, inf) for key, value in values.items()}
            found.append(
                OpPoint(
                    batch=int(numbers.get("batch", 1)),
                    rows=int(numbers.get("rows", 1)),
                    context=int(numbers.get("context", 0)),
                    seconds=numbers.get("seconds", 1.0),
                )
            )
        return tuple(sorted(found, key=lambda p: (p.rows, p.batch, p.context)))

    def mapping(self, node: Any, what: str, known: tuple[str, ...] = ()) -> dict[str, Any]:
        if node is None:
            return {}
        if node.id != "mapping":
            self.error(node, f"{what} is written as keys and values", "this has none")
            return {}
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = str(key.value)
            if known and name not in known:
                near = did_you_mean(name, known)
                listed = ", ".join(f"`{word}`" for word in near or known)
                help_ = f"did you mean {listed}?" if near else f"it has {listed}"
                self.error(key, f"{what} has no key `{name}`", "", help_)
            elif name in found:
                self.error(key, f"`{name}` is given twice", "again")
            else:
                found[name] = value
        return found

    def number(self, name: str, node: Any, most: float) -> float:
        least = 0.0 if name in ("context", "hop_s", "launch_s", "shard_call_s") else 1e-12
        try:
            value = float(str(node.value).replace("_", ""))
        except ValueError:
            value = -1.0
        if not least <= value < most:
            self.error(node, f"`{name}` is a number above zero", "this is not")
            return 1.0
        return value

    def error(self, node: Any, message: str, label: str, *helps: str) -> None:
        self.failed = True
        if node is None:
            span = self.file.end_span
        else:
            start, end = node.start_mark.index, node.end_mark.index
            length = len(self.file.text[start:end].rstrip())
            span = Span(path=self.file.path, start=start, end=start + length)
        primary = Label(span=span, text=label)
        self.sink.report(Diagnostic(code="MS0626", message=message, primary=primary, helps=helps))
