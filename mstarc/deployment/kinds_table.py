"""The device catalogue as a table for people, and as plain data."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mstarc.deployment.catalog import DeviceKind

_HEAD = (
    "kind",
    "memory",
    "bandwidth",
    "reached",
    "matmul",
    "reached",
    "link",
    "hop",
    "shards",
    "to a host",
    "a host",
    "price",
)


def kinds_table(kinds: Sequence[DeviceKind]) -> str:
    """One line a kind, then where the numbers of each are from."""
    rows = [_HEAD, *(_row(kind) for kind in kinds)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    lines += ["", "Where the numbers are from:"]
    lines += [f"  {kind.name.ljust(widths[0])}  {kind.source}" for kind in kinds]
    lines += [
        "",
        "Rates are of the dtype that weights are kept in. `reached` is what a well-made kernel",
        "gets of the data sheet's figure. `link` is between devices of one host, which has as many",
        "as `a host` says; `to a host` is between hosts. A price of 1 is an H200 for an hour.",
        "`shards` is what a call of a node in shards costs besides: its other ranks are told",
        "(measured by benchmarks/shard_steps.py, unless a file or a profile says it).",
        "Other numbers: `device_kinds` in a deployment file, or in a file given with `--devices`.",
    ]
    return "\n".join(lines) + "\n"


def kinds_data(kinds: Sequence[DeviceKind]) -> list[dict[str, Any]]:
    """Every field of every kind."""
    return [{**asdict(kind), "rates": dict(kind.rates)} for kind in kinds]


def _row(kind: DeviceKind) -> tuple[str, ...]:
    return (
        kind.name,
        f"{kind.memory_bytes / 1e9:.0f} GB",
        _rate(kind.bandwidth_bytes_per_s),
        f"{kind.bandwidth_share * 100:.0f} %",
        _flops(kind.matrix_flops_per_s),
        f"{kind.matrix_share * 100:.0f} %",
        _rate(kind.link_bytes_per_s),
        f"{kind.hop_s * 1e6:.0f} µs",
        f"{kind.shard_call_s * 1e6:.0f} µs",
        _rate(kind.network_bytes_per_s),
        str(kind.devices_per_host),
        f"{kind.price:g}",
    )


def _rate(size: float) -> str:
    return f"{size / 1e12:.3g} TB/s" if size >= 1e12 else f"{size / 1e9:.3g} GB/s"


def _flops(rate: float) -> str:
    return f"{rate / 1e12:,.0f} TFLOP/s" if rate >= 1e13 else f"{rate / 1e12:.2g} TFLOP/s"
