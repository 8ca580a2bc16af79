"""`python -m mstarc_runtime.bench < job.json`, which `mstarc bench` starts.

Each target is measured by a process of its own, one after the other; then figures are summed up,
shown beside each other, and kept. Exit status 0: measured; 1: a request failed; 2: a target could
not be measured.
"""

import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from mstarc_runtime.bench.ending import end_once
from mstarc_runtime.bench.figures import figures_of
from mstarc_runtime.bench.job import Job, job_of
from mstarc_runtime.bench.picture import picture_of
from mstarc_runtime.bench.record import Record
from mstarc_runtime.bench.table import print_table

SCHEMA = 1
INTERRUPTED = 130
_PACKAGES = ("mstarc", "torch", "triton", "flashinfer-python", "numpy")


def main() -> int:
    content = json.load(sys.stdin)
    job = job_of(content)
    measured: list[dict[str, Any]] = []
    for index, target in enumerate(job.targets):
        if len(job.targets) > 1:
            print(f"{target.name}:", file=sys.stderr, flush=True)
        found = _measured(content, index)
        if isinstance(found, int):
            return found
        measured.append(_summed_up(job, index, found))
    result = {
        "schema": SCHEMA,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine_facts(),
        "settings": content,
        "targets": measured,
        "ratios": ratios(measured),
    }
    print_table(result, sys.stdout)
    status = 0 if not _failures(measured) else 1
    if job.out is not None and not _keep(job.out, json.dumps(result, indent=1) + "\n"):
        status = 2
    if job.svg is not None and not _keep(job.svg, picture_of(result)):
        status = 2
    return status


def machine_facts() -> dict[str, Any]:
    """What the measuring process sees of the machine and of what is installed."""
    found: dict[str, str] = {}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "packages": found,
    }


def ratios(targets: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each further target against the first, load by load: above 1 the further one has more."""
    if len(targets) < 2:
        return []
    first, *others = targets
    found = []
    for other in others:
        for base, load in zip(first["loads"], other["loads"], strict=True):
            found.append(
                {
                    "target": other["name"],
                    "against": first["name"],
                    "load": load["load"],
                    "ratios": _ratios(load["figures"], base["figures"]),
                }
            )
    return found


def _ratios(figures: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, float]:
    found = {}
    for name in ("requests_per_s", "sound_s_per_s", "tokens_per_s"):
        if figures[name] and base[name]:
            found[name] = figures[name] / base[name]
    for name in ("first_output_s", "first_text_s", "first_sound_s", "rtf", "latency_s", "gap_s"):
        if figures[name] and base[name] and base[name]["p50"]:
            found[f"{name}.p50"] = figures[name]["p50"] / base[name]["p50"]
    return found


def _measured(content: Mapping[str, Any], index: int) -> dict[str, Any] | int:
    """What the measuring process found, or its exit status; it has said why."""
    command = [sys.executable, "-m", "mstarc_runtime.bench.measure", str(time.time()), str(index)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            out, _ = process.communicate(json.dumps(content).encode())
        except KeyboardInterrupt:
            # A terminal tells all; anyone else has told only this process. It ends its ranks.
            process.send_signal(signal.SIGINT)
            process.wait()
            return INTERRUPTED
    if process.returncode:
        return process.returncode if process.returncode > 0 else 2
    found: dict[str, Any] = json.loads(out)
    return found


def _summed_up(job: Job, index: int, found: Mapping[str, Any]) -> dict[str, Any]:
    loads = []
    for load, made in zip(job.loads, found["loads"], strict=True):
        records = [Record.from_json(record) for record in made["records"]]
        figures = figures_of(records, slo=job.slo, counted_tokens=made["tokens"])
        loads.append({"load": str(load), "figures": figures, "records": made["records"]})
    return {"name": job.targets[index].name, "facts": found["facts"], "loads": loads}


def _failures(targets: Sequence[Mapping[str, Any]]) -> int:
    return sum(load["figures"]["failed"] for target in targets for load in target["loads"])


def _keep(name: str, text: str) -> bool:
    path = Path(name)
    partial = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        print(f"error[MS9003]: `{name}` can't be written: {error.strerror}", file=sys.stderr)
        return False
    print(f"wrote {name}", file=sys.stderr)
    return True


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    end_once()
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
