"""What a server can be asked, in the words of OpenAPI 3.1, and a page that shows it.

Made of the plan: routes that its model can't serve are left out, options have the spec's types,
ranges and defaults. The page is one HTML text and loads nothing.
"""

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from mstarc_runtime.loader import Declared
from mstarc_runtime.plan_api import PLAN_ABI
from mstarc_runtime.server.abilities import KINDS, kind_of
from mstarc_runtime.server.chat import MOST as CHATS
from mstarc_runtime.server.images import FORMATS, MOST
from mstarc_runtime.server.models import option_schema
from mstarc_runtime.server.service import Service
from mstarc_runtime.server.sound_formats import formats
from mstarc_runtime.server.turns import MOST_S, PRIORITIES

_BASE64 = {"type": "string", "contentEncoding": "base64"}
_ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "code": {"type": "string"},
                "notes": {"type": "array", "items": {"type": "string"}},
                "helps": {"type": "array", "items": {"type": "string"}},
            },
        }
    },
}
_FAILURES = {
    "400": "something is asked for that the model can't do, with what it can",
    "401": "the server wants an API key, and there is none, or an unknown one",
    "404": "the request is for another model",
    "408": "the request was not answered in its time",
    "413": "the body, or what it unpacks to, is too large",
    "429": "too many requests wait; Retry-After says when to ask again",
    "503": "the server is starting or ending, or a worker is lost",
}
_REALTIME = {
    "summary": "live speech: a WebSocket with the events of OpenAI's realtime clients",
    "parameters": [{"name": "model", "in": "query", "schema": {"type": "string"}}],
    "responses": {
        "101": {"description": "the WebSocket"},
        "426": {"description": "a request that is none for a WebSocket"},
    },
}
_DESCRIPTION = (
    "`X-Mstarc-Priority: low`, `normal` or `high` orders the requests of one key that wait; "
    "`X-Mstarc-Deadline` ends a request after so many seconds. Where a body has `priority` or "
    "`deadline`, that counts."
)


def openapi(service: Service) -> dict[str, Any]:
    """The document of `/openapi.json`."""
    plan = service.plan
    asked = {
        "/v1/chat/completions": _chat,
        "/v1/audio/speech": _speech,
        "/v1/audio/transcriptions": _transcription,
        "/v1/images/generations": _generation,
        "/v1/images/edits": _edit,
        "/generate": _generate,
    }
    paths: dict[str, Any] = {
        route: {"post": asked[route](service)}
        for route in service.abilities.routes
        if route in asked
    }
    if service.abilities.can_converse:
        paths["/v1/realtime"] = {"get": _REALTIME}
    told = {
        "/v1/models": "the model, its inputs, outputs and options",
        "/live": "whether a new server is needed",
        "/health": "whether a worker is lost",
        "/ready": "whether requests are taken, and how each worker is",
        "/metrics": "counters for Prometheus",
        "/debug/live": "where each request is, and what each worker does",
        "/openapi.json": "this document",
    }
    for path, summary in told.items():
        paths[path] = {"get": {"summary": summary, "responses": {"200": {"description": "so"}}}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": plan.model,
            "version": f"plan ABI {PLAN_ABI}",
            "description": _DESCRIPTION,
        },
        "paths": paths,
        "components": {
            "schemas": {"Error": _ERROR},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def page(document: Mapping[str, Any]) -> str:
    """The document for people."""
    title = escape(str(document["info"]["title"]))
    parts = []
    for path, methods in document["paths"].items():
        for method, what in methods.items():
            parts.append(f"<h2><code>{method.upper()} {escape(path)}</code></h2>")
            parts.append(f"<p>{escape(what['summary'])}</p>")
            for kind, content in what.get("requestBody", {}).get("content", {}).items():
                parts.append(_table(kind, content["schema"]))
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style><main><h1>{title}</h1>"
        '<p>The same for programs: <a href="openapi.json">openapi.json</a></p>'
        f"{''.join(parts)}</main></html>"
    )


_STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;margin:2rem}"
    "main{max-width:60rem;margin:auto}table{border-collapse:collapse;width:100%}"
    "th,td{text-align:left;vertical-align:top;padding:.3rem .6rem;border-bottom:1px solid #8886}"
    "td:last-child{overflow-wrap:anywhere}"
)


def _table(kind: str, schema: Mapping[str, Any]) -> str:
    needed = schema.get("required", ())
    rows = []
    for name, what in schema["properties"].items():
        mark = " (needed)" if name in needed else ""
        shown = escape(json.dumps(what, ensure_ascii=False))
        rows.append(
            f"<tr><th scope=row><code>{escape(name)}</code>{mark}</th>"
            f"<td><code>{shown}</code></td></tr>"
        )
    return f"<table><caption>{escape(kind)}</caption>{''.join(rows)}</table>"


def _standing() -> dict[str, Any]:
    """How a request waits, and for how long, in a body of JSON; an option of that name is that."""
    return {
        "priority": {
            "type": "string",
            "enum": list(PRIORITIES),
            "default": "normal",
            "description": "orders the requests of one key that wait",
        },
        "deadline": {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": MOST_S,
            "description": "seconds from its coming, after which the request ends",
        },
    }


def _options(service: Service) -> dict[str, Any]:
    return {option.name: option_schema(option) for option in service.plan.options}


