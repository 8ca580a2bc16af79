"""Read a deployment file: every key known, every value of its type, else a diagnostic."""

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, TypeVar

from mstarc.deployment.catalog import CATALOG, DeviceKind, Devices, parse_devices
from mstarc.deployment.idle import report_idle
from mstarc.deployment.keys import (
    BACKENDS,
    GROUP,
    KV_CACHE,
    PAGE_LABEL,
    RESOURCES,
    TOP,
    page_size_remedy,
)
from mstarc.deployment.model import Deployment, Group, Kwarg, Named, Number
from mstarc.deployment.nodes import read_root
from mstarc.deployment.sizes import ConfigValue
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label, did_you_mean
from mstarc.source import SourceFile, Span

Found = TypeVar("Found")

# Settings of other systems that decide nothing here: accepted, and never without a word.
_IDLE = {
    "flashinfer_backend": "the runtime picks FlashInfer's kernels for the GPU and the call",
}
_WORDS = {
    "component": "node_names",
    "hosts": "devices",
    "nodes": "node_names",
    "page_tokens": "page_size",
    "walks": "graph_walks",
}
_PLACES: Mapping[str, Mapping[str, str]] = {
    "a node group": GROUP,
    "`kv_cache`": KV_CACHE,
    "no block: it begins a line": TOP,
}


def read_deployment(
    file: SourceFile, sink: DiagnosticSink, kinds: tuple[DeviceKind, ...] = CATALOG
) -> Deployment | None:
    """What the file says, or None after reporting what is wrong with it."""
    root = read_root(file, "MS0602", sink)
    return None if root is None else _Reader(file, sink, kinds).deployment(root[0])


