"""Layouts by hand beside those that the search finds: `python benchmarks/placements.py`.

For every public deployment file of a model that has a spec here, on as many H200s as it uses:
seconds of a request alone (latency), between requests (throughput), or device seconds a request
(cost), for the layout of the file and for the best one. PUBLIC_LAYOUTS is the files' folder.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent), str(Path(__file__).parent.parent / "runtime")]

from mstarc.analysis.placement.problem import OBJECTIVES  # noqa: E402 - the path is set above
from tests.support.public_layouts import compare, public_layouts, read_public  # noqa: E402


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    rows = []
    for name, spec, deployment in public_layouts():
        public = read_public(name, spec, deployment)
        if isinstance(public, str):
            rows.append({"file": name, "refused": public})
            continue
        for objective in OBJECTIVES:
            try:
                found = compare(public, objective)
            except AssertionError as error:
                rows.append({"file": name, "refused": str(error)})
                break
            rows.append(
                {
                    "file": name,
                    "devices": found.devices,
                    "objective": objective,
                    "by_hand": found.by_hand,
                    "best": found.best,
                }
            )
    if as_json:
        print(json.dumps(rows, indent=2))
        return 0
    for row in rows:
        if "refused" in row:
            print(f"{row['file']:<28} not compared: {row['refused'][:90]}")
            continue
        hand = row["by_hand"]
        shown = "no room" if hand is None else f"{hand:.4g}"
        ratio = "" if hand is None else f"{row['best'] / hand:.3f}"
        print(
            f"{row['file']:<28} {row['devices']:<8} {row['objective']:<11} "
            f"{shown:>10} {row['best']:>10.4g} {ratio:>7}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
