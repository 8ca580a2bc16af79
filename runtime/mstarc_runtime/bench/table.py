"""Figures as tables on a terminal: colour where a terminal takes it, plain text elsewhere."""

from collections.abc import Mapping, Sequence
from typing import IO, Any

from rich.console import Console
from rich.table import Table

_PLAIN_WIDTH = 160
_SHORT = {
    "requests_per_s": "req/s",
    "sound_s_per_s": "audio-s/s",
    "tokens_per_s": "tokens/s",
    "first_sound_s.p50": "first sound p50",
    "first_text_s.p50": "first text p50",
    "first_output_s.p50": "first output p50",
    "rtf.p50": "RTF p50",
    "latency_s.p50": "latency p50",
    "gap_s.p50": "gap p50",
}


def print_table(result: Mapping[str, Any], stream: IO[str]) -> None:
    """A table a target, then how targets compare."""
    console = Console(file=stream, highlight=False)
    if not console.is_terminal:
        console = Console(file=stream, highlight=False, color_system=None, width=_PLAIN_WIDTH)
    for target in result["targets"]:
        console.print(_table(target))
        for line in _said(target["facts"]):
            console.print(line, markup=False)
    if result["ratios"]:
        console.print(_ratio_table(result["ratios"]))


def _table(target: Mapping[str, Any]) -> Table:
    figures = [load["figures"] for load in target["loads"]]
    columns: list[tuple[str, Any]] = [
        ("requests", lambda f: f"{f['requests']}"),
        ("req/s", lambda f: _number(f["requests_per_s"])),
    ]
    if any(f["sound_s"] for f in figures):
        columns += [
            ("audio-s/s", lambda f: _number(f["sound_s_per_s"])),
            ("first sound p50 / p99", lambda f: _pair(f["first_sound_s"], 1000, " ms")),
            ("RTF p50 / p99", lambda f: _pair(f["rtf"], 1, "")),
        ]
    if any(f["first_text_s"] for f in figures):
        columns.append(("first text p50 / p99", lambda f: _pair(f["first_text_s"], 1000, " ms")))
    if not any(f["first_text_s"] or f["sound_s"] for f in figures):
        columns.append(
            ("first output p50 / p99", lambda f: _pair(f["first_output_s"], 1000, " ms"))
        )
    if any(f["gap_s"] for f in figures):
        columns.append(("gap p50 / p99 / max", lambda f: _triple(f["gap_s"])))
    if any(f["sound_s"] for f in figures):
        columns.append(("underruns", lambda f: f"{f['underruns']['times']}"))
    if any(f["tokens"] for f in figures):
        columns.append(("tokens/s", lambda f: _number(f["tokens_per_s"])))
    if any("goodput" in f for f in figures):
        columns.append(("goodput", lambda f: f"{f['goodput']['share']:.0%}"))
    if any(f["failed"] for f in figures):
        columns.append(("failed", lambda f: f"{f['failed']}"))
    table = Table(title=target["name"], title_justify="left", title_style="bold")
    table.add_column("load", style="cyan")
    for name, _ in columns:
        table.add_column(name, justify="right")
    for load in target["loads"]:
        table.add_row(load["load"], *(cell(load["figures"]) for _, cell in columns))
    return table


def _said(facts: Mapping[str, Any]) -> list[str]:
    if "ready_s" not in facts:
        return []
    parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in facts["start_s"].items())
    lines = [f"ready after {facts['ready_s']:.1f} s" + (f" ({parts})" if parts else "")]
    # Of another server only its start is known.
    if facts.get("graph_runs") and facts["eager_fallbacks"]:
        lines.append(f"{facts['graph_runs']} steps were one graph each; call by call ran:")
        lines += [
            f"  {e['walk']} ({', '.join(e['nodes']) or 'no node'}) at batch {e['bs']}: "
            f"{e['runs']} times: {e['reason']}"
            for e in facts["eager_fallbacks"]
        ]
    return lines


def _ratio_table(ratios: Sequence[Mapping[str, Any]]) -> Table:
    found = {name for entry in ratios for name in entry["ratios"]}
    names = [name for name in _SHORT if name in found]
    table = Table(title="ratios", title_justify="left", title_style="bold")
    table.add_column("target / against", style="cyan")
    table.add_column("load")
    for name in names:
        table.add_column(_SHORT[name], justify="right")
    for entry in ratios:
        cells = [
            f"{entry['ratios'][name]:.2f}×" if name in entry["ratios"] else "–" for name in names
        ]
        table.add_row(f"{entry['target']} / {entry['against']}", entry["load"], *cells)
    return table


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _pair(quantiles: Mapping[str, float] | None, scale: float, unit: str) -> str:
    if quantiles is None:
        return "–"
    return f"{_number(quantiles['p50'] * scale)} / {_number(quantiles['p99'] * scale)}{unit}"


def _triple(quantiles: Mapping[str, float] | None) -> str:
    if quantiles is None:
        return "–"
    return " / ".join(_number(quantiles[name] * 1000) for name in ("p50", "p99", "max")) + " ms"
