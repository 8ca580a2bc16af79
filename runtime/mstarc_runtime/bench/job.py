"""A job of `mstarc bench` → what is asked of whom, and when.

`mstarc bench` writes it as JSON: targets, requests (kinds of a mix, a file of requests, or requests
that are made up), loads, and what a run of a plan may be told.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

API_PATHS: Mapping[str, str] = {"speech": "/v1/audio/speech", "chat": "/v1/chat/completions"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A plan in a folder, or a server at a `url` that speaks one of `API_PATHS`."""

    name: str
    plan: str = ""
    placement: str | None = None
    url: str = ""
    api: str = "speech"
    model: str = ""
    rate: int = 24_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Requests of one kind: `share` of them beside the other kinds' shares.

    `rows` are words of a text that is made up, from the first number to the second.
    """

    share: float = 1.0
    rows: tuple[int, int] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, int] = field(default_factory=dict)
    wants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`waves`: `size` requests at once, the next ones when all have ended. `refill`: always `size`
    requests. `open`: `size` a second, at times that nobody's answers change.
    """

    kind: Literal["waves", "refill", "open"]
    size: float

    def __str__(self) -> str:
        return f"{self.size:g}/s" if self.kind == "open" else f"{self.size:g} at once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How much is measured: `count` requests, or those that begin in `seconds`; `warm_up` requests
    before, which nobody measures. At least one wave each; None lets the load say.
    """

    seconds: float | None = None
    count: int | None = None
    warm_up: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """All of it. `slo` are bounds by name (see `figures`); `run` is what a plan's run is told."""

    targets: tuple[Target, ...]
    loads: tuple[Load, ...]
    kinds: tuple[Kind, ...] = (Kind(),)
    file: str | None = None
    extent: Extent = Extent()
    seed: int = 0
    slo: Mapping[str, float] = field(default_factory=dict)
    out: str | None = None
    svg: str | None = None
    trace: str | None = None
    run: Mapping[str, Any] = field(default_factory=dict)


def job_of(content: Mapping[str, Any]) -> Job:
    """The job that JSON describes."""
    kinds = tuple(
        Kind(
            **{
                **kind,
                "rows": None if kind.get("rows") is None else (kind["rows"][0], kind["rows"][1]),
                "wants": tuple(kind.get("wants", ())),
            }
        )
        for kind in content.get("kinds", ())
    )
    return Job(
        **{
            **content,
            "targets": tuple(Target(**target) for target in content["targets"]),
            "loads": tuple(Load(**load) for load in content["loads"]),
            "kinds": kinds or (Kind(),),
            "extent": Extent(**content.get("extent", {})),
        }
    )
