"""The process of a rank, begun: its command line, its pipe, the folder of sockets it is reached by.

A process is one of a row of successors: where one is lost, the next has the same number and an
address of its own.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mstarc_runtime.assembly import RunSettings
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.loader import LoadedPlan, PlacementFacts, ProcessFacts
from mstarc_runtime.settings import rank_environ
from mstarc_runtime.supervision import Pulse
from mstarc_runtime.transport.mailbox import CONDUCTOR
from mstarc_runtime.transport.sockets import SocketMailbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Birth:
    """What a process is told on its command line beside the plan.

    `successors` counts, by number, those that have had a process's number before. `first_request`
    is the first that it may serve, `pulse` the file descriptor that its heart writes to.
    """

    process: int
    successors: Mapping[int, int]
    first_request: int
    pulse: int


@dataclass(slots=True, kw_only=True, eq=False)
class RankProcess:
    """A process that was begun."""

    facts: ProcessFacts
    popen: "subprocess.Popen[bytes]"
    pulse: Pulse
    began_s: float

    @property
    def status(self) -> int | None:
        """None while it lives."""
        return self.popen.poll()

    def kill(self) -> None:
        """Ends it, whatever it does; it is gone afterwards."""
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        self.pulse.close()


def spawn(
    plan: LoadedPlan,
    placement: PlacementFacts,
    facts: ProcessFacts,
    *,
    folder: Path,
    settings: RunSettings,
    successors: Mapping[int, int],
    first_request: int,
    now_s: float,
) -> RankProcess:
    """Begins a process; it says Ready when it is."""
    pulse = Pulse()
    birth = Birth(
        process=facts.process,
        successors=successors,
        first_request=first_request,
        pulse=pulse.far_end,
    )
    command = [
        *(sys.executable, "-m", "mstarc_runtime.rank_main"),
        *(str(plan.folder), placement.name, str(folder)),
        *(birth_to_json(birth), settings_to_json(settings)),
    ]
    try:
        popen = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            env=rank_environ(),
            pass_fds=(pulse.far_end,),
        )
    except BaseException:
        pulse.close()
        raise
    finally:
        pulse.forget_far_end()
    return RankProcess(facts=facts, popen=popen, pulse=pulse, began_s=now_s)


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Ctrl-C comes after this: no process is started that nobody would end.

    Processes that are started begin with it waiting too, until they ignore it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def folder_of_sockets() -> Path:
    """A new private folder. Fails with MS9308."""
    try:
        return Path(tempfile.mkdtemp(prefix="mstarc-"))
    except OSError as error:
        raise _no_socket("any folder for temporary files", error) from error


def conductors_mailbox(folder: Path, settings: RunSettings) -> SocketMailbox:
    """Fails with MS9308."""
    try:
        return SocketMailbox(folder, CONDUCTOR, settings.high_water_mark)
    except OSError as error:
        raise _no_socket(f"`{folder}`", error) from error


def forget_groups(folder: Path, processes: frozenset[int]) -> None:
    """Removes the files by which groups of these processes have met: the next meet anew."""
    for path in folder.glob("group-*"):
        members = path.name.removeprefix("group-").split("-")
        if {int(member) for member in members} <= processes:
            path.unlink()


def died(facts: ProcessFacts, pid: int, status: int) -> RuntimeFailure:
    """MS9301: a process has ended with this status of `Popen`."""
    if status < 0:
        how = f"killed by {signal.Signals(-status).name}"
    else:
        how = f"exit status {status}"
    return RuntimeFailure(
        "MS9301",
        f"the process of {facts} ended: {how}",
        notes=[f"its process id was {pid}"],
        helps=["if the machine ran out of memory, use fewer requests or another placement"]
        if status == -signal.SIGKILL
        else [],
    )


def birth_to_json(birth: Birth) -> str:
    """For the command line of a rank's process."""
    names = ("process", "first_request", "pulse")
    plain = {name: getattr(birth, name) for name in names}
    return json.dumps({**plain, "successors": list(birth.successors.items())})


def birth_from_json(text: str) -> Birth:
    content: Mapping[str, Any] = json.loads(text)
    return Birth(**{**content, "successors": dict(content["successors"])})


def settings_to_json(settings: RunSettings) -> str:
    """For the command line of a rank's process."""
    return json.dumps(
        {
            "cache_dir": str(settings.cache_dir),
            "deterministic": settings.deterministic,
            "threads": settings.threads,
            "tile_rows": settings.tile_rows,
            "high_water_mark": settings.high_water_mark,
            "sources": dict(settings.sources),
            "buckets": list(settings.buckets),
            "eager": list(settings.eager),
            "require_graphs": settings.require_graphs,
            "share_prompts": settings.share_prompts,
            "cascade": settings.cascade,
            "streams": settings.streams,
            "joins": settings.joins,
            "trace": settings.trace,
        }
    )


def settings_from_json(text: str) -> RunSettings:
    content: Mapping[str, Any] = json.loads(text)
    return RunSettings(**{**content, "cache_dir": Path(content["cache_dir"])})


def parent_is_gone(parent: int) -> bool:
    """Whether the process that started this one has ended."""
    return os.getppid() != parent


def _no_socket(where: str, error: OSError) -> RuntimeFailure:
    return RuntimeFailure(
        "MS9308",
        f"no socket can be made in {where}",
        notes=[f"the system says: {error.strerror}"],
        helps=["set `TMPDIR` to a folder of yours with a short path"],
    )
