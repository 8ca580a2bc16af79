"""Contents in a request over HTTP → values that a plan takes. No file is opened.

Media are bytes in base64. A sound is read, a picture or a film looked through, by a process of the
media pool; the plan's host op reads pictures and films again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.loader import Declared
from mstarc_runtime.plan_api import Media, Part, parts_in_order
from mstarc_runtime.request import Asked, PreparedRequest, prepare_read
from mstarc_runtime.server.abilities import Abilities, kind_of, rate_of
from mstarc_runtime.server.body import decoded, shown, wrong
from mstarc_runtime.server.media_pool import Allowance
from mstarc_runtime.server.service import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One part of a message: a text, or the bytes of a file of its kind."""

    kind: str
    content: str | bytes
    role: str = "user"


async def prepared(service: Service, asked: Asked, given: Sequence[Given]) -> PreparedRequest:
    """A request with the parts of its messages read. Fails with MS92xx."""
    request = prepare_read(service.plan, asked, {})
    places = _placed(service.abilities, given)
    reading = Reading(service)
    read = [await reading.value(one, declared_type) for one, _, declared_type in places]
    parts = service.abilities.parts
    if parts is not None:
        whole = [
            Part(kind=one.kind, value=value, role=one.role)
            for one, value in zip(given, read, strict=True)
        ]
        return replace(request, inputs={parts.name: parts_in_order(whole)})
    names = [name for _, name, _ in places]
    return replace(request, inputs=dict(zip(names, read, strict=True)))


class Reading:
    """Reads what one request brings: together it must not be more than a request may bring."""

    def __init__(self, service: Service) -> None:
        self._pool = service.media

    @cached_property
    def _left(self) -> Allowance:
        return self._pool.allowance()

    async def value(self, given: Given, declared_type: str) -> Any:
        """A part's value. Fails with MS9202 … MS9206, MS9219 or MS9220."""
        if isinstance(given.content, str):
            return given.content
        if given.kind == "audio":
            return await self._pool.sound(given.content, rate_of(declared_type), self._left)
        if given.kind == "image":
            await self._pool.check_picture(given.content, self._left)
        elif given.kind == "video":
            await self._pool.check_film(given.content, self._left)
        return Media(kind=given.kind, content=given.content)


def _placed(abilities: Abilities, given: Sequence[Given]) -> list[tuple[Given, str, str]]:
    """(part, input, type) of each part. Fails with MS9217."""
    for one in given:
        if one.kind not in abilities.takes:
            kinds = ", ".join(sorted(abilities.takes))
            raise wrong(f"the model takes no {one.kind}", f"it takes {kinds}")
    if abilities.parts is not None:
        types = _types_of_parts(abilities.parts)
        return [(one, abilities.parts.name, types[one.kind]) for one in given]
    placed: dict[str, tuple[Given, str, str]] = {}
    for one in given:
        declared = abilities.single[one.kind]
        if one.role != "user":
            raise wrong(f"the model has no turns, and so no role `{one.role}`")
        if declared.name in placed:
            raise wrong(f"the model takes one {one.kind}, and there are several")
        placed[declared.name] = (one, declared.name, declared.type)
    for kind, declared in abilities.single.items():
        if not declared.optional and declared.name not in placed:
            raise wrong(f"the messages have no {kind}", f"the model needs it as `{declared.name}`")
    return list(placed.values())


Content = Given | torch.Tensor


def read_inputs(declared: Sequence[Declared], given: Mapping[str, Any]) -> dict[str, list[Content]]:
    """The inputs of `/generate` by name, none of their media read yet.

    Fails with MS9211, MS9216 or MS9217.
    """
    inputs: dict[str, list[Content]] = {}
    for entry in declared:
        if given.get(entry.name) is not None:
            inputs[entry.name] = _read(entry, given[entry.name])
        elif not entry.optional:
            raise RuntimeFailure(
                "MS9211",
                f"the request has no input `{entry.name}`",
                notes=[f"it is `{entry.type}`"],
                helps=[f'give it in `"inputs": {{"{entry.name}": …}}`'],
            )
    return inputs


async def prepared_inputs(
    service: Service, asked: Asked, contents: Mapping[str, Sequence[Content]]
) -> PreparedRequest:
    """A request with the inputs of `/generate`. Fails with MS92xx."""
    inputs: dict[str, Any] = {}
    # Options and outputs are checked before any media are read, which then go where it looks.
    request = prepare_read(service.plan, asked, inputs)
    reading = Reading(service)
    for declared in service.plan.inputs:
        if declared.name not in contents:
            continue
        given = contents[declared.name]
        if isinstance(given[0], Given) and declared.type == "text":
            inputs[declared.name] = given[0].content
            continue
        read = [await _value(reading, declared, one) for one in given]
        inputs[declared.name] = parts_in_order(read) if _has_parts(declared) else read[0]
    return request


async def _value(reading: Reading, declared: Declared, content: Content) -> Any:
    if isinstance(content, torch.Tensor):
        return content
    if not _has_parts(declared):
        return await reading.value(content, declared.type)
    value = await reading.value(content, _types_of_parts(declared)[content.kind])
    return Part(kind=content.kind, value=value, role=content.role)


def _has_parts(declared: Declared) -> bool:
    return declared.type.startswith("[")


def _read(declared: Declared, given: Any) -> list[Content]:
    if not _has_parts(declared):
        return [_read_one(declared.name, declared.type, given)]
    if not isinstance(given, list):
        raise _unfit(declared, given)
    types = _types_of_parts(declared)
    parts: list[Content] = []
    for entry in given:
        kind, value, role = _read_part(declared, entry, types)
        content = _read_one(declared.name, types[kind], value)
        parts.append(replace(content, role=role) if isinstance(content, Given) else content)
    return parts


def _read_part(declared: Declared, entry: Any, types: Mapping[str, str]) -> tuple[str, Any, str]:
    """(kind, value, role)."""
    if isinstance(entry, str) and "text" in types:
        return "text", entry, "user"
    if isinstance(entry, dict):
        kinds = [key for key in entry if key != "role"]
        role = entry.get("role", "user")
        if len(kinds) == 1 and kinds[0] in types and isinstance(role, str):
            return kinds[0], entry[kinds[0]], role
    raise _unfit(declared, entry)


def _read_one(name: str, declared_type: str, given: Any) -> Content:
    kind = kind_of(declared_type)
    if kind == "text":
        if not isinstance(given, str):
            raise wrong(f"`{name}` can't be {shown(given)}", "it is a text")
        return Given(kind=kind, content=given)
    if kind == "tensor":
        return _tensor(name, given)
    content = decoded(given["data"] if _has_data(given) else given, name)
    return Given(kind=kind, content=content)


def _has_data(given: Any) -> bool:
    return isinstance(given, dict) and set(given) == {"data"}


def _tensor(name: str, given: Any) -> torch.Tensor:
    if isinstance(given, list):
        try:
            return torch.tensor(given)
        except (TypeError, ValueError, RuntimeError) as error:
            raise wrong(f"`{name}` is no array", str(error).splitlines()[0]) from error
    raise wrong(f"`{name}` can't be {shown(given)}", "it is lists of numbers")


def _types_of_parts(declared: Declared) -> dict[str, str]:
    """The type of each kind of part that an input takes."""
    return {kind_of(kind): kind for kind in declared.type[1:-1].split(" | ")}


def _unfit(declared: Declared, given: Any) -> RuntimeFailure:
    return RuntimeFailure(
        "MS9216",
        f"`{declared.name}` can't be {shown(given)}",
        notes=[f"it is an input of `{declared.type}`"],
    )
