"""Put a plan's files on the disk: all of them, or none.

The files are written into a new folder beside the target, which is then moved into its place. An
older plan stays as it was until that move, and comes back when the move fails. What stands in the
target and is not a plan is never touched: `is_replaceable` says so first.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

PLAN_FILE = "plan.json"


def is_replaceable(folder: Path) -> bool:
    """Whether a plan may be written to `folder`: it is not there, is empty, or holds a plan."""
    if not folder.exists() and not folder.is_symlink():
        return True
    return folder.is_dir() and ((folder / PLAN_FILE).is_file() or not any(folder.iterdir()))


def write_plan(files: Mapping[str, str], folder: Path) -> None:
    """Make `folder` hold exactly `files` (relative path to text).

    Raises `OSError` where the disk or its permissions forbid it; then `folder` is as it was.
    """
    assert is_replaceable(folder), "the caller asks first"
    # A link to a folder stays a link: what it points to is replaced.
    target = folder.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        for name in sorted(files):
            path = staging / "new" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(files[name].encode())
        _exchange(staging / "new", target, staging / "old")
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _exchange(new: Path, target: Path, old: Path) -> None:
    """Move `new` to `target` and what was there to `old`; undo the latter when that fails."""
    had_plan = target.exists()
    if had_plan:
        os.rename(target, old)
    try:
        os.rename(new, target)
    except OSError:
        if had_plan:
            os.rename(old, target)
        raise
