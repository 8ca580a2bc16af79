"""How long `mstarc lint` takes from a cold start, for all shipped specs and for a very long one.

    python benchmarks/lint_start.py
    python benchmarks/lint_start.py --json

Each run is a process of its own, started as a user would. Printed are the CPU time that it took
(user and system), the least and the median of the runs, which other work on the machine disturbs
least, and the time on the clock. On two busy cores CPU time is up to twice that on idle ones: a
loop that does not change is measured too, to compare with. The long spec is Orpheus, without
its public names, again and again.
"""

import argparse
import json
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from mstarc.resources import specs_folder

RUNS = 9
LONG_LINES = 2000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_AsWritten)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--runs", type=int, default=RUNS, metavar="N")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        long = Path(folder) / "long.mstar"
        long.write_text(long_spec(LONG_LINES), encoding="utf-8")
        lines = long.read_text(encoding="utf-8").count("\n")
        python = [sys.executable, "-c", "pass"]
        yardstick = [sys.executable, "-c", "for i in range(3_000_000): i * i"]
        lint = [sys.executable, "-m", "mstarc", "lint"]
        specs = specs_folder()
        count = len(list(specs.glob("*.mstar")))
        measured = {
            "python alone": measure(python, options.runs),
            "a loop of three million, to compare machines": measure(yardstick, options.runs),
            f"lint specs/ ({count} specs and their files)": measure(
                [*lint, str(specs)], options.runs
            ),
            f"lint a spec of {lines} lines": measure([*lint, str(long)], options.runs),
        }
    if options.json:
        print(json.dumps(measured, indent=2))
        return
    print(f"{'':44} {'CPU, least':>11} {'median':>8} {'clock':>8}")
    for name, row in measured.items():
        cpu = f"{row['cpu_least_s']:9.3f} s {row['cpu_median_s']:6.3f} s"
        print(f"{name:44} {cpu} {row['clock_least_s']:6.3f} s")


class _AsWritten(argparse.RawDescriptionHelpFormatter):
    pass


def measure(command: Sequence[str], runs: int) -> dict[str, float]:
    """CPU and clock time of a process, over several runs after one that is not counted."""
    cpu, clock = [], []
    for _ in range(runs + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.perf_counter()
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
        )
        clock.append(time.perf_counter() - started)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert done.returncode == 0, done.stdout.decode()
    return {
        "cpu_least_s": min(cpu[1:]),
        "cpu_median_s": statistics.median(cpu[1:]),
        "clock_least_s": min(clock[1:]),
    }


def long_spec(lines: int) -> str:
    """A valid spec of at least `lines` lines."""
    text = (specs_folder() / "orpheus.mstar").read_text(encoding="utf-8")
    text = re.sub(r' as "\w+"', "", text)
    top, begin = text[: text.index("request {")], text.index("request {")
    body = text[begin:]
    request, rest = body[: body.index("node ")], body[body.index("node ") :]
    copies = []
    outputs = []
    count = 0
    while sum(copy.count("\n") for copy in copies) < lines:
        count += 1
        copies.append(_renamed(rest, count))
        outputs.append(f"  out speech{count} : audio(24000)\n")
    request = re.sub(r"  out speech[^\n]*\n", "".join(outputs), request)
    return top + request + "\n".join(copies)


def _renamed(text: str, number: int) -> str:
    """Declared names get a number; ops and states keep theirs, which are their node's own."""
    declared = r"(node |stream |walk |machine |run |send |emit |each )(\w+)"
    text = re.sub(declared, lambda found: f"{found[1]}{found[2]}{number}", text)
    return re.sub(r"= (frontend|lm|codec)\.", lambda found: f"= {found[1]}{number}.", text)


if __name__ == "__main__":
    main()
