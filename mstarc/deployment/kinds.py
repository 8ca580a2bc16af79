"""Read device kinds: numbers that stand above the catalogue's, and kinds that it does not have.

    device_kinds:
      H200: {memory_bytes: 120e9}         # over the catalogue's own
      MyCard:
        like: L40S                        # what is not given is as there
        memory_bytes: 64e9
        bandwidth_bytes_per_s: 1.2e12

A file of its own (`--devices kinds.yaml`), or a key of a deployment file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from mstarc.deployment.catalog import CATALOG, DeviceKind, device_kind
from mstarc.deployment.nodes import read_root
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label, did_you_mean
from mstarc.ir.types import DTYPE_BYTES
from mstarc.source import SourceFile, Span

_WHOLE = ("memory_bytes", "devices_per_host", "max_requests", "max_tokens")
_TEXTS = ("dtype", "source")
_NOT_GIVEN = ("name", "rates")
_NUMBERS = tuple(
    field.name for field in fields(DeviceKind) if field.name not in (*_WHOLE, *_TEXTS, *_NOT_GIVEN)
)
KEYS = ("like", *_WHOLE, *_NUMBERS, *_TEXTS)
_DTYPES = ("f32", "bf16", "f16")
# Shares and prices may be nothing or small; all other numbers are above zero.
_MAY_BE_ZERO = ("launch_s", "shard_call_s", "hop_s", "network_s", "price")


def read_kinds(file: SourceFile, sink: DiagnosticSink) -> tuple[DeviceKind, ...] | None:
    """The catalogue with what the file says, or none after reporting (MS0625) what is wrong."""
    found = read_root(file, "MS0625", sink)
    if found is None:
        return None
    (root,) = found
    reader = KindsReader(file, sink)
    if root is None or root.id != "mapping":
        reader.error(root, "a file of device kinds has the key `device_kinds`", "this has none")
        return None
    kinds = CATALOG
    for key, value in root.value:
        if str(key.value) != "device_kinds":
            message = f"a file of device kinds has no key `{key.value}`"
            reader.error(key, message, "it has `device_kinds`")
            continue
        kinds = reader.kinds(value, kinds)
    return None if reader.failed else kinds


class KindsReader:
    """Reads the value of `device_kinds`. `failed` says whether something was wrong."""

    def __init__(self, file: SourceFile, sink: DiagnosticSink) -> None:
        self.file = file
        self.sink = sink
        self.failed = False

    def kinds(self, node: Any, known: Sequence[DeviceKind]) -> tuple[DeviceKind, ...]:
        """The known kinds, with those that the mapping changes or adds, in this order."""
        if node is None or node.id != "mapping":
            self.error(node, "`device_kinds` has a name and numbers for each kind", "this has none")
            return tuple(known)
        found = {kind.name: kind for kind in known}
        for key, value in node.value:
            kind = self.kind(key, value, tuple(found.values()))
            if kind is not None:
                found[kind.name] = kind
        return tuple(found.values())

    def kind(self, key: Any, node: Any, known: Sequence[DeviceKind]) -> DeviceKind | None:
        name = str(key.value)
        if node is None or node.id != "mapping":
            self.error(node or key, f"device kind `{name}` has keys and values", "this has none")
            return None
        given: dict[str, Any] = {}
        for word, value in node.value:
            if str(word.value) not in KEYS:
                self.unknown(word, KEYS, "a device kind has no key")
            elif str(word.value) in given:
                self.error(word, f"`{word.value}` is given twice", "again")
            else:
                given[str(word.value)] = value
        base = device_kind(name, known)
        if "like" in given:
            base = device_kind(str(given["like"].value), known)
            if base is None:
                self.unknown(given["like"], [kind.name for kind in known], "there is no kind")
                return None
        if base is None:
            near = did_you_mean(name, [kind.name for kind in known])
            self.error(
                key,
                f"nothing says what a `{name}` is",
                "not in the catalogue, and like nothing in it",
                *(f"did you mean `{kind}`?" for kind in near[:1]),
                "write `like: L40S` (or another kind) for all that is not given",
            )
            return None
        return self.changed(base, device_kind(name, known), name, given)

    def changed(
        self, base: DeviceKind, known: DeviceKind | None, name: str, given: Mapping[str, Any]
    ) -> DeviceKind:
        values: dict[str, Any] = {}
        for word, node in given.items():
            if word == "like":
                continue
            value = self.value(word, node)
            if value is not None:
                values[word] = value
        if "matrix_flops_per_s" in values or "dtype" in values:
            # Rates of other dtypes are those of the kind that it is like.
            values["rates"] = ()
        if "source" not in values:
            values["source"] = f"{self.file.path}; else as {base.name}"
        return replace(base, name=known.name if known is not None else name, **values)

    def value(self, word: str, node: Any) -> int | float | str | None:
        text = str(node.value).replace("_", "") if node.id == "scalar" else ""
        if word == "dtype":
            if text in _DTYPES and text in DTYPE_BYTES:
                return text
            self.error(node, f"`dtype` is one of {', '.join(_DTYPES)}", "this is not")
            return None
        if word == "source":
            return text
        try:
            number = float(text)
        except ValueError:
            self.error(node, f"`{word}` is a number", "this is not")
            return None
        least_is_fine = number >= 0 if word in _MAY_BE_ZERO else number > 0
        if not least_is_fine or number == float("inf"):
            self.error(node, f"`{word}` is a number above zero", "this is not")
            return None
        if word in _WHOLE and number != int(number):
            self.error(node, f"`{word}` is a whole number", "this is not")
            return None
        if word.endswith("_share") and number > 1:
            self.error(node, f"`{word}` is at most 1", "a part of what the data sheet says")
            return None
        return int(number) if word in _WHOLE else number

    def span(self, node: Any) -> Span:
        start, end = node.start_mark.index, node.end_mark.index
        length = len(self.file.text[start:end].rstrip())
        return Span(path=self.file.path, start=start, end=start + length)

    def unknown(self, node: Any, known: Sequence[str], what: str) -> None:
        # Most forget the unit: `memory` for `memory_bytes`.
        near = [word for word in known if word.startswith(f"{node.value}_")]
        near = near or list(did_you_mean(str(node.value), known))
        listed = ", ".join(f"`{word}`" for word in near or known)
        help_ = f"did you mean {listed}?" if near else f"there are {listed}"
        self.error(node, f"{what} `{node.value}`", "", help_)

    def error(self, node: Any, message: str, label: str, *helps: str) -> None:
        self.failed = True
        span = self.file.end_span if node is None else self.span(node)
        primary = Label(span=span, text=label)
        self.sink.report(Diagnostic(code="MS0625", message=message, primary=primary, helps=helps))
