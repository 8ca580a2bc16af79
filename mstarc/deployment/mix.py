"""Mixes: what requests look like, for placing a program and for simulating it.

    requests:
      - share: 3                         # of all requests, beside the others
        rows: 40..200                    # of a prompt: sizes that only the request knows
        options: {max_tokens: 400}
        passes: {decode: 120..360}       # of the loop in a walk or `machine.state`
        parts: {text: 1, image: 2}       # of an input that is a sequence of media
        wants: [reply]                   # outputs; all of them where nothing is said
      - rows: 1500
        options: {max_tokens: 64}

A number is itself, `low..high` is any whole number from one to the other, each as likely. Loops
that a bound alone ends need no `passes`; without any, a loop runs to its bound.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from mstarc.deployment.nodes import read_root
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label, did_you_mean
from mstarc.records import dataclass
from mstarc.source import SourceFile, Span

CODE = "MS0640"
_KEYS = ("share", "rows", "options", "passes", "parts", "wants")


@dataclass(frozen=True, slots=True)
class Range:
    """Whole numbers from `low` to `high`, both among them."""

    low: int
    high: int

    @property
    def mean(self) -> float:
        return (self.low + self.high) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestKind:
    """Requests of one kind: `share` of them beside the shares of other kinds.

    `rows` None means as many as the estimates take. `passes` are by walk or by `machine.state`,
    `parts` by media kind. `wants` () is every output.
    """

    share: float = 1.0
    rows: Range | None = None
    options: Mapping[str, float | bool | str] = field(default_factory=dict)
    passes: Mapping[str, Range] = field(default_factory=dict)
    parts: Mapping[str, int] = field(default_factory=dict)
    wants: tuple[str, ...] = ()


def read_mix(file: SourceFile, sink: DiagnosticSink) -> tuple[RequestKind, ...] | None:
    """The kinds of requests of a mix; none after reporting (MS0640) what is wrong."""
    found = read_root(file, CODE, sink)
    if found is None:
        return None
    (root,) = found
    reader = _Reader(file, sink)
    if (
        root is None
        or root.id != "mapping"
        or [str(k.value) for k, _ in root.value] != ["requests"]
    ):
        reader.error(root, "a mix has the key `requests` and no other", "this has not")
        return None
    (_, entries) = root.value[0]
    if entries.id != "sequence" or not entries.value:
        reader.error(entries, "`requests` is a list of kinds of requests", "this is none")
        return None
    kinds = tuple(reader.kind(entry) for entry in entries.value)
    return None if reader.failed else kinds


class _Reader:
    def __init__(self, file: SourceFile, sink: DiagnosticSink) -> None:
        self.file = file
        self.sink = sink
        self.failed = False

    def kind(self, node: Any) -> RequestKind:
        given: dict[str, Any] = {}
        for key, value in self.entries(node, "a kind of requests"):
            if key not in _KEYS:
                near = did_you_mean(key, _KEYS)
                helps = tuple(f"did you mean `{word}`?" for word in near[:1])
                listed = ", ".join(f"`{word}`" for word in _KEYS)
                message = f"a kind of requests has no key `{key}`"
                self.error(value, message, "its value", *helps, f"it has {listed}")
            given[key] = value
        share = self.number(given["share"], "share") if "share" in given else 1.0
        return RequestKind(
            share=share,
            rows=self.range(given["rows"], "rows") if "rows" in given else None,
            options=self.options(given.get("options")),
            passes=self.ranges(given.get("passes"), "passes"),
            parts={
                name: found.high for name, found in self.ranges(given.get("parts"), "parts").items()
            },
            wants=self.names(given.get("wants"), "wants"),
        )

    def entries(self, node: Any, what: str) -> Sequence[tuple[str, Any]]:
        if node is None:
            return ()
        if node.id != "mapping":
            self.error(node, f"{what} has keys and values", "this has none")
            return ()
        return [(str(key.value), value) for key, value in node.value]

    def options(self, node: Any) -> dict[str, float | bool | str]:
        found: dict[str, float | bool | str] = {}
        for name, value in self.entries(node, "`options`"):
            text = str(value.value) if value.id == "scalar" else ""
            if text in ("true", "false"):
                found[name] = text == "true"
                continue
            try:
                found[name] = float(text)
            except ValueError:
                found[name] = text
        return found

    def names(self, node: Any, what: str) -> tuple[str, ...]:
        if node is None:
            return ()
        if node.id != "sequence" or any(item.id != "scalar" for item in node.value):
            self.error(node, f"`{what}` is a list of names", "this is none")
            return ()
        return tuple(str(item.value) for item in node.value)

    def ranges(self, node: Any, what: str) -> dict[str, Range]:
        return {
            name: self.range(value, f"{what} of {name}")
            for name, value in self.entries(node, f"`{what}`")
        }

    def range(self, node: Any, what: str) -> Range:
        text = str(node.value) if node.id == "scalar" else ""
        low, dots, high = text.partition("..")
        try:
            found = Range(int(low), int(high if dots else low))
        except ValueError:
            self.error(node, f"`{what}` is a whole number or `low..high`", "this is not")
            return Range(0, 0)
        if not 0 <= found.low <= found.high:
            self.error(node, f"`{what}` goes from a lower number to a higher one", "this does not")
        return found

    def number(self, node: Any, what: str) -> float:
        try:
            found = float(str(node.value) if node.id == "scalar" else "")
        except ValueError:
            found = 0.0
        if not 0.0 < found < float("inf"):
            self.error(node, f"`{what}` is a number above zero", "this is not")
            return 1.0
        return found

    def error(self, node: Any, message: str, label: str, *helps: str) -> None:
        self.failed = True
        span = self.file.end_span
        if node is not None:
            start, end = node.start_mark.index, node.end_mark.index
            length = len(self.file.text[start:end].rstrip())
            span = Span(path=self.file.path, start=start, end=start + length)
        primary = Label(span=span, text=label)
        self.sink.report(Diagnostic(code=CODE, message=message, primary=primary, helps=helps))
