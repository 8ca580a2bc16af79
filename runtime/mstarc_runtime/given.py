"""What a person gives for an input → the value that a plan takes.

`text` is a string or a file's content, `audio` a file's samples (at the rate that the plan names,
or its own), `image`, `video` and `action` a
file's bytes as they are (their host op decodes them), `tensor` nested lists of numbers. An input of
several parts is a list, each a text or an object of its kind, with a role if it is not the user's:

    [{"image": "cat.png"}, "What is this?", {"text": "A cat.", "role": "assistant"}]
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from mstarc_runtime.errors import RuntimeFailure, not_opened
from mstarc_runtime.loader import Declared
from mstarc_runtime.media.audio import read_audio
from mstarc_runtime.plan_api import Media, Part, parts_in_order

Read = tuple[Any, tuple[str, ...]]

_MOST_SHOWN = 60


def read_given(declared: Declared, given: Any, folder: Path) -> Read:
    """An input's value, with what there is to say about it. Fails with MS9201 or MS9216."""
    if declared.type.startswith("["):
        return _parts(declared, given, folder)
    return _one(declared.name, declared.type, given, folder)


def _parts(declared: Declared, given: Any, folder: Path) -> Read:
    if not isinstance(given, list):
        raise _unfit(declared.name, declared.type, given)
    kinds = {kind.partition("(")[0]: kind for kind in declared.type[1:-1].split(" | ")}
    parts: list[Part] = []
    notes: list[str] = []
    for entry in given:
        kind, value, role = _entry(declared, entry, kinds)
        content, said = _one(declared.name, kinds[kind], value, folder)
        parts.append(Part(kind=kind, value=content, role=role))
        notes += said
    return parts_in_order(parts), tuple(notes)


def _entry(declared: Declared, entry: Any, kinds: Mapping[str, str]) -> tuple[str, Any, str]:
    """(kind, value, role) of a part."""
    if isinstance(entry, str) and "text" in kinds:
        return "text", entry, "user"
    if isinstance(entry, dict):
        named = [key for key in entry if key != "role"]
        role = entry.get("role", "user")
        if len(named) == 1 and named[0] in kinds and isinstance(role, str):
            return named[0], entry[named[0]], role
    raise _unfit(declared.name, declared.type, entry)


def _one(name: str, kind: str, given: Any, folder: Path) -> Read:
    is_file = isinstance(given, dict) and set(given) == {"file"}
    file = given["file"] if is_file else given
    if kind == "tensor":
        return _tensor(name, kind, given), ()
    if kind == "text" and not is_file and isinstance(given, str):
        return given, ()
    if not isinstance(file, str) or "\0" in file:
        raise _unfit(name, kind, given)
    path = folder / file
    if kind == "audio":
        return read_audio(path, None)
    if kind.startswith("audio("):
        return read_audio(path, int(kind[len("audio(") : -1]))
    if kind == "text":
        try:
            return _content(path, lambda: path.read_text(encoding="utf-8")), ()
        except UnicodeDecodeError as error:
            raise RuntimeFailure("MS9216", f"`{path}` is not a text in UTF-8") from error
    return Media(kind=kind, content=_content(path, path.read_bytes)), ()


def _content(path: Path, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except OSError as error:
        raise not_opened(path, error) from error


def _tensor(name: str, kind: str, given: Any) -> torch.Tensor:
    if isinstance(given, Sequence) and not isinstance(given, str):
        try:
            return torch.tensor(given)
        except (TypeError, ValueError, RuntimeError) as error:
            raise _unfit(name, kind, given) from error
    raise _unfit(name, kind, given)


def _unfit(name: str, kind: str, given: Any) -> RuntimeFailure:
    shown = json.dumps(given)
    if len(shown) > _MOST_SHOWN:
        shown = f"{shown[:_MOST_SHOWN]}…"
    return RuntimeFailure(
        "MS9216",
        f"`{name}` can't be {shown}",
        notes=[f"it is an input of `{kind}`"],
    )
