"""Run a request: machines take turns until all are done, none can go on, or an error ends it."""

from collections.abc import Iterable
from random import Random
from typing import Any

from mstarc.ir.chunks import History
from mstarc.ir.graph import Machine, Program
from mstarc.ir.interpret.evaluate import Evaluator, Scope
from mstarc.ir.interpret.machine import MachineRun
from mstarc.ir.interpret.reads import BLOCKED
from mstarc.ir.interpret.request import Outcome, Request, RequestError
from mstarc.ir.interpret.streams import Channel
from mstarc.ir.interpret.toys import Rows, Toys


def interpret(
    program: Program,
    request: Request,
    *,
    order: Random | None = None,
    bounded: bool = False,
) -> Outcome:
    """What a request gets.

    `order` picks which machine goes on after every statement, and the order of parallel branches;
    without it machines run as far as they can, one after the other. With `bounded`, a stream holds
    no more items than its capacity. Neither may change what the request gets.
    """
    return Interpreter(program, request, order, bounded).run()


class Interpreter:
    """What the machines of one request share; see `machine.Shared`."""

    def __init__(
        self, program: Program, request: Request, order: Random | None, bounded: bool
    ) -> None:
        self.program = program
        self.evaluator = Evaluator(program, request)
        self.order = order
        self.toys = Toys(request.tokens)
        self.nodes = {node.name: node for node in program.nodes}
        self.walks = {walk.name: walk for walk in program.walks}
        self.emits: dict[str, list[Any]] = {output.name: [] for output in program.outputs}
        self.calls: dict[str, int] = {}
        self.contexts: dict[tuple[str, str], Rows] = {}
        self.states: dict[str, list[int]] = {}
        running = {m.name for m in program.machines if self.runs(m)}
        self.channels = {
            stream.name: Channel(
                stream=stream,
                capacity=stream.capacity if bounded else None,
                is_read=stream.consumer in running,
                history=History(closed=stream.producer not in running),
            )
            for stream in program.streams
        }

    def runs(self, machine: Machine) -> bool:
        if machine.condition is None:
            return True
        return bool(self.evaluator.evaluate(machine.condition, Scope()))

    def run(self) -> Outcome:
        error: str | None = None
        stuck: tuple[str, ...] = ()
        try:
            for need in self.program.needs:
                if not self.evaluator.evaluate(need.condition, Scope()):
                    raise RequestError("a need of the request does not hold")
            stuck = self.machines()
        except RequestError as problem:
            error = str(problem)
        return Outcome(
            emits={name: tuple(values) for name, values in self.emits.items()},
            calls=self.calls,
            streams={name: channel.history for name, channel in self.channels.items()},
            error=error,
            stuck=stuck,
        )

    def machines(self) -> tuple[str, ...]:
        """Run all machines; the names of those that cannot go on."""
        live = {
            machine.name: MachineRun(self, machine).steps()
            for machine in self.program.machines
            if self.runs(machine)
        }
        while live:
            moved = False
            for name in self.turns(live):
                while True:
                    try:
                        blocked = next(live[name]) is BLOCKED
                    except StopIteration:
                        del live[name]
                        self.finish(name)
                        moved = True
                        break
                    moved = moved or not blocked
                    if blocked or self.order is not None:
                        break
            if not moved:
                return tuple(sorted(live))
        return ()

    def turns(self, live: Iterable[str]) -> list[str]:
        names = list(live)
        if self.order is not None:
            self.order.shuffle(names)
        return names

    def finish(self, machine: str) -> None:
        for channel in self.channels.values():
            if channel.stream.producer == machine:
                channel.history.closed = True
            if channel.stream.consumer == machine:
                channel.is_read = False
