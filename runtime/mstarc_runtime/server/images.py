"""`/v1/images/generations` and `/v1/images/edits`: pictures of a text, or of a text and pictures.

Several pictures (`n`) are as many requests with seeds of their own. A size is the spec's options
`width` and `height`, any other option of the spec is a field by its name. Partial pictures are for
plans that emit previews (`abilities`); the others refuse them.
"""

import base64
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from numpy.typing import NDArray
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mstarc_runtime.request import Asked
from mstarc_runtime.server import body as fields
from mstarc_runtime.server import turns
from mstarc_runtime.server.abilities import PREVIEWS, Abilities, cannot
from mstarc_runtime.server.forms import read_form
from mstarc_runtime.server.inputs import Given, prepared
from mstarc_runtime.server.live import Live, Value
from mstarc_runtime.server.models import check_model
from mstarc_runtime.server.samples import ender_of, events_of, samples_of
from mstarc_runtime.server.service import Service
from mstarc_runtime.server.streaming import Pieces, event, streamed_events, unless_gone

GENERATIONS: Final = "/v1/images/generations"
EDITS: Final = "/v1/images/edits"
FIELDS: Final = (
    *("model", "prompt", "n", "size", "response_format", "output_format", "stream"),
    *("partial_images", "quality", "background", "user"),
)
FORMATS: Final = ("png", "jpeg", "webp")
MOST: Final = 10
_MOST_PICTURES: Final = 16
_FILES: Final = ("image", "image[]")
_SIZE: Final = re.compile(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawing:
    """What a request asks for. `kind` begins the names of its events."""

    asked: Asked
    given: Sequence[Given]
    kind: str
    count: int
    form: str
    is_streamed: bool
    made_s: int = field(default_factory=lambda: int(time.time()))


async def generate(request: Request, service: Service) -> Response:
    """Draws what a text says. Fails with MS9210 … MS9218."""
    if not service.abilities.can_draw:
        raise cannot(service.plan, GENERATIONS, "the route makes pictures of a text alone")
    content = fields.read_object(await request.body())
    service.check_ready()
    turns.read_fields(content, service.abilities.options)
    fields.options_in(content, (*FIELDS, *turns.FIELDS), service.abilities.options, "a picture")
    asked = _read(service, content, (), "image_generation")
    return await _answer(request, service, asked, GENERATIONS)


async def edit(request: Request, service: Service) -> Response:
    """Draws what a text says of pictures. Fails with MS9206 … MS9218."""
    if not service.abilities.can_redraw:
        raise cannot(service.plan, EDITS, "the route makes pictures of a text and pictures")
    form = await read_form(request, holds="`image` holds a picture", most_files=_MOST_PICTURES)
    service.check_ready()
    fields.check_fields(form.files, _FILES, "an edit's files")
    pictures = [content for name in _FILES for content in form.files.get(name, ())]
    if not pictures:
        raise fields.wrong("there is no `image`", "it holds the picture to change")
    fields.check_fields(form.texts, {*FIELDS, *service.abilities.options}, "an edit")
    asked = _read(service, _typed(form.texts), pictures, "image_edit")
    return await _answer(request, service, asked, EDITS)


def _typed(form: Mapping[str, str]) -> dict[str, Any]:
    """A form's texts as the route's own fields are in JSON; options are read from texts."""
    content: dict[str, Any] = dict(form)
    for name in ("n", "partial_images"):
        if name in form and form[name].isdecimal() and len(form[name]) < 10:
            content[name] = int(form[name])
    if form.get("stream") in ("true", "false"):
        content["stream"] = form["stream"] == "true"
    return content


def _read(
    service: Service, content: Mapping[str, Any], pictures: Sequence[bytes], kind: str
) -> _Drawing:
    abilities = service.abilities
    assert abilities.picture is not None
    options = {name: content[name] for name in abilities.options if content.get(name) is not None}
    check_model(service.plan, content)
    prompt = fields.field(content, "prompt", "text")
    if not prompt:
        raise fields.wrong("there is no `prompt`", "it says what is drawn")
    count = fields.field(content, "n", "whole number", 1)
    if not 1 <= count <= MOST:
        raise fields.wrong(f"`n` can't be {count}", f"it is 1 .. {MOST}")
    is_streamed = fields.field(content, "stream", "true or false", False)
    wants = _wanted(abilities, content, is_streamed)
    fields.choice(content, "response_format", ("b64_json",), "b64_json")
    fields.choice(content, "quality", ("auto",), "auto")
    fields.choice(content, "background", ("auto", "opaque"), "auto")
    _read_size(abilities, content, options)
    return _Drawing(
        asked=Asked(options=options, wants=wants, seed=_seed(options)),
        given=[
            *(Given(kind="image", content=picture) for picture in pictures),
            Given(kind="text", content=prompt),
        ],
        kind=kind,
        count=count,
        form=fields.choice(content, "output_format", FORMATS, "png"),
        is_streamed=is_streamed,
    )


def _wanted(abilities: Abilities, content: Mapping[str, Any], is_streamed: bool) -> tuple[str, ...]:
    """The outputs of a drawing: previews where partial pictures are asked for."""
    assert abilities.picture is not None
    if fields.field(content, PREVIEWS, "whole number", 0) == 0:
        return (abilities.picture.name,)
    if abilities.preview is None:
        raise fields.wrong("`partial_images` is 0 here", "the model emits finished pictures alone")
    if not is_streamed:
        raise fields.wrong("`partial_images` is for streams", "they are events: `stream` is true")
    return (abilities.picture.name, abilities.preview.name)


def _seed(options: Mapping[str, Any]) -> int | None:
    """The seed, of JSON or of a form's text; a wrong one is the option's to refuse."""
    seed = options.get("seed")
    if isinstance(seed, str) and seed.isdecimal() and len(seed) < 20:
        return int(seed)
    return seed if isinstance(seed, int) else None


def _read_size(abilities: Abilities, content: Mapping[str, Any], options: dict[str, Any]) -> None:
    """`size` as the spec's options. Fails with MS9217."""
    size = fields.field(content, "size", "text", "auto")
    if size == "auto":
        return
    if not {"width", "height"} <= set(abilities.options):
        raise fields.wrong("`size` is `auto` here", "the model has no options `width` and `height`")
    found = _SIZE.fullmatch(size)
    if found is None:
        raise fields.wrong(f"`size` can't be {fields.shown(size)}", "it is `512x512` or `auto`")
    options["width"], options["height"] = int(found[1]), int(found[2])


async def _answer(request: Request, service: Service, asked: _Drawing, route: str) -> Response:
    request_for = await prepared(service, asked.asked, asked.given)
    lives = service.submit_all(samples_of(request_for, asked.count), route)
    end = ender_of(service, lives)
    if asked.is_streamed:
        return await streamed_events(request, _events(service, lives, asked), end=end)
    return await unless_gone(request, _whole(service, lives, asked), end)


async def _whole(service: Service, lives: Sequence[Live], asked: _Drawing) -> Response:
    drawn: list[list[NDArray[Any]]] = [[] for _ in lives]
    async with aclosing(events_of(service, lives)) as events:
        async for number, made in events:
            if isinstance(made, Value):
                drawn[number].append(made.array)
    arrays = [array for of_one in drawn for array in of_one]

    def build() -> Response:
        data = [{"b64_json": _encoded(array, asked.form)} for array in arrays]
        facts = _facts(arrays[-1], asked) if arrays else {}
        return JSONResponse({"created": asked.made_s, "data": data, **facts})

    return await run_in_threadpool(build)


async def _events(service: Service, lives: Sequence[Live], asked: _Drawing) -> Pieces:
    preview = service.abilities.preview
    seen = [0] * len(lives)
    async with aclosing(events_of(service, lives)) as events:
        async for number, made in events:
            if isinstance(made, Value):
                data = await run_in_threadpool(_encoded, made.array, asked.form)
                facts = _facts(made.array, asked)
                told = {"b64_json": data, "created_at": int(time.time()), **facts}
                if preview is None or made.output != preview.name:
                    yield event({"type": f"{asked.kind}.completed", **told})
                    continue
                which = {"partial_image_index": seen[number]}
                seen[number] += 1
                yield event({"type": f"{asked.kind}.partial_image", **which, **told})


def _facts(array: NDArray[Any], asked: _Drawing) -> dict[str, Any]:
    """What is said of a picture u8[3, H, W]."""
    return {
        "size": f"{array.shape[2]}x{array.shape[1]}",
        "quality": "auto",
        "background": "opaque",
        "output_format": asked.form,
    }


def _encoded(array: NDArray[Any], form: str) -> str:
    # Here, because a plan without images needs no library for them.
    from mstarc_runtime.media.images import image_bytes

    return base64.b64encode(image_bytes(array, form)).decode()
