"""How long requests take from asking to their end, beside the least that their arithmetic takes.

The runtime runs a plan of one rank in this process, once to warm up and then several times; `batch`
copies of the request are asked for at once, with seeds of their own. Products of matrices and
convolutions are counted while it runs once more (attention by a kernel of our own is not), and
divided by what the device can do.

    mstarc compile specs/bagel.mstar --sizes specs/random/bagel.yaml --placement 1xH200 \\
        -o build/bagel
    python benchmarks/whole_requests.py build/bagel request.json [--batch 1 4] [--times 5] [--json]
"""

import argparse
import json
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch
from answers import Timed
from torch.utils.flop_counter import FlopCounterMode

from mstarc_runtime.assembly import RunSettings
from mstarc_runtime.launch import LocalRanks, run_until_done
from mstarc_runtime.loader import load_placement, load_plan
from mstarc_runtime.request import PreparedRequest, prepare, read_request_file
from mstarc_runtime.settings import read_settings
from mstarc_runtime.weights.progress import progress_to

# Measured on one H200: products of bf16 matrices a second.
MATRIX_FLOPS = 790e12


def run_once(ranks: LocalRanks, request: PreparedRequest, batch: int) -> tuple[float, float]:
    """Seconds to the first part of any answer, and to the last one's end."""
    start = time.perf_counter()
    answers = []
    for number in range(batch):
        answer = Timed()
        options = dict(request.options)
        if "seed" in options:
            options["seed"] = int(options["seed"]) + number
        ranks.conductor.submit(replace(request, options=options, seed=number), answer)
        answers.append(answer)
    run_until_done(ranks)
    for answer in answers:
        if answer.failure is not None:
            sys.exit(answer.failure.message)
    firsts = [answer.first_s for answer in answers if answer.first_s is not None]
    return min(firsts, default=start) - start, max(answer.ended_s for answer in answers) - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plan", type=Path)
    parser.add_argument("request", type=Path)
    parser.add_argument("--batch", type=int, nargs="+", default=[1])
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    plan = load_plan(given.plan)
    (placement,) = (load_placement(plan, name) for name in plan.placements)
    ranks = LocalRanks(
        plan,
        placement,
        settings=RunSettings(cache_dir=read_settings().cache_dir, deterministic=False),
        progress=progress_to(sys.stderr),
    )
    rows = []
    for asked in read_request_file(given.request):
        request = prepare(plan, asked)
        for batch in given.batch:
            run_once(ranks, request, batch)
            counter = FlopCounterMode(display=False)
            with counter:
                run_once(ranks, request, batch)
            timed = [run_once(ranks, request, batch) for _ in range(given.times)]
            flops = counter.get_total_flops()
            total_s = statistics.median(end for _, end in timed)
            floor_s = flops / MATRIX_FLOPS
            rows.append(
                {
                    "request": asked.name,
                    "batch": batch,
                    "first_s": round(statistics.median(first for first, _ in timed), 4),
                    "total_s": round(total_s, 4),
                    "spread_s": round(max(e for _, e in timed) - min(e for _, e in timed), 4),
                    "tflop": round(flops / 1e12, 3),
                    "floor_s": round(floor_s, 4),
                    "of_floor": round(floor_s / total_s, 4),
                }
            )
            if not given.json:
                print("  ".join(f"{name} {value}" for name, value in rows[-1].items()))
    if given.json:
        device = next(iter(placement.devices.values()))
        print(json.dumps({"device": device, "torch": torch.__version__, "rows": rows}))
    ranks.close()


if __name__ == "__main__":
    main()
