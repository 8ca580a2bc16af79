"""Which pass of a loop rows are in, counted on by the device from pass to pass."""

import numpy as np
import torch

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.options import OptionTable
from mstarc_runtime.engine.passes import Table
from mstarc_runtime.plan_api import DeviceStep

CPU = torch.device("cpu")
SLOTS = 4


def test_padding_never_asks_for_an_entry_that_no_table_has() -> None:
    """However many requests a batch has served, and a table's end is an error on the device."""
    step = DeviceStep(
        id=0,
        name="main.pass",
        run=lambda *_: None,
        nodes=(),
        rows="fixed",
        passes=("main.loop",),
        then=0,
        line=1,
    )
    options = OptionTable(slots=SLOTS, device=CPU)
    batch = StepBatch(step, 4, padding_slot=SLOTS, device=CPU, options=options)
    table = Table("t", "f32", capacity=5, slots=SLOTS, device=CPU)
    for slot in range(3):
        table.admit(slot, {"t": [slot + number / 10 for number in range(5)]})
    batch.bind(np.arange(3, dtype=np.int64))
    for _ in range(3):
        batch.set_passes("main.loop", np.zeros(3, dtype=np.int64))
        for number in range(5):
            entries = table.at(batch, batch.pass_numbers("main.loop"))
            torch.testing.assert_close(entries[:3], torch.arange(3.0) + number / 10)
            batch.next_pass()
