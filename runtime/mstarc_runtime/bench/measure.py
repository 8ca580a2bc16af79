"""`python -m mstarc_runtime.bench.measure < job.json > records.json`: one target, one process.

For a plan its ranks are started, each load is run, and ranks tell what they have run; for a server
only the loads are run. What people are told goes to stderr.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mstarc_runtime.bench.ending import end_once
from mstarc_runtime.bench.figures import figures_of, in_short
from mstarc_runtime.bench.job import Job, Target, job_of
from mstarc_runtime.bench.load import Service, run_load
from mstarc_runtime.errors import RuntimeFailure, render
from mstarc_runtime.settings import prepare_environment, read_settings

Say = Callable[[str], None]
# Numbers of requests of different loads are this far apart: none gets another's inputs.
_APART = 100_000


def measure(job: Job, target: Target, *, begun_s: float, say: Say) -> dict[str, Any]:
    """What a target made of each load. `begun_s` is when it began to start, on `time.time`."""
    if target.url:
        return _measure_server(job, target, say)
    return _measure_plan(job, target, begun_s, say)


def _measure_server(job: Job, target: Target, say: Say) -> dict[str, Any]:
    from mstarc_runtime.bench.http_service import HttpService

    service = HttpService(target, job)
    service.check()
    return {"loads": _run_loads(job, service, say), "facts": {"url": target.url, "api": target.api}}


def _measure_plan(job: Job, target: Target, begun_s: float, say: Say) -> dict[str, Any]:
    # Here, because loading torch takes seconds, and fixes what its threads do.
    import torch

    from mstarc_runtime.assembly import RunSettings
    from mstarc_runtime.bench.plan_service import PlanService, requests_of
    from mstarc_runtime.how_it_ran import bucket_notes, eager_fallbacks, keep_trace
    from mstarc_runtime.launch import ask_ranks, launched
    from mstarc_runtime.loader import load_placement, load_plan, usual_placement
    from mstarc_runtime.messages import Tally
    from mstarc_runtime.run_choices import DEFAULT_THREADS, START_TIMEOUT_S
    from mstarc_runtime.weights.progress import progress_to

    plan = load_plan(Path(target.plan))
    placement = load_placement(plan, target.placement or usual_placement(plan))
    given = dict(job.run)
    for node in given.get("sources", {}):
        plan.check_node(node)
    for region in given.get("eager", ()):
        placement.check_region(region)
    timeout_s = given.pop("start_timeout", None) or START_TIMEOUT_S
    buckets = given.get("buckets", ())
    settings = RunSettings(
        cache_dir=read_settings().cache_dir,
        trace=job.trace is not None,
        **{"threads": DEFAULT_THREADS, **given},
    )
    for note in bucket_notes(buckets, placement.max_requests):
        say(note)
    with tempfile.TemporaryDirectory(prefix="mstarc-bench-") as folder:
        prepared = requests_of(job, plan, Path(folder))
        with launched(
            plan,
            placement,
            settings=settings,
            progress=progress_to(),
            say=say,
            start_timeout_s=timeout_s,
        ) as ranks:
            ready_s = time.time() - begun_s
            told = ask_ranks(ranks)

            def passes() -> int:
                tallies: list[Tally] = [t for each, _ in ask_ranks(ranks) for t in each.tallies]
                return sum(tally.requests for tally in tallies if tally.is_pass)

            loads = _run_loads(job, PlanService(plan, ranks, prepared), say, passes)
            begun = [each.start_s for each, _ in told]
            told = ask_ranks(ranks, with_trace=job.trace is not None)
            tallies = [tally for each, _ in told for tally in each.tallies]
            if job.trace is not None:
                for line in keep_trace(ranks, told, _trace_path(job, target)):
                    say(line)
    return {
        "loads": loads,
        "facts": {
            "plan": str(plan.folder),
            "plan_digest": json.loads((plan.folder / "plan.json").read_text())["digest"],
            "placement": placement.name,
            "max_requests": placement.max_requests,
            "devices": sorted(set(placement.devices.values())),
            "device_names": _device_names(torch),
            "torch": torch.__version__,
            "deterministic": settings.policy(placement).deterministic,
            "threads": settings.threads,
            "ready_s": ready_s,
            "start_s": {name: max(e.get(name, 0.0) for e in begun) for name in begun[0]},
            "graph_runs": sum(tally.runs for tally in tallies if not tally.reason),
            "eager_fallbacks": eager_fallbacks(tallies),
        },
    }


def _run_loads(
    job: Job, service: Service, say: Say, passes: Callable[[], int] = lambda: 0
) -> list[dict[str, Any]]:
    found = []
    for index, load in enumerate(job.loads):
        before = [0]

        def settled(before: list[int] = before) -> None:
            before[0] = passes()

        records = run_load(
            service, load, job.extent, seed=job.seed, first=index * _APART, settled=settled
        )
        counted = passes() - before[0]
        failed = [record.error for record in records if record.error]
        say(f"{load}: {in_short(figures_of(records, slo={}, counted_tokens=counted))}")
        for error in failed[:1]:
            say(f"  {len(failed)} failed, the first with {error}")
        found.append({"records": [r.to_json() for r in records], "tokens": counted or None})
    return found


def _device_names(torch: Any) -> Sequence[str]:
    return sorted({torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())})


def _trace_path(job: Job, target: Target) -> Path:
    assert job.trace is not None
    path = Path(job.trace)
    return path if len(job.targets) == 1 else path.with_stem(f"{path.stem}-{target.name}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Measures the job's target whose number is the argument; the exit status."""
    prepare_environment()
    end_once()  # ranks and half files go first
    # Whatever a library prints must not end up in the result.
    out, sys.stdout = sys.stdout, sys.stderr
    try:
        job = job_of(json.load(sys.stdin))
        begun_s, index = float(sys.argv[1]), int(sys.argv[2])
        result = measure(job, job.targets[index], begun_s=begun_s, say=_say)
    except RuntimeFailure as failure:
        _say(render(failure))
        return 2
    except KeyboardInterrupt:
        return 130
    json.dump(result, out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
