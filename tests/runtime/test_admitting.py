"""A request begins while the device is busy with others: nothing of it may wait for the device.

A number that is assigned to a place of a tensor is copied there from the host, and such a copy
waits. What fills a place in does not.
"""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mstarc_runtime.engine.options import OptionTable
from mstarc_runtime.engine.passes import Table
from mstarc_runtime.layers.sampler import SamplerState, SamplingSettings

CPU = torch.device("cpu")


class _Operations(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def test_options_are_filled_in() -> None:
    table = OptionTable(slots=3, device=CPU)
    slots = torch.tensor([0, 2])
    table.admit(0, {"steps": 10, "scale": 1.5, "loud": True})
    for name in ("steps", "scale", "loud"):
        table.take(name, slots)
    with _Operations() as found:
        table.admit(2, {"steps": 4, "scale": 0.5})
    assert found.names.count("fill_") == 2
    assert "copy_" not in found.names
    assert table.take("steps", slots).tolist() == [10, 4]
    assert table.take("scale", slots).tolist() == [1.5, 0.5]
    assert table.take("loud", slots).tolist() == [True, False]


def test_what_a_request_asks_like_the_one_before_is_not_written_again() -> None:
    options = OptionTable(slots=1, device=CPU)
    sampler = SamplerState(slots=1, vocab=8, device=CPU, mode="greedy")
    table = Table("t", "f32", capacity=4, slots=1, device=CPU)
    slots = torch.tensor([0])
    for seed in (0, 5):
        options.admit(0, {"steps": 10, "seed": seed})
        options.take("steps", slots)
        options.take("seed", slots)
        sampler.admit(0, SamplingSettings(seed=seed))
        table.admit(0, {"t": [1.0, 0.5]})
    options.release(0)
    with _Operations() as found:
        options.admit(0, {"steps": 10, "seed": 5})
        sampler.admit(0, SamplingSettings(seed=5))
        table.admit(0, {"t": [1.0, 0.5]})
    assert found.names == []
    options.admit(0, {"steps": 3, "seed": 5})
    table.admit(0, {"t": [1.0, 0.75]})
    assert options.take("steps", slots).tolist() == [3]
    assert table._rows[0].tolist() == [1.0, 0.75, 0.0, 0.0, 0.0]


def test_settings_of_samplers_are_filled_in() -> None:
    sampler = SamplerState(slots=2, vocab=8, device=CPU, penalised=True)
    sampler.observe(torch.tensor([1]), torch.tensor([3]))
    settings = SamplingSettings(
        temperature=0.5, top_k=3, top_p=0.9, repetition_penalty=1.5, seed=(1 << 63) + 5
    )
    with _Operations() as found:
        sampler.admit(1, settings)
    assert "fill_" in found.names
    assert "copy_" not in found.names
    assert sampler.state(1) is None, "nothing is seen or drawn"
