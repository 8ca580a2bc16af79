"""One HTML page that draws a model and steps through a toy request.

The page needs no network and no build step: style, script and data are in it. The data are the
picture's blocks and the traces of `toy.toy_runs`; the script only shows them.
"""

import json
from dataclasses import asdict
from html import escape
from importlib.resources import files
from typing import Any

from mstarc.ir.graph import Program
from mstarc.show.picture import Picture
from mstarc.show.toy import ToyRun, toy_runs
from mstarc.show.trace import Event
from mstarc.source import SourceFile

# Words that the page colours in the spec; where one is a name, colour does no harm.
_WORDS = (
    *("mstar", "model", "config", "request", "node", "stream", "walk", "machine", "state", "op"),
    *(
        "in",
        "out",
        "opt",
        "need",
        "let",
        "table",
        "folded",
        "variant",
        "impl",
        "weights",
        "kv",
        "sample",
    ),
    *("contexts", "shards", "attends", "writes", "reads", "advance", "receptive", "stateful"),
    *("send", "emit", "loop", "max", "times", "carry", "collect", "while", "until", "parallel"),
    *("when", "else", "fork", "release", "run", "pull", "for", "match", "each", "as", "mark"),
    *("next", "if", "or", "and", "not", "wants", "has", "from", "chunk", "tail", "empty", "marks"),
    *("via", "optional", "at", "least", "turns", "on", "none", "true", "false", "zip", "done"),
)


def page(picture: Picture, program: Program, source: SourceFile) -> str:
    """The text of the page."""
    title = f"{picture.model} · a request, step by step"
    data: dict[str, Any] = {
        **asdict(picture),
        "words": _WORDS,
        "source": {"path": source.path, "text": source.text},
        "runs": [_run(run) for run in toy_runs(program)],
    }
    # `</script>` inside a string would end the element.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    parts = {"title": escape(title), "style": _asset("page.css"), "data": text}
    parts["script"] = _asset("page.js")
    html = _asset("page.html")
    for name, part in parts.items():
        before, _, after = html.partition("{{" + name + "}}")
        html = before + part + after
    return html


def _asset(name: str) -> str:
    return (files("mstarc.show") / "assets" / name).read_text(encoding="utf-8").rstrip("\n")


def _run(run: ToyRun) -> dict[str, Any]:
    trace = run.trace
    return {
        "title": run.title,
        "inputs": run.inputs,
        "options": run.options,
        "error": trace.error,
        "stuck": trace.stuck,
        "off": trace.off,
        "cut": trace.is_cut,
        "events": [_event(event) for event in trace.events],
    }


def _event(event: Event) -> dict[str, Any]:
    chunk = event.chunk
    return {
        "kind": event.kind,
        "machine": event.machine,
        "state": event.state,
        "path": event.path,
        "text": event.text,
        "name": event.name,
        "values": event.values,
        "items": event.items,
        "chunk": asdict(chunk) if chunk is not None else None,
        "rows": event.rows,
        "waiting": event.waiting,
    }
