"""The process of a rank: its arguments are plan, placement, folder of sockets, birth, settings.

Started by `launch` through `rank_main`, never by a person. Loads its rank, says Ready, works until
Stop. What keeps it from starting, or from going on, it tells the conductor as Broken. It ends when
its parent does.
"""

import os
import shutil
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mstarc_runtime.assembly import host_threads, make_worker, use_threads
from mstarc_runtime.engine.host import ThreadPool
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.loader import ProcessFacts, load_placement, load_plan
from mstarc_runtime.messages import PROTOCOL, Broken, Progress, Ready
from mstarc_runtime.spawning import birth_from_json, parent_is_gone, settings_from_json
from mstarc_runtime.supervision import Heart
from mstarc_runtime.transport.mailbox import CONDUCTOR, Mailbox
from mstarc_runtime.transport.sockets import SocketMailbox
from mstarc_runtime.weights.progress import Advance
from mstarc_runtime.worker import Worker

_WAIT_S = 0.02
_PARENT_S = 0.5


class _Telling:
    """Progress of start-up, as messages."""

    def __init__(self, mailbox: Mailbox, facts: ProcessFacts) -> None:
        self._mailbox = mailbox
        self._facts = facts

    @contextmanager
    def step(self, label: str, total_bytes: int | None) -> Iterator[Advance]:
        size = f" ({total_bytes / 1e6:.0f} MB)" if total_bytes else ""
        self._mailbox.send(CONDUCTOR, Progress(self._facts.rank, f"{self._facts}: {label}{size}"))
        yield lambda done: None


def main(arguments: list[str]) -> int:
    folder, placement_name, sockets, birth_text, settings_text = arguments
    birth, parent = birth_from_json(birth_text), os.getppid()
    heart = Heart(birth.pulse)
    process = birth.process
    who = f"process {process}"
    settings = settings_from_json(settings_text)
    mailbox = SocketMailbox(
        Path(sockets), process, settings.high_water_mark, successors=birth.successors
    )
    pool = ThreadPool(host_threads(), mailbox.wake)
    try:
        use_threads(settings.threads)
        plan = load_plan(Path(folder))
        placement = load_placement(plan, placement_name)
        facts = next(facts for facts in placement.processes if facts.process == process)
        who = str(facts)
        worker = make_worker(
            plan,
            placement,
            facts,
            mailbox=mailbox,
            pool=pool,
            settings=settings,
            progress=_Telling(mailbox, facts),
            sockets=Path(sockets),
            first_request=birth.first_request,
            say=lambda text: mailbox.send(CONDUCTOR, Progress(facts.rank, text)),
        )
        mailbox.send(CONDUCTOR, Ready(process, PROTOCOL))
        _work(worker, heart, parent, Path(sockets))
    except RuntimeFailure as failure:
        mailbox.send(
            CONDUCTOR, Broken(process, failure.code, failure.message, failure.notes, failure.helps)
        )
        return 1
    except Exception as error:
        traceback.print_exc()
        message = f"{who} failed: {type(error).__name__}: {error}"
        mailbox.send(CONDUCTOR, Broken(process, "", message, (), ()))
        return 1
    finally:
        pool.close()
        mailbox.close()
    return 0


def _work(worker: Worker, heart: Heart, parent: int, sockets: Path) -> None:
    look_again = time.monotonic() + _PARENT_S
    while not worker.has_stopped:
        heart.turn_begins(worker.stepper.flights.since_s)
        did = worker.turn()
        heart.turn_ends()
        if not did:
            worker.wait(_WAIT_S)
        if time.monotonic() > look_again:
            look_again = time.monotonic() + _PARENT_S
            if parent_is_gone(parent):
                # Nobody else is left to remove the sockets.
                shutil.rmtree(sockets, ignore_errors=True)
                return
