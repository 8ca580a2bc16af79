"""Render a plan to the texts of its files. Same plan, same bytes."""

import hashlib
import json
from functools import cache

import jinja2

from mstarc.codegen.integrity import document_digest
from mstarc.codegen.views.documents import placement_document, plan_document
from mstarc.codegen.views.graph import graph_view
from mstarc.codegen.views.machines import machines_view, messages_view
from mstarc.codegen.views.rank import rank_view
from mstarc.codegen.views.reasons import Knowledge
from mstarc.codegen.views.report import report_view
from mstarc.plan import Plan


def render(plan: Plan, *, mir: str, known: Knowledge | None = None) -> dict[str, str]:
    """The files of a plan by relative path. `mir` is the text of the program before placement.

    `known` is what the report's numbers come from.
    """
    files = {
        "machines.py": _fill("machines.py.jinja", machines_view(plan)),
        "messages.py": _fill("messages.py.jinja", messages_view(plan)),
        "program.mir": mir,
        "graph.svg": _fill("graph.svg.jinja", graph_view(plan)),
        "REPORT.md": _fill("REPORT.md.jinja", report_view(plan, known or Knowledge())),
    }
    for placed in plan.placements:
        folder = f"placements/{placed.placement.name}"
        files[f"{folder}/placement.json"] = as_json(placement_document(placed))
        for rank in placed.ranks:
            view = rank_view(plan, placed, rank)
            files[f"{folder}/rank{rank.rank}.py"] = _fill("rank.py.jinja", view)
    digests = {name: digest(text) for name, text in sorted(files.items())}
    document = plan_document(plan, digests)
    files["plan.json"] = as_json({**document, "digest": document_digest(document)})
    return dict(sorted(files.items()))


def digest(text: str) -> str:
    """The SHA-256 of a file's text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def as_json(document: object) -> str:
    """JSON that a person reads: lists and objects of plain values on one line."""
    return _layout(document, 0) + "\n"


def _layout(value: object, indent: int) -> str:
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or (indent + len(flat) <= 100 and _is_shallow(value)):
        return flat
    blank = " " * (indent + 2)
    if isinstance(value, dict):
        items = [
            f"{blank}{json.dumps(key, ensure_ascii=False)}: {_layout(item, indent + 2)}"
            for key, item in value.items()
        ]
        return "{\n" + ",\n".join(items) + "\n" + " " * indent + "}"
    rows = [f"{blank}{_layout(item, indent + 2)}" for item in value]
    return "[\n" + ",\n".join(rows) + "\n" + " " * indent + "]"


def _is_shallow(value: object) -> bool:
    items = value.values() if isinstance(value, dict) else value
    assert not isinstance(items, int)
    return not any(isinstance(item, dict) and item for item in items)  # type: ignore[attr-defined]


def _fill(template: str, view: object) -> str:
    return _templates().get_template(template).render(view=view)


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("mstarc.codegen"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
