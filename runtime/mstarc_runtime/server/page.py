"""The page at `/`: files of this package, and the plan's drawing. Nothing else of a disk is served.

All are read when the server starts; a request's path is looked up among their names.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response

from mstarc_runtime.errors import RuntimeFailure

if TYPE_CHECKING:
    from mstarc_runtime.server.service import Service

INDEX: Final = "index.html"
DRAWING: Final = "graph.svg"
_FOLDER = "page_files"
_TYPES: Mapping[str, str] = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
# The page loads nothing from elsewhere, and nothing may frame it or be sent from it elsewhere.
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob: data:",
        "media-src blob: data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFile:
    """A file of the page."""

    content: bytes
    content_type: str
    tag: str


def page_files(plan: Path) -> dict[str, PageFile]:
    """The files by name, the drawing of the plan in a folder among them."""
    folder = files("mstarc_runtime.server") / _FOLDER
    found = {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.is_file()}
    found[DRAWING] = (plan / DRAWING).read_bytes()
    return {name: _file(name, content) for name, content in found.items()}


def _file(name: str, content: bytes) -> PageFile:
    return PageFile(
        content=content,
        content_type=_TYPES[name.rpartition(".")[2]],
        tag=f'"{hashlib.sha256(content).hexdigest()[:20]}"',
    )


async def index(request: Request, service: "Service") -> Response:
    return _answer(request, service.page[INDEX])


async def part(request: Request, service: "Service") -> Response:
    """A file by its name. Fails with MS9218."""
    name = request.path_params["name"]
    found = service.page.get(name)
    if found is None:
        raise RuntimeFailure("MS9218", f"the page has no part `{name}`")
    return _answer(request, found)


def _answer(request: Request, file: PageFile) -> Response:
    headers = {
        "content-type": file.content_type,
        "content-security-policy": _POLICY,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-cache",
        "etag": file.tag,
    }
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers)
