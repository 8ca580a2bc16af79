"""Contents in a request over HTTP → values that a plan takes. No file is opened.

Media are bytes in base64: a sound is decoded here, a picture or a film by the plan's host op.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.loader import Declared
from mstarc_runtime.media.audio import decode_audio
from mstarc_runtime.plan_api import Audio, Media, Part, parts_in_order
from mstarc_runtime.server.abilities import Abilities, kind_of, rate_of
from mstarc_runtime.server.body import decoded, shown, wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One part of a message: a text, or the bytes of a file of its kind."""

    kind: str
    content: str | bytes
    role: str = "user"


def inputs_of(abilities: Abilities, given: Sequence[Given]) -> dict[str, Any]:
    """What the parts of messages are for the plan's inputs. Fails with MS9217 or MS92xx."""
    for one in given:
        if one.kind not in abilities.takes:
            kinds = ", ".join(sorted(abilities.takes))
            raise wrong(f"the model takes no {one.kind}", f"it takes {kinds}")
    if abilities.parts is not None:
        types = _types_of_parts(abilities.parts)
        parts = [
            Part(kind=one.kind, value=value_of(one, types[one.kind]), role=one.role)
            for one in given
        ]
        return {abilities.parts.name: parts_in_order(parts)}
    inputs: dict[str, Any] = {}
    for one in given:
        declared = abilities.single[one.kind]
        if one.role != "user":
            raise wrong(f"the model has no turns, and so no role `{one.role}`")
        if declared.name in inputs:
            raise wrong(f"the model takes one {one.kind}, and there are several")
        inputs[declared.name] = value_of(one, declared.type)
    for kind, declared in abilities.single.items():
        if not declared.optional and declared.name not in inputs:
            raise wrong(f"the messages have no {kind}", f"the model needs it as `{declared.name}`")
    return inputs


def value_of(given: Given, declared_type: str) -> Any:
    """A part's value. Fails with MS9202 … MS9205 for a sound."""
    if isinstance(given.content, str):
        return given.content
    if given.kind == "audio":
        return sound_of(given.content, rate_of(declared_type))
    return Media(kind=given.kind, content=given.content)


def sound_of(content: bytes, rate: int | None) -> Audio:
    """A sound file's samples at `rate` hertz. Fails with MS9202 … MS9205."""
    return decode_audio(io.BytesIO(content), "the sound", "the sound", rate)[0]


def read_inputs(declared: Sequence[Declared], given: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of `/generate`, by name. Fails with MS9211, MS9216, MS9217 or MS9202 … MS9205."""
    inputs: dict[str, Any] = {}
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


def _read(declared: Declared, given: Any) -> Any:
    if not declared.type.startswith("["):
        return _read_one(declared.name, declared.type, given)
    if not isinstance(given, list):
        raise _unfit(declared, given)
    types = _types_of_parts(declared)
    parts = []
    for entry in given:
        kind, value, role = _read_part(declared, entry, types)
        content = _read_one(declared.name, types[kind], value)
        parts.append(Part(kind=kind, value=content, role=role))
    return parts_in_order(parts)


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


def _read_one(name: str, declared_type: str, given: Any) -> Any:
    kind = kind_of(declared_type)
    if kind == "text":
        if not isinstance(given, str):
            raise wrong(f"`{name}` can't be {shown(given)}", "it is a text")
        return given
    if kind == "tensor":
        return _tensor(name, given)
    content = decoded(given["data"] if _has_data(given) else given, name)
    return value_of(Given(kind=kind, content=content), declared_type)


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