def _chat(service: Service) -> dict[str, Any]:
    kinds = sorted(service.abilities.takes)
    modalities = ["text", *(["audio"] if service.abilities.sound else [])]
    properties: dict[str, Any] = {
        "model": {"type": "string"},
        "messages": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "object"},
            "description": f"as OpenAI's; parts may be {', '.join(kinds)}, media as data URLs",
        },
        "stream": {"type": "boolean", "default": False},
        "stream_options": {
            "type": "object",
            "properties": {"include_usage": {"type": "boolean"}},
            "additionalProperties": False,
        },
        "modalities": {
            "type": "array",
            "items": {"type": "string", "enum": modalities},
            "default": ["text"],
        },
        "max_completion_tokens": {"type": "integer"},
        "n": {"type": "integer", "minimum": 1, "maximum": CHATS, "default": 1},
        "user": {"type": "string"},
        **_standing(),
        **_options(service),
    }
    if service.abilities.sound:
        properties["audio"] = {
            "type": "object",
            "properties": {
                "format": {"type": "string", "enum": ["pcm16", *formats()]},
                "voice": {"type": "string"},
            },
            "additionalProperties": False,
        }
    if "max_tokens" not in service.abilities.options:
        del properties["max_completion_tokens"]
    return _operation(
        "a reply to messages, as text and sound",
        "application/json",
        _object(properties, ["messages"]),
    )


def _speech(service: Service) -> dict[str, Any]:
    properties = {
        "model": {"type": "string"},
        "input": {"type": "string"},
        "voice": {"type": "string"},
        "response_format": {"type": "string", "enum": list(formats()), "default": "wav"},
        "stream_format": {"type": "string", "enum": ["audio", "sse"], "default": "audio"},
        "stream": {"type": "boolean", "default": True},
        "speed": {"type": "number", "const": 1},
        **_standing(),
        **_options(service),
    }
    return _operation("the sound of a text", "application/json", _object(properties, ["input"]))


def _transcription(service: Service) -> dict[str, Any]:
    properties = {
        "file": {"type": "string", "contentMediaType": "application/octet-stream"},
        "model": {"type": "string"},
        "response_format": {"type": "string", "enum": ["json", "text"], "default": "json"},
        "stream": {"type": "string", "enum": ["true", "false"], "default": "false"},
        **_options(service),
    }
    return _operation(
        "the transcript of a sound", "multipart/form-data", _object(properties, ["file"])
    )


def _generation(service: Service) -> dict[str, Any]:
    schema = _object({**_standing(), **_drawing(service)}, ["prompt"])
    return _operation("pictures of a text", "application/json", schema)


def _edit(service: Service) -> dict[str, Any]:
    file = {"type": "string", "contentMediaType": "application/octet-stream"}
    properties = {"image": file, **_drawing(service)}
    schema = _object(properties, ["image", "prompt"])
    return _operation("pictures of a text and pictures", "multipart/form-data", schema)


def _drawing(service: Service) -> dict[str, Any]:
    has_size = {"width", "height"} <= set(service.abilities.options)
    size = {"pattern": "^(auto|[1-9][0-9]*x[1-9][0-9]*)$"} if has_size else {"const": "auto"}
    return {
        "model": {"type": "string"},
        "prompt": {"type": "string", "minLength": 1},
        "n": {"type": "integer", "minimum": 1, "maximum": MOST, "default": 1},
        "size": {"type": "string", "default": "auto", **size},
        "output_format": {"type": "string", "enum": list(FORMATS), "default": "png"},
        "response_format": {"type": "string", "const": "b64_json"},
        "stream": {"type": "boolean", "default": False},
        "partial_images": {"type": "integer", "const": 0},
        "quality": {"type": "string", "const": "auto"},
        "background": {"type": "string", "enum": ["auto", "opaque"]},
        "user": {"type": "string"},
        **_options(service),
    }


def _generate(service: Service) -> dict[str, Any]:
    plan = service.plan
    inputs = {entry.name: _input(entry) for entry in plan.inputs}
    needed = [entry.name for entry in plan.inputs if not entry.optional]
    properties = {
        "inputs": _object(inputs, needed),
        "options": _object(_options(service), []),
        "wants": {
            "type": "array",
            "items": {"type": "string", "enum": [entry.name for entry in plan.outputs]},
            "default": [entry.name for entry in plan.outputs if not entry.optional],
        },
        "seed": {"type": "integer"},
        "stream": {"type": "boolean", "default": False},
        **_standing(),
    }
    return _operation(
        "the spec's own inputs and outputs", "application/json", _object(properties, ["inputs"])
    )


def _input(declared: Declared) -> dict[str, Any]:
    if declared.type.startswith("["):
        kinds = [kind_of(kind) for kind in declared.type[1:-1].split(" | ")]
        parts = {kind: _one(kind) for kind in kinds}
        return {
            "type": "array",
            "items": {
                "anyOf": [
                    {"type": "string"},
                    _object({**parts, "role": {"type": "string"}}, []),
                ]
            },
        }
    return _one(kind_of(declared.type)) | {"description": declared.type}


def _one(kind: str) -> dict[str, Any]:
    if kind == "text":
        return {"type": "string"}
    if kind in KINDS:
        return {"anyOf": [_BASE64, _object({"data": _BASE64}, ["data"])]}
    return {"type": "array"} if kind == "tensor" else dict(_BASE64)


def _object(properties: Mapping[str, Any], needed: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": needed,
        "additionalProperties": False,
    }


def _operation(summary: str, kind: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    failures = {
        status: {"description": text, "content": error} for status, text in _FAILURES.items()
    }
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": {kind: {"schema": dict(schema)}}},
        "responses": {"200": {"description": "the answer, or a stream of it"}, **failures},
    }
