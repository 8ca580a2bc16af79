"""A picture as a tree of boxes for the terminal."""

from io import StringIO

from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from mstarc.codegen.views.amounts import amount_of_bytes
from mstarc.show.picture import Block, Picture

_STYLES = {"kv_cache": "bold blue", "stateless": "bold cyan", "host": "bold yellow"}
_ENGINES = {"kv_cache": "KV cache", "stateless": "no state", "host": "host"}
_SIGNS = {"loop": "↻ ", "each": "⇥ ", "for": "⇥ ", "parallel": "∥ ", "send": "→ ", "emit": "◀ "}
_SIGN_STYLES = {"send": "magenta", "pull": "magenta", "mark": "magenta", "emit": "green"}


def terminal(picture: Picture, *, width: int, colour: bool) -> str:
    """The lines of a picture, at most `width` columns; escapes only with `colour`."""
    output = StringIO()
    console = Console(
        file=output,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        highlight=False,
        legacy_windows=False,
    )
    console.print(_whole(picture))
    # A terminal needs no spaces up to its edge, and a file even less.
    return "\n".join(line.rstrip() for line in output.getvalue().splitlines()) + "\n"


def _whole(picture: Picture) -> RenderableType:
    title = Text(f"\n{picture.model}", style="bold")
    if picture.placement:
        title.append(f" on {picture.placement}", style="dim")
    parts: list[RenderableType] = [title]
    if picture.fields:
        parts.append(_fields(picture))
    if picture.ranks:
        parts.append(_ranks(picture))
    if picture.journeys:
        parts.append(_journeys(picture))
    if picture.nodes:
        parts.append(_nodes(picture))
    for block in picture.blocks:
        tree = Tree(_title(block), guide_style="dim")
        for inner in block.blocks:
            _branch(tree, inner)
        parts.append(Panel(tree, box=box.ROUNDED, border_style="dim", padding=(0, 1)))
    if picture.channels:
        parts.append(_streams(picture))
    spaced = [line for part in parts for line in (part, Text())]
    return Group(*spaced[:-1])


def _row(table: Table, *cells: str | Text) -> None:
    """Add a row; a text such as `i64[T]` is no markup."""
    table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in cells))


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, header_style="dim", padding=(0, 1), show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _fields(picture: Picture) -> Table:
    table = _table("request", "", "")
    for field in picture.fields:
        style = "green" if field.kind == "out" else ""
        _row(table, Text(field.kind, style="dim"), Text(field.name, style=style), field.text)
    return table


def _nodes(picture: Picture) -> Table:
    placed = bool(picture.ranks)
    table = _table("node", "keeps", "ops", "weights", *(["ranks"] if placed else []))
    for node in picture.nodes:
        ranks = [node.where] if placed else []
        _row(
            table,
            Text(node.name, style=_STYLES[node.engine]),
            _ENGINES[node.engine],
            ", ".join(node.ops),
            node.weights,
            *ranks,
        )
    return table


def _ranks(picture: Picture) -> Table:
    copied = any(rank.copies for rank in picture.ranks)
    table = _table("rank", "device", "takes", "of", "", *(["copies on"] if copied else []))
    for rank in picture.ranks:
        share = rank.used_bytes / rank.memory_bytes if rank.memory_bytes else 0.0
        filled = min(20, round(20 * share))
        _row(
            table,
            str(rank.number),
            rank.device,
            amount_of_bytes(rank.used_bytes),
            amount_of_bytes(rank.memory_bytes),
            Text("█" * filled + "░" * (20 - filled), style="blue"),
            *([", ".join(map(str, rank.copies))] if copied else []),
        )
    return table


def _journeys(picture: Picture) -> Table:
    table = _table("goes", "rank", "to", "values", "KV rows")
    for journey in picture.journeys:
        rows = ", ".join(journey.contexts)
        _row(
            table,
            journey.machine,
            f"{journey.source} → {journey.target}",
            journey.place,
            ", ".join(journey.values),
            f"{rows}, {amount_of_bytes(journey.row_bytes)} each" if rows else "",
        )
    return table


def _streams(picture: Picture) -> Table:
    table = _table("stream", "from", "to", "item", "chunk", "")
    for channel in picture.channels:
        held = f"holds {channel.capacity}" if channel.capacity is not None else ""
        rest = ", ".join(text for text in (channel.rest, held) if text)
        _row(
            table,
            Text(channel.name, style="magenta"),
            channel.producer,
            channel.consumer,
            channel.item,
            channel.policy,
            rest,
        )
    return table


def _branch(tree: Tree, block: Block) -> None:
    inner = tree.add(_title(block))
    for entry in block.blocks:
        _branch(inner, entry)
    for target, condition in block.next:
        line = Text(f"next {target}", style="bold")
        line.append(f" {condition}" if condition else "", style="dim")
        inner.add(line)


def _title(block: Block) -> Text:
    sign = _SIGNS.get(block.kind, "")
    style = _SIGN_STYLES.get(block.kind, "")
    if block.kind in ("machine", "state", "run", "walk"):
        style = "bold"
    line = Text(f"{sign}{block.title}", style=style)
    if block.kind == "call" and block.engine is not None:
        before, _, after = block.title.partition(block.name)
        line = Text(before)
        line.append(block.name, style=_STYLES[block.engine])
        line.append(after)
    if block.note:
        line.append(f"  {block.note}", style="dim")
    if block.ranks:
        line.append(f"  rank {', '.join(map(str, block.ranks))}", style="dim")
    if block.region:
        line.append(f"  ⎡{block.region}⎦", style="dim green")
    return line
