"""Two servers measured by `mstarc bench`, one after the other, and set against each other."""

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from serving import run

PEER = "mstar-ai 0.2.1"
TUNED, UNTUNED = 'mode="max-autotune-no-cudagraphs"', 'mode="default"'


class Change(NamedTuple):
    """`before` is `after` in a file of the peer's."""

    file: str
    before: str
    after: str


def changed_copy(site: Path, target: Path, changes: Sequence[Change]) -> list[str]:
    """A copy of the peer with changes; what was changed in it, one line a change.

    Raises ValueError where a place to change is not there: then it is another version.
    """
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(site / "mstar", target / "mstar")
    said = []
    for name, before, after in changes:
        path = target / "mstar" / name
        text = path.read_text(encoding="utf-8")
        if before not in text:
            raise ValueError(f"mstar/{name} has no `{before}`: this is not {PEER}")
        path.write_text(text.replace(before, after), encoding="utf-8")
        said.append(f"mstar/{name}: {before} -> {after}")
    return said


def bench_job(
    target: Mapping[str, Any],
    options: Mapping[str, Any],
    *,
    words: int,
    batches: Sequence[int],
    seconds: float,
    out: Path,
) -> dict[str, Any]:
    """What `mstarc bench` is to do with one of the two: waves of each batch, of texts of words."""
    return {
        "targets": [dict(target)],
        "kinds": [{"rows": [words, words], "options": dict(options)}],
        "loads": [{"kind": "waves", "size": size} for size in batches],
        "extent": {"seconds": seconds, "count": None, "warm_up": None},
        "seed": 0,
        "slo": {"first_sound": 0.5, "rtf": 1.0},
        "out": str(out),
        "run": {"buckets": list(batches), "deterministic": False} if target.get("plan") else {},
    }


def bench(content: Mapping[str, Any], *, limit_s: float | None = None) -> dict[str, Any]:
    """The result of a job. Raises RuntimeError if it could not be done, or not in time."""
    status = run(
        [sys.executable, "-m", "mstarc_runtime.bench"],
        environment={},
        given=json.dumps(content).encode(),
        limit_s=limit_s,
        quiet=True,
    )
    if status is None:
        raise RuntimeError(f"`mstarc bench` took longer than {limit_s:.0f} s")
    if status not in (0, 1):
        raise RuntimeError(f"`mstarc bench` ended with exit status {status}")
    found: dict[str, Any] = json.loads(Path(content["out"]).read_text())
    return found


def together(results: Sequence[Mapping[str, Any]], changed: Sequence[str]) -> dict[str, Any]:
    """Results of the same loads as one, each against the first."""
    from mstarc_runtime.bench.__main__ import ratios

    targets = [target for result in results for target in result["targets"]]
    return {**results[0], "targets": targets, "ratios": ratios(targets), "changed": list(changed)}
