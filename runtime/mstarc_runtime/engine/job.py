"""One request at a host step: what generated code sees as `Job`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


@dataclass(slots=True, kw_only=True)
class Job:
    """One request at a host step. Its emits and sends land when the job is done."""

    slot: int
    options: Mapping[str, Any]
    read_input: Callable[[str], Any]
    chunks: dict[str, Tensor] = field(default_factory=dict)
    emits: list[tuple[str, Any]] = field(default_factory=list)
    sends: list[tuple[Any, Any]] = field(default_factory=list)

    def input(self, name: str) -> Any:
        return self.read_input(name)

    def emit(self, output: str, value: Any) -> None:
        self.emits.append((output, value))

    def send(self, target: Any, value: Any) -> None:
        self.sends.append((target, value))
