"""One plan, its ranks started, and waves of requests: the process that `four_gpus.py` begins.

    python benchmarks/four_gpus_measure.py JOB.json

A job names the plan, the file for its rows (a JSON object a line, as they come), the loads with
their batches, and how many waves of each are measured. Of the waves of a batch the middle one is
the row. Waves of each batch warm up before those that are measured: `warm_ups` of them.
"""

import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from answers import Timed
from PIL import Image

from mstarc_runtime.assembly import RunSettings
from mstarc_runtime.errors import RuntimeFailure, render
from mstarc_runtime.launch import Ranks, launched, run_until_done
from mstarc_runtime.loader import LoadedPlan, load_placement, load_plan
from mstarc_runtime.plan_api import Media, Part, parts_in_order
from mstarc_runtime.request import Asked, PreparedRequest, prepare_read
from mstarc_runtime.settings import read_settings
from mstarc_runtime.weights.progress import progress_to


def request_of(plan: LoadedPlan, load: Mapping[str, Any], *, prompt: bool) -> PreparedRequest:
    """The request of a load; a picture that goes along is noise of its size."""
    asked = Asked(options=load["options"], wants=tuple(load["wants"]), seed=1)
    if prompt:
        return prepare_read(plan, asked, {"prompt": load["text"]})
    parts = [Part(kind="text", value=load["text"], role="user")]
    if load["image"]:
        side = load["image"]
        pixels = np.random.default_rng(1).integers(0, 256, (side, side, 3), dtype=np.uint8)
        content = BytesIO()
        Image.fromarray(pixels).save(content, "PNG")
        picture = Media(kind="image", content=content.getvalue())
        parts.insert(0, Part(kind="image", value=picture, role="user"))
    return prepare_read(plan, asked, {"parts": parts_in_order(parts)})


def wave(ranks: Ranks, request: PreparedRequest, batch: int) -> list[Timed]:
    """So many requests at once, each with a seed of its own, to their end."""
    answers = []
    for seed in range(batch):
        answer = Timed()
        options = {**request.options, "seed": seed} if "seed" in request.options else None
        asked = replace(request, options=options or request.options, seed=seed)
        ranks.conductor.submit(asked, answer, on_tokens=answer.count)
        answers.append(answer)
    run_until_done(ranks)
    for answer in answers:
        answer.check()
    return answers


def row_of(answers: Sequence[Timed]) -> dict[str, float]:
    began_s = answers[0].began_s
    wall_s = max(answer.ended_s for answer in answers) - began_s
    firsts = [a.first_s - a.began_s for a in answers if a.first_s is not None]
    return {
        "wall_s": wall_s,
        "s": statistics.median(answer.ended_s - answer.began_s for answer in answers),
        "requests/s": len(answers) / wall_s,
        "audio-s/s": sum(answer.audio_s for answer in answers) / wall_s,
        "tokens/s": sum(answer.tokens for answer in answers) / wall_s,
        "first_s": statistics.median(firsts) if firsts else 0.0,
    }


def measure(job: Mapping[str, Any]) -> None:
    """Appends the rows of a job to its file as they come. Raises RuntimeFailure."""
    plan = load_plan(Path(job["plan"]))
    (name,) = plan.placements
    placement = load_placement(plan, name)
    on_cpus = all(kind == "cpu" for kind in placement.devices.values())
    batches = sorted({1, *(batch for load in job["loads"] for batch in load["batches"])})
    settings = RunSettings(
        cache_dir=read_settings().cache_dir,
        deterministic=None if on_cpus else False,
        buckets=() if on_cpus else batches,
        threads=1 if on_cpus else 2,
    )
    began_s = time.perf_counter()

    def say(text: str) -> None:
        print(f"  [{time.perf_counter() - began_s:6.1f} s] {text}", flush=True)

    with (
        Path(job["rows"]).open("a", encoding="utf-8") as out,
        launched(
            plan, placement, settings=settings, progress=progress_to(sys.stderr), say=say
        ) as ranks,
    ):
        say(f"{job['layout']}: ready")
        for load in job["loads"]:
            request = request_of(plan, load, prompt=job["prompt"])
            for batch in load["batches"]:
                for _ in range(job["warm_ups"]):
                    wave(ranks, request, range(batch))
                rows = [row_of(wave(ranks, request, range(batch))) for _ in range(job["waves"])]
                middle = sorted(rows, key=lambda row: row["wall_s"])[len(rows) // 2]
                row = {"layout": job["layout"], "load": load["name"], "batch": batch, **middle}
                out.write(json.dumps(row) + "\n")
                out.flush()
                say(f"{load['name']} x {batch}: {middle[load['unit']]:.4g} {load['unit']}")


def main() -> int:
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        measure(job)
    except RuntimeFailure as failure:
        print(render(failure), flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
