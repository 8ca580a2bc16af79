"""Values as Python source, and calls laid out within a line length.

The layout is the common formatter's: a call that does not fit on its line has one argument a line
and a comma behind the last.
"""

from collections.abc import Sequence

LINE_LENGTH = 100


def pyrepr(value: object) -> str:
    """A constant as Python writes it, strings in double quotes."""
    match value:
        case str():
            return _string(value)
        case tuple():
            inner = ", ".join(map(pyrepr, value))
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        case list():
            return f"[{', '.join(map(pyrepr, value))}]"
        case dict():
            return "{" + ", ".join(f"{pyrepr(k)}: {pyrepr(v)}" for k, v in value.items()) + "}"
        case None | bool() | int() | float():
            return repr(value)
        case _:
            raise TypeError(f"no Python source for {value!r}")


def _string(text: str) -> str:
    quoted = repr(text)
    if quoted.startswith("'") and '"' not in text:
        return '"' + quoted[1:-1].replace("\\'", "'") + '"'
    return quoted


def layout_call(
    head: str, arguments: Sequence[str], indent: int, *, tail: str = "", before: int = 0
) -> str:
    """`head(arguments)tail`, broken where it must be. The first line is not indented.

    `before` is what stands on the line before `head`. An argument may have several lines already,
    written for the indent of `indent + 4`.
    """
    flat = f"{head}({', '.join(arguments)}){tail}"
    if "\n" not in flat and indent + before + len(flat) <= LINE_LENGTH:
        return flat
    inner = " " * (indent + 4)
    lines = [f"{head}("]
    lines += [f"{inner}{argument}," for argument in arguments]
    lines.append(f"{' ' * indent}){tail}")
    return "\n".join(lines)


def layout_tuple(items: Sequence[str], indent: int, *, before: int = 0, after: int = 0) -> str:
    """A tuple of sources, one a line where they do not fit. The first line is not indented."""
    flat = f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    if "\n" not in flat and indent + before + len(flat) + after <= LINE_LENGTH:
        return flat
    inner = " " * (indent + 4)
    return "\n".join(["(", *(f"{inner}{item}," for item in items), f"{' ' * indent})"])


def layout_dict(
    items: Sequence[tuple[str, str]], indent: int, *, before: int = 0, after: int = 0
) -> str:
    """A dict of sources, one entry a line where they do not fit. The first line is not indented."""
    flat = "{" + ", ".join(f"{key}: {value}" for key, value in items) + "}"
    if "\n" not in flat and indent + before + len(flat) + after <= LINE_LENGTH:
        return flat
    inner = " " * (indent + 4)
    return "\n".join(
        ["{", *(f"{inner}{key}: {value}," for key, value in items), " " * indent + "}"]
    )


def layout_value(value: object, indent: int, *, before: int = 0, after: int = 0) -> str:
    """A constant; a dict, and those in it, one entry a line where they do not fit."""
    if not isinstance(value, dict):
        return pyrepr(value)
    items = []
    for key, entry in value.items():
        name = pyrepr(key)
        laid_out = layout_value(entry, indent + 4, before=len(name) + 2, after=1)
        items.append((name, laid_out))
    # A dict in it that does not fit is on several lines, and then so is this one.
    return layout_dict(items, indent, before=before, after=after)


def two_columns(left: str, right: str, width: int = LINE_LENGTH) -> str:
    """A line with `right` at its end, at least two blanks behind `left`."""
    gap = max(2, width - len(left) - len(right))
    return f"{left}{' ' * gap}{right}"
