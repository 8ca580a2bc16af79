"""What a converted folder must hold, so that a changed file is noticed.

Files of a folder → `manifest.json` with each file's sha256, size and time of change. `check_file`
hashes a file again only when its size or time is another than noted, as a version control system
does: reading weights stays fast, and an edited or damaged file is still found.
"""

import json
from pathlib import Path
from typing import Any, Final

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.weights.download import sha256_of

MANIFEST: Final = "manifest.json"


def write_manifest(folder: Path, *, source: str, licence: str) -> None:
    files = {
        path.relative_to(folder).as_posix(): {
            "sha256": sha256_of(path),
            "size": path.stat().st_size,
            "mtime_ns": path.stat().st_mtime_ns,
        }
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    content = {"source": source, "licence": licence, "files": files}
    (folder / MANIFEST).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def check_file(path: Path, folder: Path) -> None:
    """Fails with MS9103 if `folder` has a manifest and `path` is not what it says."""
    manifest = folder / MANIFEST
    if not manifest.exists():
        return
    noted: dict[str, Any] = json.loads(manifest.read_text(encoding="utf-8"))["files"]
    entry = noted.get(path.relative_to(folder).as_posix())
    if entry is None or _is_untouched(path, entry):
        return
    actual = sha256_of(path)
    if actual != entry["sha256"]:
        raise RuntimeFailure(
            "MS9103",
            f"`{path.name}` was changed after it was made",
            notes=[f"expected sha256 {entry['sha256']}", f"found sha256    {actual}"],
            helps=[f"remove `{folder}`; the next run makes it again"],
        )


def _is_untouched(path: Path, entry: dict[str, Any]) -> bool:
    stat = path.stat()
    return bool(stat.st_size == entry["size"] and stat.st_mtime_ns == entry["mtime_ns"])
