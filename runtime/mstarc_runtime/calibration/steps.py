"""What a step costs besides the calls in it: its batch, its registers, the loop's test, the flags.

A step of eight requests that calls nothing: it takes a token from a register, tests it, puts it
back and is read back, as a decode step does around its op.
"""

import time

import numpy as np
import torch

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.options import OptionTable
from mstarc_runtime.engine.storage import Register
from mstarc_runtime.plan_api import DeviceStep

ROWS = 8
RUNS = 50


def measure_step(device: torch.device) -> float:
    """Seconds of a step without a call, the least of several."""
    step = DeviceStep(id=0, name="empty", run=_nothing, nodes=(), rows="one", then=0, line=0)
    options = OptionTable(slots=ROWS, device=device)
    batch = StepBatch(step, ROWS, padding_slot=ROWS, device=device, options=options)
    batch.bind(np.arange(ROWS, dtype=np.int64))
    batch.allow_all()
    register = Register("token", "i64", (), slots=ROWS, device=device)
    times = []
    for _ in range(RUNS):
        started = time.perf_counter()
        batch.begin()
        value = register.take(batch)
        register.put(batch, value)
        batch.more(value != 1)
        batch.end()
        batch.begin_read_back()
        batch.end_read_back()
        batch.flags_are_expected()
        batch.host_flags().copy()
        times.append(time.perf_counter() - started)
    return min(times)


def _nothing(*_: object) -> None:
    """A body without a call."""
