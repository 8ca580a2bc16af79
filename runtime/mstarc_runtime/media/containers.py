"""The bytes of a film → the reader for its kind, by how they begin; no other reader is tried.

Some of the video library's readers are for lists of other files and addresses, which a film of a
stranger's must not be.
"""

from typing import Final

from mstarc_runtime.errors import RuntimeFailure

_MATROSKA: Final = b"\x1a\x45\xdf\xa3"
_BRANDS: Final = (b"ftyp", b"moov", b"mdat", b"free", b"wide", b"skip")


def container_of(content: bytes) -> str:
    """The library's name for the reader of a film. Fails with MS9206.

    >>> container_of(bytes(4) + b"ftypisom")
    'mov'
    """
    if content[4:8] in _BRANDS:
        return "mov"
    if content.startswith(_MATROSKA):
        return "matroska"
    if content[:4] == b"RIFF" and content[8:12] == b"AVI ":
        return "avi"
    raise unreadable("it does not begin like one")


def unreadable(why: str | Exception) -> RuntimeFailure:
    """The refusal of a film, MS9206: our own reason, or the video library's error."""
    said = (
        why if isinstance(why, str) else f"the video library says: {str(why).strip().rstrip('.')}"
    )
    return RuntimeFailure(
        "MS9206",
        "a video can't be read",
        notes=[said],
        helps=["mp4, webm, mkv, mov and avi are read"],
    )
