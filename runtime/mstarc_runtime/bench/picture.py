"""Figures as one picture (SVG): throughput, time to first output and real-time factor by load.

Panels beside each other, a group of bars a load, a bar a target with its value above. It is drawn
here: six rectangles and some text need no library. Colours stay apart for people who see them
otherwise, and each bar says whose it is in its title.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

_COLOURS = ("#2f6fab", "#e08214", "#4d9221", "#8073ac", "#c51b7d", "#555555")
_PANEL_WIDTH, _PANEL_HEIGHT = 320, 210
_MARGIN, _TOP, _FOOT = 28, 64, 34
_FONT = "font-family='system-ui, sans-serif'"

Figure = Callable[[Mapping[str, Any]], float | None]


def picture_of(result: Mapping[str, Any]) -> str:
    """The text of an SVG file."""
    targets = result["targets"]
    panels = [
        (title, read)
        for title, read in _panels()
        if any(read(load["figures"]) for target in targets for load in target["loads"])
    ]
    width = _MARGIN + max(1, len(panels)) * (_PANEL_WIDTH + _MARGIN)
    height = _TOP + _PANEL_HEIGHT + _FOOT + 22
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' "
        f"width='{width}' height='{height}' {_FONT} font-size='12'>",
        f"<rect width='{width}' height='{height}' fill='white'/>",
        *_legend(targets),
    ]
    for index, (title, read) in enumerate(panels):
        left = _MARGIN + index * (_PANEL_WIDTH + _MARGIN)
        parts += _panel(left, title, read, targets)
    parts.append(_text(_MARGIN, height - 8, _machine(result), size=10, colour="#666"))
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _panels() -> Sequence[tuple[str, Figure]]:
    def p50(name: str, scale: float = 1.0) -> Figure:
        return lambda figures: figures[name] and figures[name]["p50"] * scale

    return (
        ("audio-seconds a second", lambda f: f["sound_s_per_s"] or None),
        ("requests a second", lambda f: None if f["sound_s"] else f["requests_per_s"]),
        ("tokens a second", lambda f: f["tokens_per_s"]),
        ("first sound, p50, ms", p50("first_sound_s", 1000)),
        ("first text, p50, ms", p50("first_text_s", 1000)),
        ("real-time factor, p50", p50("rtf")),
        ("goodput, share of requests", lambda f: f.get("goodput", {}).get("share")),
    )


def _panel(
    left: float, title: str, read: Figure, targets: Sequence[Mapping[str, Any]]
) -> list[str]:
    loads = [load["load"] for load in targets[0]["loads"]]
    values = [[read(load["figures"]) for load in target["loads"]] for target in targets]
    greatest = max((v for row in values for v in row if v is not None), default=0.0) or 1.0
    bottom = _TOP + _PANEL_HEIGHT
    group = _PANEL_WIDTH / len(loads)
    bar = group * 0.8 / len(targets)
    parts = [
        _text(left, _TOP - 10, title, weight="bold"),
        f"<line x1='{left}' y1='{bottom}' x2='{left + _PANEL_WIDTH}' y2='{bottom}' stroke='#999'/>",
    ]
    for place, load in enumerate(loads):
        centre = left + (place + 0.5) * group
        parts.append(_text(centre, bottom + 16, load, anchor="middle"))
        for row, target in enumerate(targets):
            value = values[row][place]
            if value is None:
                continue
            tall = (_PANEL_HEIGHT - 20) * value / greatest
            x = left + place * group + group * 0.1 + row * bar
            label = _shown(value)
            parts.append(
                f"<rect x='{x:.1f}' y='{bottom - tall:.1f}' width='{bar * 0.92:.1f}' "
                f"height='{tall:.1f}' fill='{_COLOURS[row % len(_COLOURS)]}'>"
                f"<title>{escape(target['name'])}, {escape(load)}: {label}</title></rect>"
            )
            parts.append(_text(x + bar * 0.46, bottom - tall - 4, label, anchor="middle", size=10))
    return parts


def _legend(targets: Sequence[Mapping[str, Any]]) -> list[str]:
    parts = []
    x = float(_MARGIN)
    for row, target in enumerate(targets):
        colour = _COLOURS[row % len(_COLOURS)]
        parts.append(f"<rect x='{x}' y='14' width='12' height='12' fill='{colour}'/>")
        parts.append(_text(x + 18, 25, target["name"]))
        x += 40 + 7.5 * len(target["name"])
    return parts


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    size: int = 12,
    weight: str = "normal",
    colour: str = "#222",
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' font-size='{size}' "
        f"font-weight='{weight}' fill='{colour}'>{escape(text)}</text>"
    )


def _shown(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _machine(result: Mapping[str, Any]) -> str:
    names: set[str] = set()
    for target in result["targets"]:
        names.update(target["facts"].get("device_names", ()))
    machine = result["machine"]
    where = ", ".join(sorted(names)) or f"{machine['processor']}, {machine['cores']} cores"
    return f"{where}; {result['when']}"
