"""The body of a request over HTTP → checked fields. A field that nobody knows is a mistake.

JSON is read strictly: no NaN, a depth that ends, every field of its kind. Failures are MS9217, with
the nearest known name.
"""

import base64
import binascii
import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn

import msgspec

from mstarc_runtime.errors import RuntimeFailure, did_you_mean
from mstarc_runtime.loader import Declared
from mstarc_runtime.request import find_declared

_MOST_SHOWN = 60
# How halves of characters are written in JSON.
_ESCAPED = re.compile(rb"\\u[dD][89a-fA-F]")
_KINDS: Mapping[str, tuple[type[Any], ...]] = {
    "text": (str,),
    "whole number": (int,),
    "number": (int, float),
    "true or false": (bool,),
    "list": (list,),
    "object": (dict,),
}


_decode = msgspec.json.Decoder().decode


def read_object(content: bytes) -> dict[str, Any]:
    """The JSON object that a body is. Fails with MS9217."""
    try:
        found = _decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # Read again by what says more of what is wrong.
        return _read_slowly(content)
    return _object_of(found)


def _read_slowly(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise wrong("the body is not a text in UTF-8") from error
    except RecursionError as error:
        raise wrong("the body is nested too deeply") from error
    except ValueError as error:
        raise wrong("the body is not JSON", str(error)) from error
    if _ESCAPED.search(content) and not _is_text(found):
        raise wrong("the body has half a character", "`\\ud800` … `\\udfff` come in pairs")
    return _object_of(found)


def _object_of(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise wrong("the body is not a JSON object")
    return found


def _is_text(found: Any) -> bool:
    """Whether all its texts can be written."""
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def field(body: Mapping[str, Any], name: str, kind: str, default: Any = None) -> Any:
    """A field of a kind of `_KINDS`; `default` where it is not given or null. Fails with MS9217."""
    value = body.get(name)
    if value is None:
        return default
    is_bool = isinstance(value, bool)
    if not isinstance(value, _KINDS[kind]) or (is_bool and kind != "true or false"):
        raise wrong(
            f"`{name}` can't be {shown(value)}", f"it is {'an' if kind == 'object' else 'a'} {kind}"
        )
    return value


def choice(body: Mapping[str, Any], name: str, values: Sequence[str], default: str) -> str:
    """A field that is one of some words. Fails with MS9217."""
    value = field(body, name, "text", default)
    if value not in values:
        known = ", ".join(f"`{known}`" for known in values)
        raise wrong(
            f"`{name}` can't be `{value}`", f"it is one of {known}", did_you_mean(value, values)
        )
    assert isinstance(value, str)
    return value


def check_fields(body: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Fails with MS9217 at the first field that is not known."""
    for name in body:
        if name not in known:
            names = ", ".join(f"`{name}`" for name in sorted(known))
            helps = did_you_mean(name, sorted(known))
            raise wrong(f"{where} has no field `{name}`", f"it has {names}", helps)


def options_in(
    body: Mapping[str, Any], fields: Collection[str], declared: Mapping[str, Declared], where: str
) -> dict[str, Any]:
    """What a body says beside a route's own fields: options of the spec. Fails with MS9217."""
    check_fields(body, {*fields, *declared}, where)
    given = {name: body[name] for name in declared if body.get(name) is not None}
    return checked_options(given, tuple(declared.values()))


def checked_options(given: Mapping[str, Any], declared: Sequence[Declared]) -> dict[str, Any]:
    """Options of JSON: a number in quotes is none. Fails with MS9212 or MS9213."""
    for name, value in given.items():
        kind = find_declared(declared, name, "MS9212", "option").type
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if kind in ("int", "float") and not is_number:
            raise RuntimeFailure(
                "MS9213",
                f"`{name}` can't be {shown(value)}",
                notes=[f"it is an option of `{kind}`"],
            )
    return dict(given)


def decoded(text: Any, name: str) -> bytes:
    """The bytes of base64, alone or in a data URL. Fails with MS9217."""
    if not isinstance(text, str):
        raise wrong(f"`{name}` can't be {shown(text)}", "it is base64 or a data URL")
    if text.startswith("data:"):
        head, comma, text = text.partition(",")
        if not comma or not head.endswith(";base64"):
            raise wrong(f"`{name}` is not a data URL of base64")
    elif "://" in text[:16]:
        raise wrong(
            f"`{name}` is an address, and nothing is fetched",
            "give the content itself, as `data:…;base64,…`",
        )
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise wrong(f"`{name}` is not base64", str(error)) from error


def shown(value: Any) -> str:
    """A value as JSON, cut short."""
    text = json.dumps(value, ensure_ascii=False)
    return f"`{text[:_MOST_SHOWN]}…`" if len(text) > _MOST_SHOWN else f"`{text}`"


def wrong(message: str, note: str = "", helps: Sequence[str] = ()) -> RuntimeFailure:
    """MS9217."""
    return RuntimeFailure("MS9217", message, notes=[note] if note else [], helps=helps)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
