"""A picture as a DOT graph, for Graphviz."""

from mstarc.show.flow import Edge, Frame, Point, flow
from mstarc.show.picture import Block, Picture

_FILLS = {"kv_cache": "#e0e7ff", "stateless": "#ccfbf1", "host": "#fef3c7"}
_STYLES = {
    "order": "",
    "next": "penwidth=2",
    "again": "style=dashed, constraint=false",
    "stream": 'color="#db2777", fontcolor="#db2777", style=bold',
    "output": 'color="#16a34a"',
}


def dot(picture: Picture) -> str:
    """The text of a digraph."""
    graph = flow(picture)
    lines = [
        f"digraph {_quoted(picture.model)} {{",
        "  rankdir=TB; compound=true; fontname=Helvetica;",
        '  node [shape=box, style="rounded,filled", fillcolor=white, fontname=Helvetica];',
        "  edge [fontname=Helvetica, fontsize=10];",
    ]
    for frame in graph.frames:
        lines += _frame(frame, "  ")
    lines += [
        f'  {identifier} [label={_quoted(name)}, shape=cds, fillcolor="#dcfce7"];'
        for identifier, name in graph.outputs
    ]
    lines += [f"  {_edge(edge)}" for edge in graph.edges]
    return "\n".join([*lines, "}"]) + "\n"


def _frame(frame: Frame, indent: str) -> list[str]:
    block = frame.block
    title = " ".join(text for text in (block.title, block.note) if text)
    lines = [
        f"{indent}subgraph cluster_{frame.id} {{",
        f'{indent}  label={_quoted(title)}; style=rounded; color="#94a3b8"; labeljust=l;',
    ]
    for part in frame.order:
        if isinstance(part, Point):
            lines.append(f"{indent}  {part.id} [{_point(part.block)}];")
        else:
            lines += _frame(part, f"{indent}  ")
    return [*lines, f"{indent}}}"]


def _point(block: Block) -> str:
    ranks = ", ".join(map(str, block.ranks))
    label = f"{block.title}\nrank {ranks}" if ranks else block.title
    fill = _FILLS.get(block.engine or "")
    if block.kind in ("send", "pull", "mark"):
        fill = "#fce7f3"
    elif block.kind == "emit":
        fill = "#dcfce7"
    return f"label={_quoted(label)}" + (f', fillcolor="{fill}"' if fill else "")


def _edge(edge: Edge) -> str:
    settings = [_STYLES[edge.kind]] if _STYLES[edge.kind] else []
    settings += [f"label={_quoted(edge.text)}"] if edge.text else []
    return f"{edge.source} -> {edge.target}" + (f" [{', '.join(settings)}]" if settings else "")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
