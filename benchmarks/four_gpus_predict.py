"""What `mstarc simulate` says of layouts that `four_gpus.py` has measured.

What one device takes for the op that most of the time goes to is fitted, batch by batch, so that
the simulation of the layout on one device takes as long as it was measured to; the other layouts
are simulated with that. So what is held against measurements is what the simulation makes of
layouts: copies, branches side by side, shards, what travels.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from four_gpus_parts import Load

# A first guess of an op's seconds is this part of a wave.
GUESS = 1e-3
LEAST_S = 1e-7
LIMIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """How to simulate one load, of so many `rows` a prompt. `kind` is that of the devices."""

    model: str
    load: Load
    options: Mapping[str, Any]
    rows: int
    kind: str
    folder: Path

    def mix(self) -> Path:
        """The file of its requests."""
        parts = {"text": 1, **({"image": 1} if self.load.image else {})}
        kind = {
            "rows": self.rows,
            "options": dict(self.options),
            "wants": list(self.load.wants),
            "parts": parts,
        }
        path = self.folder / f"{_file_name(self.load.name)}.mix.yaml"
        # JSON is YAML.
        path.write_text(json.dumps({"requests": [kind]}), encoding="utf-8")
        return path

    def profile(self, points: Mapping[int, float]) -> Path:
        """The file that says what the repeated op takes, by batch."""
        rows = [
            {"batch": batch, "rows": self.load.repeated_rows, "context": 0, "seconds": seconds}
            for batch, seconds in sorted(points.items())
        ]
        content = {"model": self.model, "device": self.kind, "ops": {self.load.repeats: rows}}
        path = self.folder / f"{_file_name(self.load.name)}.profile.yaml"
        path.write_text(json.dumps(content), encoding="utf-8")
        return path

    def seconds(self, plan: Path, burst: int, points: Mapping[int, float]) -> float:
        """Until so many requests that come at once are over. Raises RuntimeError."""
        words = ["simulate", str(plan), "--placement", placement_of(plan), "--burst", str(burst)]
        words += ["--requests", str(self.mix()), "--format", "json"]
        if points:
            words += ["--profile", str(self.profile(points))]
        done = subprocess.run(
            [sys.executable, "-m", "mstarc", *words],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip() or done.stdout.strip())
        answer: dict[str, float] = json.loads(done.stdout)
        return answer["seconds"]


def fitted(simulation: Simulation, plan: Path, measured_s: Mapping[int, float]) -> dict[int, float]:
    """Seconds of the repeated op by batch, so that a plan on one device takes what was measured."""
    points: dict[int, float] = {}
    for batch, wall_s in sorted(measured_s.items()):

        def simulated(seconds: float, batch: int = batch) -> float:
            return simulation.seconds(plan, batch, {**points, batch: seconds})

        points[batch] = _solved(simulated, wall_s)
    return points


def _solved(function: Callable[[float], float], wanted: float) -> float:
    """Where a function that grows along a line, or nearly, has a value; `LEAST_S` at the least."""
    low = wanted * GUESS
    at_low = function(low)
    slope = (function(2 * low) - at_low) / low
    found = max(LEAST_S, low + (wanted - at_low) / slope) if slope > 0.0 else low
    if found > LEAST_S and slope > 0.0:
        found = max(LEAST_S, found + (wanted - function(found)) / slope)
    return found


def placement_of(plan: Path) -> str:
    """The name of the only placement of a plan."""
    (name,) = [path.name for path in (plan / "placements").iterdir()]
    return name


def in_unit(load: Load, seconds: float, batch: int, row_of_one: Mapping[str, float]) -> float:
    """A simulated wave in the load's unit; what a request makes is what it makes on one device."""
    if load.unit == "s":
        return seconds
    made = row_of_one[load.unit] / row_of_one["requests/s"]
    return made * batch / seconds


def predictions(
    simulation: Simulation,
    plans: Mapping[str, Path],
    rows: Sequence[Mapping[str, Any]],
    one: str,
) -> dict[tuple[str, int], float]:
    """By layout and batch what is simulated, for rows of a load; none without those of `one`."""
    own = [row for row in rows if row["load"] == simulation.load.name]
    alone = {row["batch"]: row for row in own if row["layout"] == one}
    if not alone:
        return {}
    walls = {batch: row["wall_s"] for batch, row in alone.items()}
    points = fitted(simulation, plans[one], walls)
    print(
        f"  {simulation.load.repeats}: "
        + ", ".join(f"{1e3 * seconds:.3f} ms x {batch}" for batch, seconds in points.items()),
        flush=True,
    )
    found = {}
    for row in own:
        layout, batch = row["layout"], row["batch"]
        if batch in alone and layout in plans:
            seconds = simulation.seconds(plans[layout], batch, points)
            found[layout, batch] = in_unit(simulation.load, seconds, batch, alone[batch])
    return found


def _file_name(text: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in text)
