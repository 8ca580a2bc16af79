"""What a run says when it is over: what ran call by call, how busy devices were, a trace.

What ranks have told (`launch.ask_ranks`) → lines for people, `eager_fallbacks` for programs, and
the file of `--trace`.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mstarc_runtime.frames import Frame
from mstarc_runtime.launch import Ranks, ask_ranks
from mstarc_runtime.messages import Tally, Told
from mstarc_runtime.trace import LEFT_OUT, Span
from mstarc_runtime.trace_file import steady_shares, trace_of, write_trace

Say = Callable[[str], None]
# Of the steady time: what was shorter, as while a wave ends, says little.
_TOLD_SHARE = 0.05


def bucket_notes(buckets: Sequence[int], max_requests: int) -> Iterator[str]:
    """What is not as it was asked for: sizes twice or too great, batches cut in parts."""
    if not buckets:
        return
    if len(set(buckets)) < len(buckets):
        yield "note: a size stands twice in `--buckets`; it is captured once"
    above = sorted({size for size in buckets if size > max_requests})
    if above:
        sizes = ", ".join(str(size) for size in above)
        yield f"note: no batch of {sizes}: at most {max_requests} requests run at once"
    most = max(buckets)
    if most < max_requests:
        yield f"note: batches of {most + 1} to {max_requests} run as several of at most {most}"


def tell_how_it_ran(ranks: Ranks, trace: Path | None, say: Say) -> None:
    """Says what ran eagerly beside graphs; writes the trace. Fails with MS9002 or MS9003."""
    told = ask_ranks(ranks, with_trace=trace is not None)
    for line in coverage_lines([tally for each, _ in told for tally in each.tallies]):
        say(line)
    for line in page_lines([each for each, _ in told]):
        say(line)
    for line in kernel_lines([each for each, _ in told]):
        say(line)
    if trace is not None:
        for line in keep_trace(ranks, told, trace):
            say(line)


def coverage_lines(tallies: Sequence[Tally]) -> Iterator[str]:
    """Nothing where no graph has run: there each call is one by itself, and nobody is surprised."""
    replayed = sum(tally.runs for tally in tallies if not tally.reason)
    if not replayed:
        return
    runs = sum(tally.runs for tally in tallies)
    yield f"graphs: {replayed} of {runs} steps were one graph each"
    for entry in eager_fallbacks(tallies):
        nodes = ", ".join(f"`{node}`" for node in entry["nodes"]) or "no node"
        yield (
            f"  eager: {entry['walk']} ({nodes}) at batch {entry['bs']}: "
            f"{entry['runs']} times: {entry['reason']}"
        )


def page_lines(told: Sequence[Told]) -> Iterator[str]:
    """What became of pages of KV caches, where anything did."""
    counts: Counter[str] = Counter()
    for each in told:
        counts.update(json.loads(each.now or "{}").get("counts", {}))
    if counts["kv_preemptions"]:
        yield (
            f"pages ran out: {counts['kv_pages_set_aside']} pages of younger requests went to host "
            f"memory, {counts['kv_preemptions']} times in all"
        )
    if counts["prompt_rows_shared"]:
        yield (
            f"prompts: {counts['prompt_rows_shared']} of {counts['prompt_rows']} rows had been "
            "read for another request"
        )
    if counts["rows_attended_together"]:
        yield (
            f"cascade: {counts['rows_read_together']} rows of prompts a layer were read for "
            f"{counts['rows_attended_together']} that requests attended"
        )


def kernel_lines(told: Sequence[Told]) -> Iterator[str]:
    """Which kernels were compiled while requests waited, if any were."""
    compiled: Counter[str] = Counter()
    spent_ms = 0
    for each in told:
        now = json.loads(each.now or "{}")
        compiled.update(now.get("kernels", {}))
        spent_ms += now.get("counts", {}).get("kernel_compile_milliseconds", 0)
    if compiled:
        names = ", ".join(f"`{name}` {count}" for name, count in compiled.most_common())
        yield (
            f"kernels: {compiled.total()} were compiled while requests waited, "
            f"{spent_ms / 1000:.1f} s in all: {names}"
        )


def eager_fallbacks(tallies: Iterable[Tally]) -> list[dict[str, Any]]:
    """What ran call by call, by nodes, step of a walk and batch size, with the reason."""
    found: dict[tuple[str, int, str], dict[str, Any]] = {}
    for tally in tallies:
        if not tally.reason:
            continue
        entry = found.setdefault(
            (tally.step, tally.bucket, tally.reason),
            {
                "nodes": list(tally.nodes),
                "walk": tally.step,
                "bs": tally.bucket,
                "reason": tally.reason,
                "runs": 0,
            },
        )
        entry["runs"] += tally.runs
    return [found[key] for key in sorted(found)]


def keep_trace(ranks: Ranks, told: Sequence[tuple[Told, Frame]], path: Path) -> list[str]:
    """Writes the trace; what is to be said of it. Fails with MS9002 or MS9003."""
    requests = ranks.conductor.trace
    assert requests is not None, "the ranks keep no trace"
    names = {facts.process: str(facts) for facts in ranks.conductor.placement.processes}
    spans: dict[str, Sequence[Span]] = {
        names[each.process]: [tuple(span) for span in json.loads(bytes(frame))]
        for each, frame in told
    }
    write_trace(path, trace_of(spans, requests))
    lines = [f"wrote {path}"]
    for name, found in spans.items():
        lines += [
            f"{name}: {facts['spans']} further spans were left out"
            for _, what, _, _, facts in found[-1:]
            if what == LEFT_OUT
        ]
        shares = steady_shares(found, requests)
        least_ns = _TOLD_SHARE * sum(busy.wall_ns for busy in shares)
        lines += [
            f"{name}: device busy {busy.share:.1%} of {busy.wall_ns / 1e9:.2f} s "
            f"in steady decode with {busy.requests} at once"
            for busy in shares
            if busy.wall_ns and busy.wall_ns >= least_ns
        ]
    return lines
