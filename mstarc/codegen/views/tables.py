"""Markdown tables with aligned columns."""

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: str = "") -> tuple[str, ...]:
    """The lines of a table; `right` has an `r` for every column of numbers, a blank for others."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    cells = [list(head), *escaped]
    # A rule has at least three dashes, for readers that want them.
    widths = [max(3, *(len(row[column]) for row in cells)) for column in range(len(head))]
    numbers = [column < len(right) and right[column] == "r" for column in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            f"{cell:>{width}}" if number else f"{cell:<{width}}"
            for cell, width, number in zip(cells, widths, numbers, strict=True)
        ]
        return f"| {' | '.join(padded)} |"

    rule = [
        f"{'-' * (width - 1)}:" if number else "-" * width
        for width, number in zip(widths, numbers, strict=True)
    ]
    return (line(head), f"| {' | '.join(rule)} |", *(line(row) for row in escaped))
