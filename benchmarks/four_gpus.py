"""Layouts for four GPUs: compiled, run, and put beside one GPU, two, M* and the simulation.

    bagel     each branch of guidance on a rank of its own: text to image and editing, seconds
    omni      Qwen3-Omni's speech with both towers in shards, and prompts apart from answers
    orpheus   four replicas against one
    thinker   four replicas of Qwen3-Omni, asked for text

and for each the layouts that `mstarc place` finds for four devices. One call does everything:

    python benchmarks/four_gpus.py --out results.json                  # on 4xH200
    python benchmarks/four_gpus.py --gpus 2 --parts orpheus bagel      # what two can do
    python benchmarks/four_gpus.py --gpus 2 --option steps=10          # fewer, in pictures
    python benchmarks/four_gpus.py --devices 4xcpu --tiny              # the same calls, anywhere
    python benchmarks/four_gpus.py --from results.json                 # the tables again

Each plan is run by a process of its own, which is ended with all its children at `--limit` seconds;
rows are printed and kept as they come. The simulation runs afterwards and uses no GPU;
`--no-simulation` leaves it to a later call with `--from`.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from four_gpus_parts import PARTS, Layout, Load, Part
from four_gpus_predict import Simulation, placement_of, predictions
from peers.serving import end_on_signals, run

ROOT = Path(__file__).parent.parent
HERE = Path(__file__).parent
# Goals: a layout that is found is no slower than those by hand, a simulation as near as this.
FOUND_AT_LEAST = 0.97
SIMULATED_WITHIN = 0.15
SMALL_SIDE = 64
SMALL_BATCHES = (1, 4)
SMALL_TOKENS = 512
SMALL_ROWS = 32


class Run:
    """What was asked, and where its files are."""

    def __init__(self, asked: argparse.Namespace) -> None:
        count, _, kind = asked.devices.partition("x")
        self.asked = asked
        self.count = min(int(count), asked.gpus or int(count))
        self.kind = kind
        self.work: Path = asked.work.absolute()
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.simulated: dict[str, dict[str, float]] = {}
        if asked.source is not None:
            kept = json.loads(asked.source.read_text(encoding="utf-8"))
            self.rows, self.kind = kept["rows"], kept["kind"]
            self.count, asked.tiny = kept["count"], kept["tiny"]

    @property
    def is_tiny(self) -> bool:
        return bool(self.asked.tiny)

    def layouts(self, part: Part) -> list[Layout]:
        """Those for which there are devices; what is found is found for all there are."""
        wanted = self.asked.layouts
        named = [each for each in part.layouts if not wanted or each.name in wanted]
        return [each for each in named if each.objective or each.devices <= self.count]

    def options(self, load: Load) -> Mapping[str, Any]:
        """Those of the load, with the call's own in place of them."""
        usual = load.small if self.is_tiny else load.options
        given = dict(text.split("=", 1) for text in self.asked.option)
        return {**usual, **{name: json.loads(given[name]) for name in usual if name in given}}

    def batches(self, part: Part, load: Load) -> list[int]:
        if load.only_alone:
            return [1]
        return list(self.asked.batches or (SMALL_BATCHES if self.is_tiny else part.batches))

    # Compiling

    def compiled(self, part: Part, layout: Layout) -> Path:
        """The folder of the layout's plan. Raises CalledProcessError."""
        folder = self.work / part.name / layout.name.replace(", ", "_").replace(" ", "_")
        folder.mkdir(parents=True, exist_ok=True)
        tokens = SMALL_TOKENS if self.is_tiny else part.tokens
        sizes = ROOT / (part.small_sizes if self.is_tiny else part.sizes)
        what = [str(ROOT / "specs" / f"{part.model}.mstar"), "--sizes", str(sizes)]
        text = self.deployment(part, layout, what)
        file = folder / "layout.yaml"
        file.write_text(text, encoding="utf-8")
        words = [*what, "--deployment", str(file), "--placement", self.devices_of(layout)]
        words += ["--set", f"max_seq_len={tokens}"]
        words += ["--set", f"max_concurrent_requests={self.requests(part)}"]
        mstarc("compile", *words, "-o", str(folder / "plan"))
        return folder / "plan"

    def requests(self, part: Part) -> int:
        return max(part.requests, *(max(self.batches(part, load)) for load in part.loads), 4)

    def devices_of(self, layout: Layout) -> str:
        return f"{self.count if layout.objective else layout.devices}x{self.kind}"

    def deployment(self, part: Part, layout: Layout, what: Sequence[str]) -> str:
        """The text of the layout's file: as it is, for fewer replicas, or found."""
        if layout.file:
            text = (ROOT / layout.file).read_text(encoding="utf-8")
            if layout.replicas:
                ranks = ", ".join(map(str, range(layout.replicas)))
                text = text.replace("ranks: [0, 1, 2, 3]", f"ranks: [{ranks}]")
            return without_limits(text)
        folder = self.work / part.name
        found = folder / f"{layout.name}.yaml"
        words = [*what, "--placement", self.devices_of(layout), "--runners-up", "0"]
        words += ["--objective", layout.objective or "latency", "--write", str(found)]
        mix = self.simulation(part, part.loads[0]).mix()
        at_once = max(self.batches(part, part.loads[0])) if layout.objective == "throughput" else 1
        mstarc("place", *words, "--requests", str(mix), "--at-once", str(at_once))
        return without_limits(found.read_text(encoding="utf-8"))

    # Measuring

    def measure(self, part: Part, layout: Layout, plan: Path) -> None:
        """Runs the plan in a process of its own and adds its rows to those of the part."""
        folder = plan.parent
        rows = folder / "rows.jsonl"
        rows.unlink(missing_ok=True)
        job = {
            "plan": str(plan),
            "rows": str(rows),
            "layout": layout.name,
            "prompt": part.prompt,
            "warm_ups": 1 if self.is_tiny else 2,
            "waves": self.asked.waves,
            "loads": [
                {
                    "name": load.name,
                    "unit": load.unit,
                    "text": load.text,
                    "wants": list(load.wants),
                    "options": dict(self.options(load)),
                    "image": min(load.image, SMALL_SIDE) if self.is_tiny else load.image,
                    "batches": self.batches(part, load),
                }
                for load in part.loads
                if not self.asked.loads or load.name in self.asked.loads
            ],
        }
        path = folder / "job.json"
        path.write_text(json.dumps(job, indent=1), encoding="utf-8")
        command = [sys.executable, "-u", str(HERE / "four_gpus_measure.py"), str(path)]
        status = run(command, environment={}, limit_s=self.asked.limit)
        if status != 0:
            said = "ended at its limit" if status is None else f"exit status {status}"
            print(f"  {part.name}, {layout.name}: {said}", flush=True)
        if rows.exists():
            read = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
            kept = [r for r in self.rows.get(part.name, []) if r["layout"] != layout.name]
            self.rows[part.name] = [*kept, *read]
            self.keep()

    def keep(self) -> None:
        """Writes what there is."""
        if self.asked.out is not None:
            found = {"kind": self.kind, "count": self.count, "tiny": self.is_tiny}
            found |= {"rows": self.rows, "simulated": self.simulated}
            self.asked.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")

    # Simulating

    def simulation(self, part: Part, load: Load) -> Simulation:
        folder = self.work / part.name
        folder.mkdir(parents=True, exist_ok=True)
        return Simulation(
            model=part.model,
            load=load,
            options=self.options(load),
            rows=SMALL_ROWS if self.is_tiny else load.rows,
            kind=self.kind,
            folder=folder,
        )

    def simulate(self, part: Part, plans: Mapping[str, Path]) -> None:
        found = self.simulated.setdefault(part.name, {})
        for load in part.loads:
            rows = self.rows.get(part.name, [])
            try:
                told = predictions(self.simulation(part, load), plans, rows, "one")
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"  {load.name}: not simulated: {error}", flush=True)
                continue
            found |= {f"{load.name}|{name}|{n}": value for (name, n), value in told.items()}
        self.keep()

    # Telling

    def table(self, part: Part) -> None:
        rows = self.rows.get(part.name, [])
        told = self.simulated.get(part.name, {})
        for load in part.loads:
            own = [row for row in rows if row["load"] == load.name]
            if not own:
                continue
            print(f"\n{part.name}, {load.name}, {load.unit}")
            print(
                f"  {'layout':<20}{'at once':>8}{'measured':>11}{'to one':>8}{'simulated':>11}"
                f"{'ratio':>7}{'M*':>7}"
            )
            for row in sorted(own, key=lambda row: row["batch"]):
                print(self.line(load, row, own, told), flush=True)
            if not self.is_tiny:  # tiny models on shared cores say nothing of speed
                for verdict in self.verdicts(part, load, own, told):
                    print(f"  {verdict}", flush=True)

    def line(
        self,
        load: Load,
        row: Mapping[str, Any],
        own: Sequence[Mapping[str, Any]],
        told: Mapping[str, float],
    ) -> str:
        value, batch = row[load.unit], row["batch"]
        one = next((r for r in own if r["layout"] == "one" and r["batch"] == batch), None)
        ratio = "" if one is None else f"{gain(load, value, one[load.unit]):.2f}"
        simulated = told.get(f"{load.name}|{row['layout']}|{batch}")
        beside = ["", ""]
        if simulated is not None:
            beside = [f"{simulated:.4g}", f"{simulated / value:.2f}" if value else ""]
        published = None if self.is_tiny else load.published.get((row["layout"], batch))
        return (
            f"  {row['layout']:<20}{batch:>8}{value:>11.4g}{ratio:>8}{beside[0]:>11}"
            f"{beside[1]:>7}{'' if published is None else f'{published:g}':>7}"
        )

    def verdicts(
        self,
        part: Part,
        load: Load,
        own: Sequence[Mapping[str, Any]],
        told: Mapping[str, float],
    ) -> list[str]:
        """Whether what was found is as fast as what was written, goals, and the simulation."""
        found_names = {layout.name for layout in part.layouts if layout.objective}
        said = []
        for batch in sorted({row["batch"] for row in own}):
            values = {row["layout"]: row[load.unit] for row in own if row["batch"] == batch}
            hand = [v for name, v in values.items() if name not in found_names]
            found = [v for name, v in values.items() if name in found_names]
            best = min if load.is_better_when_less else max
            if hand and found:
                share = gain(load, best(found), best(hand))
                met = "met" if share >= FOUND_AT_LEAST else "MISSED"
                said.append(f"found to by hand, {batch} at once: {share:.2f} ({met})")
        alone = {row["layout"]: row[load.unit] for row in own if row["batch"] == 1}
        for name, (times, seconds) in load.goals.items():
            if name in alone and "one" in alone:
                reached = gain(load, alone[name], alone["one"])
                met = "met" if reached >= times and alone[name] < seconds else "MISSED"
                said.append(
                    f"{name}: {reached:.2f} times one device and {alone[name]:.2f} s, "
                    f"goal {times:g} times and under {seconds:g} s ({met})"
                )
        keys = {f"{load.name}|{r['layout']}|{r['batch']}": r[load.unit] for r in own}
        errors = [
            abs(told[key] / value - 1) for key, value in keys.items() if key in told and value
        ]
        if errors:
            met = "met" if max(errors) <= SIMULATED_WITHIN else "MISSED"
            said.append(f"simulation off by {max(errors):.0%} at most ({met})")
        return said


