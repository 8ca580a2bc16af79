"""How long an author waits for the language server: a real client types in a long spec.

Each keystroke is sent when the answer to the one before is there. Measured are the time until its
findings are published, and until a completion that is asked for right after it is answered.

    python benchmarks/language_server.py [--lines 2000] [--keystrokes 60] [--json]
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.long_spec import long_spec
from tests.support.lsp_client import LspClient

TYPED = "    pcm = voice_5.speak(ids)\n"
URI = "file:///long.mstar"


def measure(lines: int, keystrokes: int) -> dict[str, float]:
    """Median and 95th percentile in milliseconds, for each kind of answer."""
    text = long_spec(lines)
    rows = text.splitlines()
    walks = [index for index, row in enumerate(rows) if row.startswith("walk answer_")]
    published: list[float] = []
    completed: list[float] = []
    with LspClient() as client:
        client.open(URI, text)
        client.diagnostics(URI)
        while len(published) < keystrokes:
            # A new line in another place for every line that is typed.
            line = walks[len(published) % len(walks)] + 2
            column = 0
            for char in TYPED:
                started = perf_counter()
                version = client.change(URI, (line, column), (line, column), char)
                client.diagnostics(URI, version)
                published.append(1000 * (perf_counter() - started))
                column += 1
                if char == "\n":
                    continue
                started = perf_counter()
                client.at("completion", URI, (line, column))
                completed.append(1000 * (perf_counter() - started))
            version = client.change(URI, (line, 0), (line + 1, 0), "")
            client.diagnostics(URI, version)
    return {
        "lines": len(rows),
        "keystrokes": len(published),
        "findings_median_ms": statistics.median(published),
        "findings_p95_ms": statistics.quantiles(published, n=20)[-1],
        "completion_median_ms": statistics.median(completed),
        "completion_p95_ms": statistics.quantiles(completed, n=20)[-1],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--lines", type=int, default=2000)
    parser.add_argument("--keystrokes", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.lines, options.keystrokes)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    print(f"a keystroke in a spec of {found['lines']} lines, {found['keystrokes']} of them:")
    for answer in ("findings", "completion"):
        median, most = found[f"{answer}_median_ms"], found[f"{answer}_p95_ms"]
        print(f"  {answer:<10} median {median:6.1f} ms, 95 of 100 within {most:6.1f} ms")


if __name__ == "__main__":
    main()
