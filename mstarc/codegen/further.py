"""A further placement of a plan that is written already: its files beside the others.

What is the same for every placement (`machines.py`, `messages.py`, `program.mir`) and what was said
when the plan was compiled (`REPORT.md`, `graph.svg`) stay as they are.
"""

import json
from collections.abc import Mapping
from typing import Any

from mstarc.codegen.emit import as_json, digest
from mstarc.codegen.integrity import document_digest
from mstarc.codegen.write import PLAN_FILE
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label
from mstarc.ir.text import parse_program
from mstarc.plan.build import node_weights
from mstarc.source import SourceFile, Span

_SAID = ("seed", "config", "size", "kept")


def plan_document_of(files: Mapping[str, str]) -> dict[str, Any]:
    """What `plan.json` says, but for its digest."""
    document: dict[str, Any] = json.loads(files[PLAN_FILE])
    document.pop("digest", None)
    return document


def sizes_of(files: Mapping[str, str]) -> SourceFile:
    """The file of sizes that says of weights what the plan says and its program does not."""
    program = parse_program(files["program.mir"], "program.mir")
    own = {
        node.name: weights
        for node, weights in zip(program.nodes, node_weights(program, ()), strict=True)
    }
    entries: dict[str, dict[str, Any]] = {}
    for node in plan_document_of(files)["nodes"]:
        said: dict[str, Any] = node.get("weights") or {}
        usual = own[node["name"]]
        entry = {key: said[key] for key in _SAID if said.get(key)}
        if (said.get("source", ""), said.get("under", "")) != (usual.source, usual.under):
            entry |= {key: said[key] for key in ("source", "under") if said.get(key)}
        if entry:
            entries[node["name"]] = entry
    text = f"weights: {_as_yaml(entries)}\n" if entries else ""
    return SourceFile(path=f"{PLAN_FILE}.yaml", text=text)


def _as_yaml(value: object) -> str:
    """A value on one line. Plain JSON will not do: YAML 1.1 takes the number 1e-05 for a text."""
    match value:
        case dict():
            return (
                "{" + ", ".join(f"{json.dumps(k)}: {_as_yaml(v)}" for k, v in value.items()) + "}"
            )
        case list():
            return "[" + ", ".join(map(_as_yaml, value)) + "]"
        case float() if "." not in (text := repr(value)):
            return text.replace("e", ".0e")
        case _:
            return json.dumps(value)


def with_placement(
    files: Mapping[str, str], made: Mapping[str, str], name: str, sink: DiagnosticSink
) -> dict[str, str] | None:
    """The plan's files with those of a placement of `made`, the files of a plan of it alone.

    None after a report (MS0804) that requests are let in by other means there.
    """
    document = plan_document_of(files)
    same = made["messages.py"] == files["messages.py"]
    if not same or _admission(made["machines.py"]) != _admission(files["machines.py"]):
        found = Diagnostic(
            code="MS0804",
            message=f"the plan cannot be placed on {name} as it is",
            primary=Label(span=Span(path=document["spec"], start=0, end=0)),
            notes=("it lets requests in by other means than this version of mstarc",),
            helps=("compile the spec again, with this placement",),
        )
        sink.report(found)
        return None
    folder = f"placements/{name}/"
    more = {path: text for path, text in made.items() if path.startswith(folder)}
    document["placements"] = [*document["placements"], name]
    digests = document["files"] | {path: digest(text) for path, text in more.items()}
    document["files"] = dict(sorted(digests.items()))
    whole = {**document, "digest": document_digest(document)}
    return {**files, **more, PLAN_FILE: as_json(whole)}


def _admission(text: str) -> list[str]:
    """The code of a module, without the places in the spec that its comments name."""
    return [line.partition("#")[0].rstrip() for line in text.splitlines()]