def gain(load: Load, value: float, other: float) -> float:
    """How many times as good a value is as another one."""
    if not value or not other:
        return 0.0
    return other / value if load.is_better_when_less else value / other


def without_limits(text: str) -> str:
    """A deployment file without devices and limits: those are said by the call."""
    dropped = ("devices:", "max_seq_len:", "max_concurrent_requests:")
    return "\n".join(line for line in text.splitlines() if not line.startswith(dropped)) + "\n"


def mstarc(*words: str) -> None:
    """Raises CalledProcessError, its output printed."""
    done = subprocess.run(
        [sys.executable, "-m", "mstarc", *words], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        print(done.stdout + done.stderr, flush=True)
        done.check_returncode()


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    names = [part.name for part in PARTS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", default="4xH200")
    parser.add_argument("--gpus", type=int, help="use so many of them at most")
    parser.add_argument("--tiny", action="store_true", help="models of the tests' sizes")
    parser.add_argument("--parts", nargs="+", choices=names, default=names)
    parser.add_argument("--layouts", nargs="+", help="by their names; all unless given")
    parser.add_argument("--loads", nargs="+", help="by their names; all unless given")
    parser.add_argument("--batches", type=int, nargs="+", help="in place of each part's own")
    parser.add_argument("--option", nargs="+", default=[], metavar="NAME=VALUE")
    parser.add_argument("--waves", type=int, default=3, help="that are measured of each")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds of a layout")
    parser.add_argument("--no-simulation", dest="simulation", action="store_false")
    parser.add_argument("--from", dest="source", type=Path, help="results to tell once more")
    parser.add_argument("--work", type=Path, default=Path("build/four_gpus"))
    parser.add_argument("--out", type=Path)
    return parser.parse_args(arguments)


def main() -> int:
    """0 if every layout was compiled and has rows."""
    end_on_signals()
    made = Run(parse())
    failed = False
    for part in (part for part in PARTS if part.name in made.asked.parts):
        if made.asked.source is not None and part.name not in made.rows:
            continue
        plans: dict[str, Path] = {}
        for layout in made.layouts(part):
            try:
                plan = plans[layout.name] = made.compiled(part, layout)
            except subprocess.CalledProcessError:
                failed = True
                continue
            print(f"{part.name}, {layout.name}: {placement_of(plan)}", flush=True)
            if made.asked.source is None:
                made.measure(part, layout, plan)
        if made.asked.simulation:
            made.simulate(part, plans)
        made.table(part)
        rows = made.rows.get(part.name, [])
        failed = failed or {row["layout"] for row in rows} != set(plans)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
