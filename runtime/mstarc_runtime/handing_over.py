"""What ranks have sent → what a request's listener is told."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from mstarc_runtime.active import ActiveRequest, Listener
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.frames import Frame, tensor_of
from mstarc_runtime.loader import Declared
from mstarc_runtime.messages import Broken, Failed, OutputPart
from mstarc_runtime.plan_api import Audio


def rows_of(part: OutputPart, frame: Frame) -> Iterator[tuple[int, Any]]:
    """(slot, value) of each request in a part of a step's output."""
    total = len(part.slots) if part.counts is None else sum(part.counts)
    rows = tensor_of(frame, part.dtype, (total, *part.dims))
    values = rows.unbind(0) if part.counts is None else rows.split(list(part.counts))
    return zip(part.slots, values, strict=True)


def hand_over(listener: Listener, output: Declared, value: Any) -> None:
    """Tells a listener of a value of an output that is no tokens."""
    if isinstance(value, str):
        listener.text(output.name, value)
    elif isinstance(value, Audio):
        listener.sound(output.name, np.asarray(value.samples, np.float32), value.rate)
    elif output.type.startswith("audio("):
        rate = int(output.type[len("audio(") : -1])
        samples = np.asarray(value, dtype=np.float32).reshape(-1)
        listener.sound(output.name, samples, rate)
    else:
        listener.value(output.name, value)


def tell_end(request: ActiveRequest) -> None:
    """Says to whom a request was done for how it has ended, once."""
    if request.is_told:
        return
    request.is_told = True
    if request.is_cancelled:
        request.listener.cancelled()
    elif request.failure is not None:
        request.listener.failed(request.failure)
    else:
        request.listener.finished()


def failure_of(message: Broken | Failed) -> RuntimeFailure:
    """Why a process, or a request, can't go on."""
    code = message.code or "MS9301"
    return RuntimeFailure(code, message.message, notes=message.notes, helps=message.helps)


def via_failure(output: Declared, error: BaseException) -> RuntimeFailure:
    """MS9304: the op that makes an output's text has failed."""
    assert output.via is not None
    node, op = output.via
    if isinstance(error, RuntimeFailure):
        return error
    return RuntimeFailure(
        "MS9304",
        f"`{node}.{op}` failed: {type(error).__name__}: {error}",
        notes=[f"it makes the text of the output `{output.name}`"],
    )
