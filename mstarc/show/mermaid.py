"""A picture as a Mermaid flowchart, which Markdown pages on many sites draw."""

from mstarc.show.flow import Edge, Flow, Frame, Point, flow
from mstarc.show.picture import Block, Picture

_ARROWS = {"order": "-->", "next": "==>", "again": "-.->", "stream": "-.->", "output": "-->"}
_CLASSES = (
    "classDef kv_cache fill:#e0e7ff,stroke:#6366f1,color:#1e1b4b",
    "classDef stateless fill:#ccfbf1,stroke:#14b8a6,color:#042f2e",
    "classDef host fill:#fef3c7,stroke:#f59e0b,color:#451a03",
    "classDef stream fill:#fce7f3,stroke:#ec4899,color:#500724",
    "classDef output fill:#dcfce7,stroke:#22c55e,color:#052e16",
)


def mermaid(picture: Picture) -> str:
    """The text of a flowchart."""
    graph = flow(picture)
    lines = ["flowchart TB"]
    for frame in graph.frames:
        lines += _frame(frame, "  ")
    lines += [f'  {identifier}(["{_text(name)}"]):::output' for identifier, name in graph.outputs]
    lines += [f"  {_edge(edge)}" for edge in graph.edges]
    lines += [f"  {line}" for line in _used_classes(graph)]
    return "\n".join(lines) + "\n"


def _frame(frame: Frame, indent: str) -> list[str]:
    block = frame.block
    title = " ".join(text for text in (block.title, block.note) if text)
    lines = [f'{indent}subgraph {frame.id}["{_text(title)}"]']
    for part in frame.order:
        if isinstance(part, Point):
            lines.append(f'{indent}  {part.id}["{_text(_label(part.block))}"]{_class(part.block)}')
        else:
            lines += _frame(part, f"{indent}  ")
    return [*lines, f"{indent}end"]


def _label(block: Block) -> str:
    ranks = ", ".join(map(str, block.ranks))
    return f"{block.title} · rank {ranks}" if ranks else block.title


def _class(block: Block) -> str:
    name = block.engine if block.kind == "call" else None
    if block.kind in ("send", "pull", "mark"):
        name_of_class = "stream"
    elif block.kind == "emit":
        name_of_class = "output"
    else:
        name_of_class = name or ""
    return f":::{name_of_class}" if name_of_class else ""


def _edge(edge: Edge) -> str:
    text = f'|"{_text(edge.text)}"|' if edge.text else ""
    return f"{edge.source} {_ARROWS[edge.kind]}{text} {edge.target}"


def _used_classes(graph: Flow) -> tuple[str, ...]:
    return _CLASSES if graph.frames else ()


def _text(text: str) -> str:
    """A text in quotes: Mermaid has entities for what would end it or mean markup."""
    marks = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;"}
    return "".join(marks.get(char, char) for char in text)
