"""API keys: a file of them, or one in the environment → who a request is from.

The file is TOML, a table a client:

    [web]
    key = "sk-…"            # or sha256 = "…", of the key
    weight = 3              # turns in the queue, 1 unless told otherwise
    queue = 16              # of its requests that may wait, --queue unless told otherwise

Keys are compared as SHA-256 sums, each with all that there are, in a time that depends on none of
them. Without keys everybody is one client.
"""

import hashlib
import hmac
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mstarc_runtime.errors import RuntimeFailure, did_you_mean, not_opened

_FIELDS: Final = ("key", "sha256", "weight", "queue")
_MOST_WEIGHT: Final = 100
_ALONE: Final = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Who requests are from. `queue`: of them that may wait; None is the server's."""

    name: str = ""
    weight: int = 1
    queue: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The clients by the sums of their keys. None of them lets everybody in."""

    clients: Sequence[tuple[bytes, Client]] = field(default=(), repr=False)

    @property
    def are_needed(self) -> bool:
        return bool(self.clients)

    def client(self, key: str | None) -> Client:
        """Fails with MS9221."""
        if not self.clients:
            return Client()
        if key is None:
            raise RuntimeFailure(
                "MS9221",
                "the request has no API key",
                helps=["send it as `Authorization: Bearer KEY`"],
            )
        given = _sum(key)
        found = None
        for known, client in self.clients:
            # All of them, so that the time says nothing of which one it is.
            if hmac.compare_digest(known, given):
                found = client
        if found is None:
            raise RuntimeFailure("MS9221", "the API key is not known here")
        return found


def read_keys(path: Path | None, alone: str | None) -> Keys:
    """The keys of a file and that of the environment. Fails with MS9201 or MS9017."""
    clients = [] if alone is None else [(_sum(alone), Client(name=_ALONE))]
    if path is not None:
        clients += _of_file(path)
    sums = [known for known, _ in clients]
    if len(set(sums)) < len(sums):
        raise RuntimeFailure("MS9017", f"two clients of `{path}` have the same key")
    return Keys(clients=clients)


def _of_file(path: Path) -> list[tuple[bytes, Client]]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise not_opened(path, error) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _bad(path, "is not TOML", str(error)) from error
    if not content:
        raise _bad(path, "has no client", 'one is `[web]` and `key = "…"`')
    return [_entry(path, name, entry) for name, entry in content.items()]


def _entry(path: Path, name: str, entry: Any) -> tuple[bytes, Client]:
    if not isinstance(entry, dict):
        raise _bad(path, f"has `{name}` outside of a table", "a table is a client: `[web]`")
    for known in entry:
        if known not in _FIELDS:
            helps = did_you_mean(known, _FIELDS)
            raise _bad(path, f"has `{known}` in `[{name}]`", f"known: {', '.join(_FIELDS)}", helps)
    client = Client(
        name=name,
        weight=_number(path, name, entry, "weight", 1, _MOST_WEIGHT) or 1,
        queue=_number(path, name, entry, "queue", 0, 1_000_000),
    )
    return _sum_of(path, name, entry), client


def _sum_of(path: Path, name: str, entry: Mapping[str, Any]) -> bytes:
    if ("key" in entry) == ("sha256" in entry):
        raise _bad(path, f"has in `[{name}]` not one of `key` and `sha256`")
    if "key" in entry:
        key = entry["key"]
        if not isinstance(key, str) or not key.isascii() or len(key) < 8 or " " in key:
            raise _bad(path, f"has in `[{name}]` a `key` that is none", "8 letters or more, ASCII")
        return _sum(key)
    text = entry["sha256"]
    try:
        found = bytes.fromhex(text)
    except (TypeError, ValueError) as error:
        raise _bad(path, f"has in `[{name}]` a `sha256` that is not hexadecimal") from error
    if len(found) != 32:
        raise _bad(path, f"has in `[{name}]` a `sha256` of {len(found)} bytes", "it has 32")
    return found


def _number(
    path: Path, name: str, entry: Mapping[str, Any], what: str, least: int, most: int
) -> int | None:
    value = entry.get(what)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _bad(path, f"has in `[{name}]` a `{what}` of `{value}`", f"it is {least} .. {most}")
    return value


def _sum(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _bad(path: Path, what: str, note: str = "", helps: Sequence[str] = ()) -> RuntimeFailure:
    notes = [note] if note else []
    return RuntimeFailure("MS9017", f"`{path}` {what}", notes=notes, helps=helps)
