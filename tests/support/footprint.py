"""What a process and its children hold of the machine: what must be the same after as before."""

import json
import os
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from mstarc_runtime.assembly import host_threads


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """Of a server and its workers together.

    `threads` has each process's, by what it is. `files` counts open file descriptors by kind,
    connections of clients too; `shared_memory` are entries of /dev/shm, `sockets` files in the
    folders that ranks are reached by.
    """

    threads: dict[str, int]
    files: dict[str, int]
    shared_memory: int
    sockets: int

    def is_as(self, before: "Footprint") -> bool:
        """Whether it is the same. Pools of threads may have come to their size since, and those of
        a process that was started again may not have yet."""
        pool = host_threads()
        return (
            self.threads.keys() == before.threads.keys()
            and all(count <= before.threads[name] + pool for name, count in self.threads.items())
            and replace(self, threads={}) == replace(before, threads={})
        )


def footprint(process: int) -> Footprint:
    """What is held now."""
    named = {"server": process, **ranks(process)}
    numbers = list(named.values())
    kinds: Counter[str] = Counter()
    folders = set()
    for number in numbers:
        for path in Path(f"/proc/{number}/fd").iterdir():
            kinds[_kind(path)] += 1
    for number in numbers[1:]:
        words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
        folders |= {Path(os.fsdecode(word)) for word in words if b"/mstarc-" in word}
    return Footprint(
        threads={
            name: len(list(Path(f"/proc/{number}/task").iterdir()))
            for name, number in sorted(named.items())
        },
        files=dict(sorted(kinds.items())),
        shared_memory=len(list(Path("/dev/shm").iterdir())),
        sockets=sum(len(list(folder.iterdir())) for folder in folders if folder.is_dir()),
    )


def children(process: int) -> list[int]:
    """The processes that any of its threads has begun."""
    tasks = Path(f"/proc/{process}/task").iterdir()
    return [int(word) for task in tasks for word in (task / "children").read_text().split()]


def ranks(process: int) -> dict[str, int]:
    """The process id of each rank's process, by its number in the placement."""
    found = {}
    for number in children(process):
        words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
        births = [word for word in words if word.startswith(b'{"process"')]
        if births:
            found[f"process {json.loads(births[0])['process']}"] = number
    return found


def _kind(path: Path) -> str:
    try:
        target = os.readlink(path)
    except FileNotFoundError:
        return "closed"
    return target.partition(":")[0] if ":" in target else target
