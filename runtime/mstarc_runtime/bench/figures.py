"""Records of one load → what they say together.

Every figure's unit is in its name. Quantiles are linear between the two nearest records. A load's
wall time is from when its first request was due until its last one ended.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mstarc_runtime.bench.record import Record

# What a request may be held to, each the most that is good.
SLO_NAMES: Mapping[str, Callable[[Record], float | None]] = {
    "first_output": lambda record: record.first_s,
    "first_text": lambda record: record.first_text_s,
    "first_sound": lambda record: record.first_sound_s,
    "rtf": lambda record: record.real_time_factor,
    "latency": lambda record: record.latency_s,
    "gap": lambda record: max(record.gaps_s, default=0.0),
}


def figures_of(
    records: Sequence[Record], *, slo: Mapping[str, float], counted_tokens: int | None = None
) -> dict[str, Any]:
    """The figures of a load. `counted_tokens` stand in where no record counts its own."""
    good = [record for record in records if not record.error]
    ended = [record.ended_s for record in records if record.ended_s is not None]
    wall_s = max(ended, default=0.0) - min((record.due_s for record in records), default=0.0)
    tokens = [record.tokens for record in good if record.tokens is not None]
    all_tokens = sum(tokens) if tokens else counted_tokens
    gaps = [gap for record in good for gap in record.gaps_s]
    waits = [record.underruns_s for record in good]
    found: dict[str, Any] = {
        "requests": len(records),
        "failed": len(records) - len(good),
        "wall_s": wall_s,
        "requests_per_s": _per(len(good), wall_s),
        "sound_s": sum(record.sound_s for record in good),
        "sound_s_per_s": _per(sum(record.sound_s for record in good), wall_s),
        "tokens": all_tokens,
        "tokens_per_s": None if all_tokens is None else _per(all_tokens, wall_s),
        "first_output_s": quantiles([record.first_s for record in good]),
        "first_text_s": quantiles([record.first_text_s for record in good]),
        "first_sound_s": quantiles([record.first_sound_s for record in good]),
        "rtf": quantiles([record.real_time_factor for record in good]),
        "latency_s": quantiles([record.latency_s for record in good]),
        "gap_s": quantiles(gaps),
        "underruns": {
            "requests": sum(1 for each in waits if each),
            "times": sum(len(each) for each in waits),
            "waited_s": sum(sum(each) for each in waits),
        },
    }
    if slo:
        held = sum(1 for record in good if is_good(record, slo))
        found["goodput"] = {
            "requests": held,
            "share": held / len(records) if records else 0.0,
            "requests_per_s": _per(held, wall_s),
        }
    return found


def is_good(record: Record, slo: Mapping[str, float]) -> bool:
    """Whether a request kept to all bounds. One that made nothing that is bounded did not."""
    for name, most in slo.items():
        value = SLO_NAMES[name](record)
        if value is None or value > most:
            return False
    return True


def in_short(figures: Mapping[str, Any]) -> str:
    """A load's figures as one line, for whoever waits for the rest."""
    parts = [f"{figures['requests']} requests"]
    if figures["sound_s_per_s"]:
        parts.append(f"{figures['sound_s_per_s']:.4g} audio-s/s")
    elif figures["requests_per_s"]:
        parts.append(f"{figures['requests_per_s']:.4g} a second")
    if figures["rtf"]:
        parts.append(f"RTF {figures['rtf']['p50']:.3g}")
    for name, what in (("first_sound_s", "first sound"), ("first_text_s", "first text")):
        if figures[name]:
            parts.append(f"{what} {figures[name]['p50'] * 1000:.4g} ms")
    return ", ".join(parts)


def quantiles(values: Sequence[float | None]) -> dict[str, float] | None:
    """p50, p90, p99 and the greatest of those that are there; none of none."""
    found = sorted(value for value in values if value is not None)
    if not found:
        return None
    return {
        "p50": quantile(found, 0.5),
        "p90": quantile(found, 0.9),
        "p99": quantile(found, 0.99),
        "max": found[-1],
    }


def quantile(ascending: Sequence[float], share: float) -> float:
    """
    >>> quantile([1.0, 2.0, 4.0], 0.75)
    3.0
    """
    place = share * (len(ascending) - 1)
    low = int(place)
    high = min(low + 1, len(ascending) - 1)
    return ascending[low] + (ascending[high] - ascending[low]) * (place - low)


def _per(amount: float, seconds: float) -> float:
    return amount / seconds if seconds > 0 else 0.0
