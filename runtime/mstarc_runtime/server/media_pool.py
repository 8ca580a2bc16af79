"""Media of strangers are read in processes of their own, under limits of memory and time.

A sound comes back as samples, in memory that both share. A picture or a film is read to its end and
counted, and its bytes go on as they are: what waits in a queue is no larger than what was sent, and
the host op that reads it again meets no surprise. A process that dies of a file is replaced; the
file's request gets MS9220, and nobody else notices.

What a request may bring is counted over all that it brings: `Allowance`.
"""

import asyncio
import json
import mmap
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from starlette.concurrency import run_in_threadpool

import mstarc_runtime
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.media.audio import check_rates, resample
from mstarc_runtime.media.limits import MediaLimits
from mstarc_runtime.plan_api import Audio
from mstarc_runtime.settings import child_environ

_START_S: Final = 60.0
# Beyond the processor time of a file, since processes share processors.
_SLACK: Final = 4
_ONE_THREAD: Final = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(slots=True, kw_only=True, eq=False)
class Allowance:
    """What is left of the limits for one request."""

    sound_s: float
    pixels: int
    film_s: float
    film_frames: int


class ReaderDied(Exception):
    """A process has ended, or was ended, while it read."""


class MediaPool:
    """At most `processes` readers, started when they are first wanted.

    Whoever waits for one holds no thread. Everything is called in asyncio's thread.
    """

    def __init__(self, limits: MediaLimits, processes: int) -> None:
        self._limits = limits
        self._free = asyncio.Semaphore(processes)
        self._idle: list[_Reader] = []
        self._is_closed = False
        # Bytes of samples that somebody still has, and the lock for threads that let go of them.
        self.held_bytes = 0
        self._lock = threading.Lock()
        # How many were started since the beginning.
        self.started = 0

    def allowance(self) -> Allowance:
        """What one request may bring."""
        limits = self._limits
        return Allowance(
            sound_s=limits.sound_s,
            pixels=limits.picture_pixels,
            film_s=limits.film_s,
            film_frames=limits.film_frames,
        )

    async def sound(self, content: bytes, rate: int | None, left: Allowance) -> Audio:
        """The samples of a sound file at `rate` hertz, its own if that is None.

        Fails with MS9202 … MS9205, MS9219, MS9220, or MS9310 where no reader is free in time, or
        too much sound of other requests lies here.
        """
        if self.held_bytes > self._limits.held_bytes:
            raise RuntimeFailure(
                "MS9310",
                f"{self.held_bytes / 1e6:.0f} MB of sound wait already",
                helps=["try again later"],
            )
        said, data = await self._read(content, {"kind": "audio", "most_s": left.sound_s})
        left.sound_s -= said["seconds"]
        found = said["rate"]
        target = found if rate is None else rate
        check_rates(found, target)
        samples = np.frombuffer(data, "<f4").astype(np.float32)
        if found != target:
            samples = await run_in_threadpool(resample, samples, found, target)
        self._count(samples.nbytes)
        weakref.finalize(samples, self._count, -samples.nbytes)
        return Audio(samples=samples, rate=target)

    async def check_picture(self, content: bytes, left: Allowance) -> None:
        """Fails with MS9206, MS9219, MS9220 or MS9310."""
        said, _ = await self._read(content, {"kind": "image", "most_pixels": left.pixels})
        left.pixels -= said["pixels"]

    async def check_film(self, content: bytes, left: Allowance) -> None:
        """Fails with MS9206, MS9219, MS9220 or MS9310."""
        job = {
            "kind": "video",
            "most_s": left.film_s,
            "most_frames": left.film_frames,
            "most_pixels": self._limits.picture_pixels,
        }
        said, _ = await self._read(content, job)
        left.film_s -= said["seconds"]
        left.film_frames -= said["frames"]

    def _count(self, size_bytes: int) -> None:
        with self._lock:
            self.held_bytes += size_bytes

    def close(self) -> None:
        """Ends the readers."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()

    async def _read(self, content: bytes, job: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
        try:
            await asyncio.wait_for(self._free.acquire(), self._limits.wait_s)
        except TimeoutError as error:
            raise RuntimeFailure(
                "MS9310", "all readers of sounds and pictures are busy", helps=["try again later"]
            ) from error
        try:
            said, data = await run_in_threadpool(self._read_in_thread, content, job)
        finally:
            self._free.release()
        if (failure := said.get("failure")) is not None:
            if failure["code"] == "MS9220":
                raise _too_costly(self._limits)
            raise RuntimeFailure(**failure)
        return said, data

    def _read_in_thread(
        self, content: bytes, job: Mapping[str, Any]
    ) -> tuple[dict[str, Any], bytes]:
        """A reader's answer. Only as many threads are here as there may be readers."""
        try:
            reader = self._idle.pop()
        except IndexError:
            self.started += 1
            reader = _Reader(self._limits.memory_bytes, self._limits.cpu_s * _SLACK)
        try:
            answer = reader.read(content, {**job, "cpu_s": self._limits.cpu_s})
        except BaseException as error:
            reader.close()
            if isinstance(error, ReaderDied):
                raise _too_costly(self._limits) from error
            raise
        if self._is_closed:
            reader.close()
        else:
            self._idle.append(reader)
        return answer


