"""Writes plans for tests: the folder's files with their hashes noted, as the compiler does."""

import hashlib
import json
import shutil
from pathlib import Path

PLANS = Path(__file__).parent / "plans"


def seal(folder: Path) -> None:
    """Notes the hash of every file in plan.json, and its own."""
    manifest = json.loads((folder / "plan.json").read_text())
    manifest["files"] = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "plan.json" and "__pycache__" not in path.parts
    }
    manifest.pop("digest", None)
    content = json.dumps(manifest, sort_keys=True).encode()
    manifest["digest"] = hashlib.sha256(content).hexdigest()
    (folder / "plan.json").write_text(json.dumps(manifest, indent=1))


def write_plan(name: str, folder: Path) -> Path:
    """A copy of one of the plans beside this file, whole."""
    target = folder / name
    shutil.copytree(PLANS / name, target, ignore=shutil.ignore_patterns("__pycache__"))
    seal(target)
    return target
