"""Read a file of sizes: what stands above a spec's config and its weights, for one compilation.

    config:
      eos: 2
    weights:
      lm:
        source: random
        seed: 0
        config: {num_hidden_layers: 2, hidden_size: 64}

A `.json` file is a checkpoint's config.json instead: its keys are those that the spec's config
items name with `from`.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from mstarc.deployment.nodes import read_root, report_malformed
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label, did_you_mean
from mstarc.records import dataclass
from mstarc.source import SourceFile, Span

ConfigScalar: TypeAlias = int | float | bool | str
ConfigValue: TypeAlias = ConfigScalar | tuple[ConfigScalar, ...]

_TOP = ("config", "weights")
_UNITS = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_WEIGHTS = ("source", "under", "seed", "config", "size", "kept")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSizes:
    """What a file says of one node's weights; `config` has the keys of a checkpoint's config.

    `size_bytes` is what they take on a device, `kept_bytes` what the node keeps there besides, such
    as the same numbers in another form.
    """

    node: str
    node_span: Span
    source: str | None = None
    under: str = ""
    seed: int = 0
    size_bytes: int | None = None
    kept_bytes: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesFile:
    """A whole file. `spans` says where each value of `config` stands."""

    config: Mapping[str, ConfigValue] = field(default_factory=dict)
    spans: Mapping[str, Span] = field(default_factory=dict)
    weights: tuple[NodeSizes, ...] = ()
    checkpoint: Mapping[str, Any] = field(default_factory=dict)


def read_sizes(file: SourceFile, sink: DiagnosticSink) -> SizesFile | None:
    """What the file says, or none after reporting (MS0009) what is wrong with it."""
    if file.path.endswith(".json"):
        return _read_checkpoint(file, sink)
    root = read_root(file, "MS0009", sink)
    if root is None:
        return None
    # Loaded here: a checkpoint's config.json needs it not, and the import takes 20 ms.
    import yaml

    reader = _Reader(file, sink, yaml.SafeLoader(""))
    try:
        sizes = reader.sizes(root[0])
    except yaml.MarkedYAMLError as error:
        report_malformed(file, error, "MS0009", sink)
        return None
    return None if reader.failed else sizes


def _read_checkpoint(file: SourceFile, sink: DiagnosticSink) -> SizesFile | None:
    # Not through YAML, whose 1.1 reads the number 1e-05 as a text.
    problem, offset = "it is a list or one value, and not keys and values", 0
    try:
        checkpoint = json.loads(file.text)
    except json.JSONDecodeError as error:
        problem, offset = error.msg, error.pos
    else:
        if isinstance(checkpoint, dict):
            return SizesFile(checkpoint=checkpoint)
    place = Span(path=file.path, start=offset, end=min(offset + 1, len(file.text)))
    sink.error("MS0009", place, "the file is no checkpoint's config.json", problem)
    return None


def refuse_unknown_nodes(sizes: SizesFile, known: Iterable[str], sink: DiagnosticSink) -> None:
    """Report (MS0009) each node of the file that the spec does not have."""
    names = tuple(known)
    for entry in sizes.weights:
        if entry.node in names:
            continue
        near = did_you_mean(entry.node, names)
        found = Diagnostic(
            code="MS0009",
            message=f"the spec has no node `{entry.node}`",
            primary=Label(span=entry.node_span, text="weights are given for it"),
            helps=(f"did you mean `{near[0]}`?",) if near else (),
        )
        sink.report(found)


class _Reader:
    def __init__(self, file: SourceFile, sink: DiagnosticSink, loader: Any) -> None:
        self.file = file
        self.sink = sink
        self.loader = loader
        self.failed = False

    def sizes(self, root: Any) -> SizesFile:
        top = self.mapping(root, "a file of sizes", _TOP)
        config: dict[str, ConfigValue] = {}
        spans: dict[str, Span] = {}
        for name, (_, value) in self.mapping(top.get("config"), "`config`").items():
            found = self.value(value)
            if found is not None:
                config[name] = found
                spans[name] = self.span(value)
        weights = [
            self.node(name, key, value)
            for name, (key, value) in self.mapping(top.get("weights"), "`weights`").items()
        ]
        return SizesFile(config=config, spans=spans, weights=tuple(weights))

    def node(self, name: str, key: Any, value: Any) -> NodeSizes:
        what = f"the weights of `{name}`"
        entry = self.mapping((key, value), what, _WEIGHTS)
        return NodeSizes(
            node=name,
            node_span=self.span(key),
            source=self.scalar(entry, "source", str, "a name"),
            under=self.scalar(entry, "under", str, "a prefix of names") or "",
            seed=self.scalar(entry, "seed", int, "a whole number") or 0,
            size_bytes=self.size(entry, "size"),
            kept_bytes=self.size(entry, "kept"),
            config=self.plain(entry["config"][1], what) if "config" in entry else {},
        )

    def size(self, entry: Mapping[str, Any], key: str) -> int | None:
        """Bytes: a whole number, or a number with a unit as in a spec, such as `6.6 GB`."""
        if key not in entry:
            return None
        node = entry[key][1]
        number, _, unit = str(getattr(node, "value", "")).partition(" ")
        try:
            value = float(number.replace("_", "")) * _UNITS[unit.strip()]
        except (KeyError, ValueError):
            value = 0.0
        if not 1 <= value < 1e18:
            self.error(node, f"`{key}` is a number of bytes", "this is not", "write `6.6 GB`")
            return None
        return int(value)

    def mapping(
        self, node: Any, what: str, known: tuple[str, ...] = ()
    ) -> dict[str, tuple[Any, Any]]:
        """Key and value nodes by key; of a (key, value) pair the value. None is an empty one."""
        node = node[1] if isinstance(node, tuple) else node
        if node is None:
            return {}
        if node.id != "mapping":
            self.error(node, f"{what} is written as keys and values", "this has none")
            return {}
        found: dict[str, tuple[Any, Any]] = {}
        for key, value in node.value:
            name = str(key.value)
            if known and name not in known:
                near = did_you_mean(name, known)
                listed = ", ".join(f"`{word}`" for word in near or known)
                remedy = f"did you mean {listed}?" if near else f"it has {listed}"
                self.error(key, f"{what} has no key `{name}`", "", remedy)
            elif name in found:
                self.error(key, f"`{name}` is given twice", "again")
            else:
                found[name] = (key, value)
        return found

    def scalar(self, entry: Mapping[str, Any], key: str, kind: type[Any], wanted: str) -> Any:
        if key not in entry:
            return None
        value = self.construct(entry[key][1])
        if isinstance(value, kind) and not isinstance(value, bool):
            return value
        self.error(entry[key][1], f"`{key}` is {wanted}", "this is not")
        return None

    def value(self, node: Any) -> ConfigValue | None:
        value = self.construct(node)
        if isinstance(value, list):
            value = tuple(value)
        items = value if isinstance(value, tuple) else (value,)
        if all(isinstance(item, int | float | bool | str) for item in items):
            found: ConfigValue = value
            return found
        self.error(node, "a config value is a number, a text, a truth value or a list of these", "")
        return None

    def plain(self, node: Any, what: str) -> dict[str, Any]:
        value = self.construct(node)
        if isinstance(value, dict):
            return value
        self.error(node, f"{what} is written as keys and values", "this has none")
        return {}

    def construct(self, node: Any) -> Any:
        return None if node is None else self.loader.construct_object(node, deep=True)

    def span(self, node: Any) -> Span:
        start, end = node.start_mark.index, node.end_mark.index
        length = len(self.file.text[start:end].rstrip())
        return Span(path=self.file.path, start=start, end=start + length)

    def error(self, node: Any, message: str, label: str, *helps: str) -> None:
        self.failed = True
        span = self.file.end_span if node is None else self.span(node)
        primary = Label(span=span, text=label)
        self.sink.report(Diagnostic(code="MS0009", message=message, primary=primary, helps=helps))