class _Reader:
    def __init__(
        self, file: SourceFile, sink: DiagnosticSink, kinds: tuple[DeviceKind, ...]
    ) -> None:
        self.file = file
        self.sink = sink
        self.kinds = kinds
        self.failed = False
        # Keys that others may have been meant for: that they are missing follows from it.
        self.meant: set[str] = set()

    def deployment(self, root: Any) -> Deployment | None:
        if root is None:
            remedy = "begin with `model:` and `node_groups:`; docs/deployment.md has a whole file"
            self.error("MS0604", self.file.end_span, "the deployment file is empty", "", remedy)
            return None
        top = self.mapping(root, tuple(TOP), "a deployment")
        if top is None:
            return None
        model = self.required(top, "model", root, self.named)
        groups = self.required(top, "node_groups", root, self.groups)
        kv_cache = self.kv_cache(top)
        kwargs = self.optional(top, "model_kwargs", self.kwargs) or ()
        own_kinds = self.optional(top, "device_kinds", self.device_kinds) or ()
        deployment_devices = self.optional(top, "devices", self.devices)
        max_seq_len = self.optional(top, "max_seq_len", self.positive)
        max_requests = self.optional(top, "max_concurrent_requests", self.positive)
        stretch = self.optional(top, "stretch", self.whole)
        if self.failed or model is None or groups is None:
            return None
        return Deployment(
            name=PurePosixPath(self.file.path).stem,
            path=self.file.path,
            model=model,
            kinds=own_kinds,
            devices=deployment_devices,
            devices_span=self.span(top["devices"][1]) if "devices" in top else None,
            max_seq_len=max_seq_len,
            max_requests=max_requests,
            stretch=stretch,
            max_pages=kv_cache.get("max_num_pages"),
            page_tokens=kv_cache.get("page_size"),
            prefill_tokens=kv_cache.get("prefill_tokens"),
            lent_pages=kv_cache.get("cpu_offload_pages"),
            kwargs=kwargs,
            groups=groups,
            groups_span=self.span(top["node_groups"][0]),
        )

    def span(self, node: Any) -> Span:
        start, end = node.start_mark.index, node.end_mark.index
        text = self.file.text[start:end]
        return Span(path=self.file.path, start=start, end=start + len(text.rstrip()))

    def error(self, code: str, span: Span, message: str, label: str, *helps: str) -> None:
        primary = Label(span=span, text=label)
        self.report(Diagnostic(code=code, message=message, primary=primary, helps=helps))

    def report(self, diagnostic: Diagnostic) -> None:
        self.failed = True
        self.sink.report(diagnostic)

    def mapping(self, node: Any, known: tuple[str, ...], what: str) -> dict[str, Any] | None:
        """Key and value nodes by key; unknown and repeated keys are reported."""
        if node.id != "mapping":
            label = f"{_article(node)} where {what} has keys and values"
            self.error("MS0602", self.span(node), f"{what} is written as keys and values", label)
            return None
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = str(key.value)
            if key.id != "scalar" or name not in known:
                self.unknown_key(name, self.span(key), known, what)
            elif name in found:
                first = self.span(found[name][0])
                message = f"key `{name}` is given twice"
                diagnostic = Diagnostic(
                    code="MS0602",
                    message=message,
                    primary=Label(span=self.span(key), text="again"),
                    helps=("take one of the two away",),
                )
                self.sink.report(diagnostic.label(first, "first here"))
                self.failed = True
            else:
                found[name] = (key, value)
        return found

    def unknown_key(self, name: str, span: Span, known: tuple[str, ...], what: str) -> None:
        near = (_WORDS[name],) if _WORDS.get(name) in known else did_you_mean(name, known)
        self.meant.update(near)
        helps = (f"did you mean {_listed(near)}?",) if near else ()
        place = next((place for place, keys in _PLACES.items() if name in keys), None)
        if not near and place is not None:
            helps = (f"`{name}` stands in {place}",)
        label = f"{what} has the keys {_listed(known)}"
        self.error("MS0603", span, f"unknown key `{name}` in {what}", label, *helps)

    def required(
        self, found: Mapping[str, Any], key: str, owner: Any, read: Callable[[Any], Found | None]
    ) -> Found | None:
        if key not in found and key in self.meant:
            return None  # it is misspelt, which is reported
        if key not in found:
            span = self.span(owner)
            # A missing key has no place of its own: point at where the mapping begins.
            line_end = self.file.text.find("\n", span.start)
            end = min(span.end, line_end if line_end >= 0 else span.end)
            self.error(
                "MS0604",
                Span(path=span.path, start=span.start, end=end),
                f"{'a node group' if key in GROUP else 'the deployment'} has no `{key}`",
                f"`{key}` is missing here",
            )
            return None
        return read(found[key][1])

    def optional(
        self, found: Mapping[str, Any], key: str, read: Callable[[Any], Found | None]
    ) -> Found | None:
        return read(found[key][1]) if key in found else None

    def wrong(self, node: Any, expected: str, *helps: str) -> None:
        span = self.span(node)
        self.error("MS0605", span, f"expected {expected}, found {_article(node)}", "", *helps)

    def named(self, node: Any) -> Named | None:
        if node.id != "scalar" or not node.tag.endswith(":str") or not node.value:
            self.wrong(node, "a name")
            return None
        return Named(value=node.value, span=self.span(node))

    def number(self, node: Any, least: int) -> Number | None:
        expected = f"a whole number of at least {least}"
        digits = str(node.value).replace("_", "") if node.id == "scalar" else ""
        if not (node.id == "scalar" and node.tag.endswith(":int") and _is_decimal(digits)):
            self.wrong(node, expected, *_number_meant(node))
            return None
        if int(digits) < least:
            span = self.span(node)
            self.error("MS0605", span, f"expected {expected}, found {int(digits)}", "")
            return None
        return Number(value=int(digits), span=self.span(node))

    def positive(self, node: Any) -> Number | None:
        return self.number(node, 1)

    def whole(self, node: Any) -> Number | None:
        return self.number(node, 0)

    def rank(self, node: Any) -> Number | None:
        return self.number(node, 0)

    def device_kinds(self, node: Any) -> tuple[DeviceKind, ...] | None:
        from mstarc.deployment.kinds import KindsReader  # loaded here: few files have their own

        reader = KindsReader(self.file, self.sink)
        self.kinds = reader.kinds(node, self.kinds)
        self.failed = self.failed or reader.failed
        return self.kinds

    def devices(self, node: Any) -> Devices | None:
        name = self.named(node)
        devices = parse_devices(name.value, self.kinds) if name is not None else None
        if name is not None and devices is None:
            known = [kind.name for kind in self.kinds]
            count, by, kind = name.value.rpartition("x")
            near = [f"{count}{by}{meant}" for meant in did_you_mean(kind, known)]
            self.error(
                "MS0601",
                name.span,
                f"unknown devices `{name.value}`",
                "",
                "write a count and a kind, such as `2xH200` or `cpu`",
                f"did you mean {_listed(near)}?" if near else f"kinds are {_listed(known)}",
            )
        return devices

    def items(
        self, node: Any, expected: str, read: Callable[[Any], Found | None]
    ) -> tuple[Found, ...] | None:
        if node.id != "sequence":
            is_one = (
                node.id == "scalar"
                and node.value
                and (read != self.rank or _is_decimal(node.value))
            )
            self.wrong(node, expected, *([f"write `[{node.value}]`"] if is_one else ()))
            return None
        found = [read(item) for item in node.value]
        return tuple(item for item in found if item is not None)

    def groups(self, node: Any) -> tuple[Group, ...] | None:
        groups = self.items(node, "a list of node groups", self.group)
        if groups is not None and not node.value:
            self.error("MS0604", self.span(node), "the deployment places no node", "an empty list")
        return groups

    def group(self, node: Any) -> Group | None:
        found = self.mapping(node, tuple(GROUP), "a node group")
        if found is None:
            return None
        nodes = self.required(found, "node_names", node, self.names)
        ranks = self.required(found, "ranks", node, self.ranks)
        tp_size = self.optional(found, "tp_size", self.positive)
        sp_size = self.optional(found, "sp_size", self.positive)
        walks = self.optional(found, "graph_walks", self.names)
        if not nodes or not ranks:
            return None
        return Group(
            nodes=nodes,
            ranks=ranks,
            ranks_span=self.span(found["ranks"][1]),
            tp_size=tp_size,
            sp_size=sp_size,
            walks=walks,
            span=self.span(node),
        )

    def names(self, node: Any) -> tuple[Named, ...] | None:
        names = self.items(node, "a list of names", self.named)
        if names is not None and not node.value:
            self.error("MS0605", self.span(node), "expected at least one name, found none", "")
        return names

    def ranks(self, node: Any) -> tuple[Number, ...] | None:
        ranks = self.items(node, "a list of ranks", self.rank)
        if ranks is None:
            return None
        if not node.value:
            helps = ("name at least one rank, such as `ranks: [0]`",)
            self.error("MS0611", self.span(node), "a node group has no ranks", "empty", *helps)
        seen: dict[int, Number] = {}
        for rank in ranks:
            if rank.value in seen:
                message = f"rank {rank.value} is named twice in one group"
                primary = Label(span=rank.span, text="again")
                diagnostic = Diagnostic(code="MS0610", message=message, primary=primary)
                self.sink.report(diagnostic.label(seen[rank.value].span, "first here"))
                self.failed = True
            seen.setdefault(rank.value, rank)
        return ranks

    def kv_cache(self, top: Mapping[str, Any]) -> dict[str, Number]:
        """The settings of the KV cache, which newer files write under `resources`."""
        found: dict[str, Number] = {}
        places = [top["kv_cache"]] if "kv_cache" in top else []
        if "resources" in top:
            resources = self.mapping(top["resources"][1], tuple(RESOURCES), "`resources`") or {}
            places.extend(resources.values())
        if len(places) > 1:
            primary = Label(span=self.span(places[1][0]), text="here under `resources` too")
            message = "the KV cache is set twice"
            twice = Diagnostic(code="MS0602", message=message, primary=primary)
            self.report(twice.label(self.span(places[0][0]), "first here"))
        for _, value in places[:1]:
            for name, (key, setting) in (
                self.mapping(value, tuple(KV_CACHE), "`kv_cache`") or {}
            ).items():
                if name in _IDLE:
                    self.idle(name, key, setting)
                    continue
                least = 0 if name == "cpu_offload_pages" else 1
                if (number := self.number(setting, least)) is None:
                    continue
                found[name] = number
                if name == "page_size" and (remedy := page_size_remedy(number.value)):
                    message = f"the kernels are built for no pages of {number.value} rows"
                    self.error("MS0605", number.span, message, PAGE_LABEL, remedy)
        return found

    def idle(self, name: str, key: Any, setting: Any) -> None:
        """Check the type of a setting that decides nothing here, and say so (MS0630)."""
        if self.one_of(setting, BACKENDS):
            report_idle(name, self.span(key), _IDLE[name], self.sink)

    def one_of(self, node: Any, known: tuple[str, ...]) -> bool:
        """Whether a value is one of a few words; else it is reported."""
        word = self.named(node)
        if word is None or word.value in known:
            return word is not None
        near = did_you_mean(word.value, known)
        helps = (f"did you mean {_listed(near)}?",) if near else ()
        self.error(
            "MS0605", word.span, f"expected {_listed(known)}, found `{word.value}`", "", *helps
        )
        return False

    def kwargs(self, node: Any) -> tuple[Kwarg, ...]:
        if node.id != "mapping":
            self.wrong(node, "keys and values")
            return ()
        known = tuple(str(key.value) for key, _ in node.value)
        found = self.mapping(node, known, "`model_kwargs`") or {}
        return tuple(
            Kwarg(name=Named(value=name, span=self.span(key)), value=value, span=self.span(setting))
            for name, (key, setting) in found.items()
            if (value := self.plain(setting)) is not None
        )

    def plain(self, node: Any) -> ConfigValue | None:
        """A value of config: a number, a text, a truth value, or a list of these."""
        from yaml import SafeLoader  # loaded here: few files have values of this kind

        value = SafeLoader("").construct_object(node, deep=True)
        items = value if isinstance(value, list) else [value]
        if all(isinstance(item, int | float | bool | str) for item in items):
            return tuple(value) if isinstance(value, list) else value
        self.wrong(node, "a number, a text, a truth value or a list of these")
        return None


def _is_decimal(text: str) -> bool:
    text = text.removeprefix("-").removeprefix("+")
    return text.isascii() and text.isdigit() and (text == "0" or not text.startswith("0"))


def _number_meant(node: Any) -> tuple[str, ...]:
    """What to write for a number in quotes, or with a letter for thousands."""
    text = str(node.value) if node.id == "scalar" else ""
    if _is_decimal(text.replace("_", "")):
        return (f"write `{text}`, without quotes",)
    digits, unit = text[:-1], text[-1:].lower()
    if unit in ("k", "m") and _is_decimal(digits):
        power = 1 if unit == "k" else 2
        return (f"write `{int(digits) * 1024**power}`, or `{int(digits) * 1000**power}`",)
    return ()


def _article(node: Any) -> str:
    if node.id != "scalar":
        return "a list" if node.id == "sequence" else "keys and values"
    return "nothing" if node.tag.endswith(":null") else f"`{node.value}`"


def _listed(names: "tuple[str, ...] | list[str]") -> str:
    return ", ".join(f"`{name}`" for name in names)
