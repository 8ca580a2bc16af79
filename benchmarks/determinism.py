"""What it costs that a request's bytes do not depend on its neighbours, on this CPU.

Seven requests of a plan at once, deterministic at several tile sizes and batched freely; and one
request alone. Speech of a second is the unit, so that the plan does not matter.

    python benchmarks/determinism.py PLAN --request FILE [--placement cpu] [--json]
"""

# ruff: noqa: E402 - what libraries read when they are loaded comes first
from mstarc_runtime.settings import prepare_environment, read_settings

prepare_environment()

import argparse
import json
import time
from pathlib import Path

from mstarc_runtime.answer import Answer, Target, TextPrinter
from mstarc_runtime.assembly import RunSettings
from mstarc_runtime.launch import LocalRanks, run_until_done
from mstarc_runtime.loader import load_placement, load_plan
from mstarc_runtime.request import prepare, read_request_file
from mstarc_runtime.run_choices import DEFAULT_THREADS
from mstarc_runtime.weights.progress import progress_to

CASES = (("tile of 1", True, 1), ("tile of 4", True, 4), ("tile of 8", True, 8), ("free", False, 1))


class Silent:
    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None: ...


def measure(options: argparse.Namespace, *, deterministic: bool, tile: int, count: int) -> float:
    """Seconds of computing for each second of sound."""
    plan = load_plan(options.plan)
    ranks = LocalRanks(
        plan,
        load_placement(plan, options.placement),
        settings=RunSettings(
            cache_dir=read_settings().cache_dir,
            deterministic=deterministic,
            threads=options.threads,
            tile_rows=tile,
        ),
        progress=progress_to(),
    )
    asked = read_request_file(options.request)[0]
    printer = TextPrinter(Silent())  # type: ignore[arg-type]
    answers = []
    begun = time.perf_counter()
    for seed in range(count):
        answer = Answer(name="", target=Target(), printer=printer)
        ranks.conductor.submit(prepare(plan, asked, seed=seed), answer)
        answers.append(answer)
    run_until_done(ranks)
    spent = time.perf_counter() - begun
    ranks.close()
    return spent / sum(answer.sound_s for answer in answers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plan", type=Path)
    parser.add_argument("--request", type=Path, required=True)
    parser.add_argument("--placement", default="cpu")
    parser.add_argument("--threads", type=int, default=DEFAULT_THREADS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [
        {
            "way": name,
            "requests": count,
            "s_per_s": round(
                measure(options, deterministic=deterministic, tile=tile, count=count), 3
            ),
        }
        for count in (1, 7)
        for name, deterministic, tile in CASES
    ]
    if options.json:
        print(json.dumps({"threads": options.threads, "rows": rows}))
        return
    print("seconds of computing for each second of sound")
    for row in rows:
        print(f"{row['requests']} requests, {row['way']:<10} {row['s_per_s']:.3f}")


if __name__ == "__main__":
    main()
