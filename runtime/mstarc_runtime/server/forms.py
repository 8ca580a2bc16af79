"""A `multipart/form-data` body → its texts and files, in memory. A file's name is never used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from mstarc_runtime.server import body as fields

_MOST_FIELDS = 64


class _InMemory(MultiPartParser):
    """Writes no part to a disk: a body has a limit of its own."""

    spool_max_size = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Fields that are texts, the last of a name; the bytes of files, all of a name."""

    texts: Mapping[str, str]
    files: Mapping[str, Sequence[bytes]]


async def read_form(request: Request, *, holds: str, most_files: int) -> Form:
    """The form that a body is. `holds` says what it is for. Fails with MS9217."""
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise fields.wrong("the body is not multipart/form-data", holds)
    try:
        parser = _InMemory(
            request.headers, request.stream(), max_files=most_files, max_fields=_MOST_FIELDS
        )
        form = await parser.parse()
    except MultiPartException as error:
        raise fields.wrong("the body is not multipart/form-data", error.message) from error
    texts: dict[str, str] = {}
    files: dict[str, list[bytes]] = {}
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            files.setdefault(name, []).append(await value.read())
        else:
            texts[name] = value
    return Form(texts=texts, files=files)
