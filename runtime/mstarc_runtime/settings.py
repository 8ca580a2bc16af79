"""The environment, read in one place.

Environment variables → a frozen `Settings`. A variable with a value of no use is a failure that
names the variable, the value and what is accepted; nothing is guessed.
"""

import gc
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mstarc_runtime.errors import RuntimeFailure

CACHE_VARIABLE = "MSTARC_CACHE"
KEY_VARIABLE = "MSTARC_API_KEY"
_SHORTEST_KEY = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the environment decides. `cache_dir`: where fetched weights are kept. `api_key`: what a
    server's clients must know, if there is one."""

    cache_dir: Path
    api_key: str | None = field(default=None, repr=False)


def read_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """The settings that `environ` (this process's by default) asks for. Fails with MS9001."""
    environ = os.environ if environ is None else environ
    return Settings(
        cache_dir=_cache_dir(environ.get(CACHE_VARIABLE)),
        api_key=_api_key(environ.get(KEY_VARIABLE)),
    )


def _cache_dir(value: str | None) -> Path:
    try:
        path = Path("~/.cache/mstarc" if value is None else value).expanduser()
    except RuntimeError as error:
        raise RuntimeFailure(
            "MS9001",
            "there is no home folder to keep weights in",
            helps=[f"set `{CACHE_VARIABLE}` to the absolute path of a folder"],
        ) from error
    if value is None:
        return path
    if not value.strip() or not path.is_absolute():
        raise _bad(CACHE_VARIABLE, value, "an absolute path of a folder")
    if os.path.exists(path) and not os.path.isdir(path):
        raise _bad(CACHE_VARIABLE, value, "a folder, and this is a file")
    return path


def _api_key(value: str | None) -> str | None:
    if value is not None and (len(value) < _SHORTEST_KEY or not value.isascii() or " " in value):
        # The value is a secret, however bad.
        raise _bad(KEY_VARIABLE, "…", f"{_SHORTEST_KEY} letters or more, ASCII, no spaces")
    return value


def _bad(variable: str, value: str, accepted: str) -> RuntimeFailure:
    return RuntimeFailure(
        "MS9001",
        f"`{variable}` is set to `{value}`",
        notes=[f"accepted: {accepted}"],
        helps=[f"unset `{variable}` for the default"],
    )


def prepare_environment() -> None:
    """Sets what libraries read when they are loaded: call it before anything imports torch.

    Threads that wait for work sleep: while they spin, ranks that share cores starve one another.
    Kernels that Triton has compiled are kept beside the weights, so that a second start compiles
    none.
    """
    for name, value in (_FOR_LIBRARIES | _kernel_cache(os.environ)).items():
        os.environ.setdefault(name, value)


@contextmanager
def loaded_at_once() -> Iterator[None]:
    """For the imports of a process. What they make stays as long as it does, so nothing looks for
    what could be thrown away: neither meanwhile, which is a fifth of loading torch, nor later."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


_FOR_LIBRARIES = {"OMP_WAIT_POLICY": "passive"}


def _kernel_cache(environ: Mapping[str, str]) -> dict[str, str]:
    try:
        folder = read_settings(environ).cache_dir
    except RuntimeFailure:
        # Whoever reads the settings says so; here nobody could be told.
        return {}
    return {"TRITON_CACHE_DIR": str(folder / "triton")}


def child_environ(**changed: str) -> dict[str, str]:
    """The environment for a child process: this process's, with `changed` laid over it."""
    return {**os.environ, **changed}


def rank_environ() -> dict[str, str]:
    """The environment for the process of a rank."""
    return {**_FOR_LIBRARIES, **_kernel_cache(os.environ), **os.environ}
