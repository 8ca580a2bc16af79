"""`/generate`: every input and output of the spec, by its own names.

In: `{"inputs": {…}, "options": {…}, "wants": […], "seed": 1, "stream": false}`. Media are base64,
an input of several parts is a list. Out: JSON with media in base64, `multipart/mixed` with the
files themselves if that is accepted, or events that end with `[DONE]`.
"""

import base64
import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response

from mstarc_runtime.loader import Declared
from mstarc_runtime.request import Asked
from mstarc_runtime.server import body as fields
from mstarc_runtime.server import turns
from mstarc_runtime.server.inputs import Content, prepared_inputs, read_inputs
from mstarc_runtime.server.live import Event, Live, Sound, Text, Value
from mstarc_runtime.server.service import Service
from mstarc_runtime.server.sound_formats import encoded, pcm
from mstarc_runtime.server.streaming import (
    DONE,
    Json,
    Pieces,
    event,
    streamed_events,
    unless_gone,
)
from mstarc_runtime.server.threads import in_thread

ROUTE: Final = "/generate"
FIELDS: Final = ("inputs", "options", "wants", "seed", "stream", *turns.FIELDS)


@dataclass(slots=True, kw_only=True, eq=False)
class _Made:
    """All that came of one output."""

    texts: list[str] = field(default_factory=list)
    sounds: list[NDArray[np.float32]] = field(default_factory=list)
    rate: int = 0
    arrays: list[NDArray[Any]] = field(default_factory=list)


async def generate(request: Request, service: Service) -> Response:
    """Runs the plan for its own inputs. Fails with MS9202 … MS9217."""
    body = await request.body()
    content = fields.read_object(body)
    service.check_ready()
    turns.read_fields(content, ())
    asked, contents = await in_thread(lambda: _read(service, content), size_bytes=len(body))
    is_streamed = fields.field(content, "stream", "true or false", False)
    live = service.submit(await prepared_inputs(service, asked, contents), ROUTE)
    end = service.ender(live)
    if is_streamed:
        return await streamed_events(request, _events(service, live), end=end)
    as_parts = "multipart/mixed" in request.headers.get("accept", "")
    return await unless_gone(request, _whole(service, live, as_parts), end)


def _read(
    service: Service, content: Mapping[str, Any]
) -> tuple[Asked, Mapping[str, Sequence[Content]]]:
    plan = service.plan
    fields.check_fields(content, FIELDS, "a request")
    given = fields.field(content, "inputs", "object", {})
    fields.check_fields(given, [entry.name for entry in plan.inputs], "`inputs`")
    options = fields.field(content, "options", "object", {})
    wants = fields.field(content, "wants", "list", [])
    if not all(isinstance(name, str) for name in wants):
        raise fields.wrong("`wants` is a list of names of outputs")
    asked = Asked(
        options=fields.checked_options(options, plan.options),
        wants=tuple(wants),
        seed=fields.field(content, "seed", "whole number"),
    )
    return asked, read_inputs(plan.inputs, given)


async def _whole(service: Service, live: Live, as_parts: bool) -> Response:
    made: dict[str, _Made] = {}
    for each in await service.whole(live):
        _keep(made.setdefault(each.output, _Made()), each)
    types = {entry.name: entry for entry in service.plan.outputs}
    usage = {"text_tokens": live.tokens}

    def build() -> Response:
        if as_parts:
            return _multipart(made, types)
        outputs = {name: _json(one, types[name]) for name, one in made.items()}
        return Json({"model": service.plan.model, "outputs": outputs, "usage": usage})

    parts = [part for one in made.values() for part in (*one.sounds, *one.arrays)]
    return await in_thread(build, size_bytes=sum(part.nbytes for part in parts))


def _keep(made: _Made, each: Event) -> None:
    if isinstance(each, Text):
        made.texts.append(each.piece)
    elif isinstance(each, Sound):
        made.sounds.append(each.samples)
        made.rate = each.rate
    else:
        made.arrays.append(each.array)


def _json(made: _Made, declared: Declared) -> dict[str, Any]:
    """An output's whole value."""
    if made.texts:
        return {"type": "text", "text": "".join(made.texts)}
    if made.sounds:
        data = base64.b64encode(encoded(made.sounds, made.rate, "wav")).decode()
        return {"type": "audio", "format": "wav", "rate": made.rate, "data": data}
    return {"type": declared.type, "values": [_array(one, declared) for one in made.arrays]}


def _array(array: NDArray[Any], declared: Declared) -> dict[str, Any]:
    """A picture as PNG, any other array as its bytes, little-endian, the last index fastest."""
    if declared.type == "image":
        return {"format": "png", "data": base64.b64encode(_png(array)).decode()}
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    data = base64.b64encode(plain.tobytes()).decode()
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": data}


def _png(array: NDArray[Any]) -> bytes:
    # Here, because a plan without images needs no library for them.
    from mstarc_runtime.media.images import png_bytes

    return png_bytes(array)


def _multipart(made: Mapping[str, _Made], types: Mapping[str, Declared]) -> Response:
    """Each output's values as parts, named in Content-Disposition."""
    boundary = uuid.uuid4().hex
    pieces: list[bytes] = []
    for name, one in made.items():
        for kind, content in _files(one, types[name]):
            head = (
                f"--{boundary}\r\nContent-Type: {kind}\r\n"
                f'Content-Disposition: attachment; name="{name}"\r\n'
                f"Content-Length: {len(content)}\r\n\r\n"
            )
            pieces += [head.encode(), content, b"\r\n"]
    pieces.append(f"--{boundary}--\r\n".encode())
    return Response(b"".join(pieces), media_type=f"multipart/mixed; boundary={boundary}")


def _files(made: _Made, declared: Declared) -> Sequence[tuple[str, bytes]]:
    """(content type, bytes) of each value."""
    if made.texts:
        return [("text/plain; charset=utf-8", "".join(made.texts).encode())]
    if made.sounds:
        return [("audio/wav", encoded(made.sounds, made.rate, "wav"))]
    if declared.type == "image":
        return [("image/png", _png(array)) for array in made.arrays]
    arrays = [_array(array, declared) for array in made.arrays]
    return [("application/json", json.dumps(array).encode()) for array in arrays]


async def _events(service: Service, live: Live) -> Pieces:
    types = {entry.name: entry for entry in service.plan.outputs}
    async with aclosing(service.events(live)) as events:
        async for made in events:
            yield event({"output": made.output, **_piece(made, types[made.output])})
    yield event({"usage": {"text_tokens": live.tokens}})
    yield DONE


def _piece(made: Event, declared: Declared) -> dict[str, Any]:
    if isinstance(made, Text):
        return {"text": made.piece}
    if isinstance(made, Value):
        return {"value": _array(made.array, declared)}
    data = base64.b64encode(pcm(made.samples)).decode()
    return {"audio": data, "format": "pcm16", "rate": made.rate}
