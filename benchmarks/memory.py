"""What KV pages do for requests: prompts in pieces, prompts that begin alike, pages that run out.

Orpheus with random weights, compiled here, on one device:

- *pieces*: the longest time between two sounds of a request while another's long prompt is read, at
  several sizes of pieces;
- *alike*: seconds to the first sound, and rows of prompts that were read, of requests that begin
  alike, with shared pages and without;
- *few pages*: seconds for requests on pages for all of them and for a quarter of them, how often
  pages went to host memory, and whether the sounds are the same bytes.

    python benchmarks/memory.py --devices 1xH200 --sizes benchmarks/orpheus_full.yaml [--json]
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from mstarc_runtime.assembly import RunSettings, use_threads
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.launch import LocalRanks, run_until_done
from mstarc_runtime.loader import load_placement, load_plan
from mstarc_runtime.request import Asked, prepare
from mstarc_runtime.weights.progress import progress_to

ROOT = Path(__file__).resolve().parents[1]
SPEC = ROOT / "specs" / "orpheus.mstar"
STEM = "Read this slowly and with a warm voice, as to somebody who is half asleep. " * 8


class Heard:
    """When a request's sounds come, and their bytes."""

    def __init__(self) -> None:
        self.at: list[float] = []
        self.sound_bytes = b""

    def text(self, output: str, piece: str) -> None: ...

    def value(self, output: str, value: Any) -> None: ...

    def sound(self, output: str, samples: Any, rate: int) -> None:
        self.at.append(time.perf_counter())
        self.sound_bytes += samples.tobytes()

    def finished(self) -> None: ...

    def failed(self, failure: RuntimeFailure) -> None:
        raise failure

    def cancelled(self) -> None:
        raise AssertionError("nobody cancels")


class Speakers:
    """A plan of Orpheus on one device."""

    def __init__(
        self,
        options: argparse.Namespace,
        *,
        piece: int = 0,
        shared: bool = True,
        rows: int = 0,
        pages: int = 0,
    ) -> None:
        folder = Path(tempfile.mkdtemp())
        lines = ["model: orpheus", f"devices: {options.devices}"]
        lines += [f"max_seq_len: {rows or options.rows}"]
        lines += [f"max_concurrent_requests: {options.most}"]
        if pages:
            # As many requests as asked for, whatever pages there are.
            lent = options.most * (rows // 16)
            numbers = f"max_num_pages: {pages}, page_size: 16, cpu_offload_pages: {lent}"
            lines += [f"kv_cache: {{{numbers}}}"]
        lines += ["node_groups:", "  - {node_names: [frontend, LLM, snac_decoder], ranks: [0]}"]
        (folder / "here.yaml").write_text("\n".join(lines) + "\n")
        words = [sys.executable, "-m", "mstarc", "compile", str(SPEC), "-o", str(folder / "plan")]
        words += ["--sizes", str(options.sizes), "--deployment", str(folder / "here.yaml")]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
        self.plan = load_plan(folder / "plan")
        placement = load_placement(self.plan, "here")
        self.ranks = LocalRanks(
            self.plan,
            replace(placement, prefill_tokens=piece or placement.prefill_tokens),
            settings=RunSettings(
                cache_dir=ROOT / "build" / "cache",
                buckets=(options.most,),
                deterministic=False,
                share_prompts=shared,
            ),
            progress=progress_to(sys.stderr),
        )
        self.worker = self.ranks.workers[0]

    def ask(self, prompt: str, tokens: int, seed: int = 0) -> Heard:
        asked = Asked(inputs={"prompt": prompt}, options={"max_tokens": tokens})
        heard = Heard()
        self.ranks.conductor.submit(prepare(self.plan, asked, seed=seed), heard)
        return heard

    def run(self) -> float:
        begun = time.perf_counter()
        run_until_done(self.ranks)
        return time.perf_counter() - begun

    def warm_up(self) -> None:
        for _ in range(2):
            self.ask("Hello.", 40)
            self.run()


def pieces(options: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds between two sounds of a request, usual and at most, by rows of a piece."""
    found = {}
    for piece in (options.rows // 8, options.rows):
        speakers = Speakers(options, piece=piece, shared=False)
        speakers.warm_up()
        speakers.ask("x" * (options.rows - 300), 40)
        speakers.run()
        first = speakers.ask("Hello.", options.tokens)
        while len(first.at) < 3:
            speakers.ranks.turn()
        speakers.ask("y" * (options.rows - 300), 40)
        speakers.run()
        gaps = [1e3 * (b - a) for a, b in zip(first.at[:-1], first.at[1:], strict=True)]
        found[str(piece)] = {"median_ms": statistics.median(gaps), "most_ms": max(gaps)}
    return found


def alike(options: argparse.Namespace) -> dict[str, Any]:
    """By whether pages are shared: milliseconds to the first sound, and rows that were read."""
    found = {}
    for shared in (False, True):
        speakers = Speakers(options, shared=shared)
        speakers.warm_up()
        firsts = []
        for number in range(6):
            begun = time.perf_counter()
            heard = speakers.ask(f"{STEM}Number {number}.", 60)
            speakers.run()
            firsts.append(1e3 * (heard.at[0] - begun))
        counts = speakers.worker.stepper.prompts.counts()
        found["shared" if shared else "own"] = {
            "first_ms": firsts[0],
            "later_ms": statistics.median(firsts[1:]),
            "rows": {
                node: {"asked": made.asked_rows, "found": made.found_rows}
                for node, made in counts.items()
            },
        }
    return found


def few_pages(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds for all requests, on enough pages and on a quarter of them."""
    page = 16
    each = -(-(options.tokens + 64) // page)
    found: dict[str, Any] = {}
    sounds = []
    for name, pages in (("enough", each * options.most), ("few", each * options.most // 4)):
        # One prompt a step, so that nobody's numbers depend on who is beside it.
        speakers = Speakers(options, piece=48, shared=False, rows=each * page, pages=pages)
        speakers.warm_up()
        heard = [
            speakers.ask(f"Sentence {number:02} of it.", options.tokens, seed=number)
            for number in range(options.most)
        ]
        seconds = speakers.run()
        moves = speakers.worker.preempter.moves
        sounds.append([one.sound_bytes for one in heard])
        found[name] = {
            "pages": pages,
            "at_once": speakers.worker.plan.slots,
            "seconds": seconds,
            "set_aside": moves.set_aside,
            "pages_out": moves.pages_out,
        }
    found["same_sounds"] = sounds[0] == sounds[1]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", default="1xcpu")
    parser.add_argument("--sizes", type=Path, default=ROOT / "specs" / "tiny" / "orpheus.yaml")
    parser.add_argument("--rows", type=int, default=2048, help="of a request's context at most")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--most", type=int, default=8, help="requests at once")
    parser.add_argument("--parts", nargs="+", default=["pieces", "alike", "few_pages"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    use_threads(2)
    parts = {"pieces": pieces, "alike": alike, "few_pages": few_pages}
    found: dict[str, Any] = {}
    for name in options.parts:
        found[name] = parts[name](options)
        if not options.json:
            print(name, json.dumps(found[name], indent=1), flush=True)
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