class _Reader:
    """One process. It shares a file without a name, which lies in memory."""

    def __init__(self, memory_bytes: int, most_s: float) -> None:
        self._most_s = most_s
        self._file = _memory_file()
        # -P: what lies in the working folder is no module.
        words = ("-P", "-m", "mstarc_runtime.media.reader", str(self._file), str(memory_bytes))
        self._process = subprocess.Popen(
            [sys.executable, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=(self._file,),
            env=child_environ(**_ONE_THREAD, PYTHONPATH=_module_path()),
            # Ctrl-C is for the server, which lets what is read be read.
            start_new_session=True,
        )
        try:
            self._line(_START_S)
        except ReaderDied as error:
            self.close()
            raise AssertionError("a reader of media did not start") from error

    def read(self, content: bytes, job: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
        """The reader's answer, and what it left in the file. Raises ReaderDied."""
        os.ftruncate(self._file, 0)
        _write(self._file, content)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({**job, "size": len(content)}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise ReaderDied from error
        said = self._line(self._most_s)
        data = _read(self._file, said.get("size", 0))
        os.ftruncate(self._file, 0)
        return said, data

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        os.close(self._file)

    def _line(self, most_s: float) -> dict[str, Any]:
        """A line of its answers. Raises ReaderDied where none comes in time."""
        assert self._process.stdout is not None
        answers = self._process.stdout.fileno()
        deadline = time.monotonic() + most_s
        line = b""
        while not line.endswith(b"\n"):
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([answers], [], [], left_s)[0]:
                raise ReaderDied
            piece = os.read(answers, 1 << 16)
            if not piece:
                raise ReaderDied
            line += piece
        found: dict[str, Any] = json.loads(line)
        return found


def _module_path() -> str:
    """Where this package is, and what else this process finds modules in."""
    return os.pathsep.join([str(Path(mstarc_runtime.__file__).parents[1]), *filter(None, sys.path)])


def _memory_file() -> int:
    """A file that has no name and lies in memory, where the system has such files."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("media")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _write(file: int, content: bytes) -> None:
    written = 0
    while written < len(content):
        written += os.pwrite(file, memoryview(content)[written:], written)


def _read(file: int, size: int) -> bytes:
    if not size:
        return b""
    with mmap.mmap(file, size, prot=mmap.PROT_READ) as shared:
        return shared[:]


def _too_costly(limits: MediaLimits) -> RuntimeFailure:
    return RuntimeFailure(
        "MS9220",
        "a file takes more than there is for reading it",
        notes=[
            f"there are {limits.memory_bytes / 1e6:.0f} MB and {limits.cpu_s} s of processor time",
            "its reader was ended; other requests are not touched",
        ],
        helps=["send it smaller, or in another format"],
    )
