"""Sizes and shares as people read them."""


def amount_of_bytes(count: int) -> str:
    """`3.8 GB`, `960 kB`, `64 B`: powers of ten, two or three digits that count."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5 or unit == "GB":
            break
        size /= 1000
    digits = f"{size:.0f}" if size >= 99.5 or unit == "B" else f"{size:.2g}"
    return f"{digits} {unit}"


def amount_of_seconds(seconds: float) -> str:
    """`1.2 s`, `35 ms`, `9 µs`."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1 or unit == "µs":
            return (
                f"{seconds * factor:.2g} {unit}"
                if seconds * factor < 99.5
                else (f"{seconds * factor:.0f} {unit}")
            )
    raise AssertionError(seconds)


def share(part: float, whole: float) -> str:
    """`27 %`."""
    percent = 100 * part / whole if whole else 0.0
    return "< 1 %" if 0 < percent < 0.5 else f"{percent:.0f} %"


def count_of(number: int, noun: str) -> str:
    """`1 rank`, `3 ranks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
