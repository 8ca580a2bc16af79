"""Random weights depend on names alone, and keep activations finite."""

import torch
from torch import nn

from mstarc_runtime.weights.counter import normal, seed_of, uniform
from mstarc_runtime.weights.random import randomise

CPU = torch.device("cpu")


def _net(*, swapped: bool = False) -> nn.Module:
    net = nn.Module()
    layers = {"first": nn.Linear(8, 8), "second": nn.Linear(8, 8)}
    for name in sorted(layers, reverse=swapped):
        net.add_module(name, layers[name])
    return net


def test_a_parameter_depends_on_its_name_and_the_seed_and_not_on_the_order() -> None:
    one, other, third = _net(), _net(swapped=True), _net()
    randomise(one, seed=1)
    randomise(other, seed=1)
    randomise(third, seed=2)
    for name, value in one.named_parameters():
        assert torch.equal(value, other.get_parameter(name))
        assert not torch.equal(value, third.get_parameter(name))
    assert not torch.equal(one.get_parameter("first.weight"), one.get_parameter("second.weight"))


def test_meta_parameters_get_the_same_values() -> None:
    one = _net()
    with torch.device("meta"):
        other = _net()
    randomise(one)
    randomise(other)
    assert torch.equal(one.get_parameter("first.weight"), other.get_parameter("first.weight"))


def test_activations_stay_finite_and_of_order_one_through_many_layers() -> None:
    net = nn.Sequential(*(m for _ in range(40) for m in (nn.Linear(64, 64), nn.LayerNorm(64))))
    randomise(net)
    out = net(torch.randn(4, 64, generator=torch.Generator().manual_seed(0)))
    assert torch.isfinite(out).all()
    assert 0.1 < out.std() < 10


def test_the_counter_gives_the_same_numbers_in_pieces_and_as_a_whole() -> None:
    whole = uniform(5, 100, CPU)
    pieces = torch.cat([uniform(5, 30, CPU), uniform(5, 70, CPU, start=30)])
    assert torch.equal(whole, pieces)
    assert 0 <= whole.min() < whole.max() < 1


def test_the_counter_is_splitmix64() -> None:
    # The published first outputs for the seed 1234567.
    outputs = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    expected = torch.tensor([(value >> 40) / 2**24 for value in outputs], dtype=torch.float32)
    assert torch.equal(uniform(1234567, 3, CPU), expected)


def test_normal_numbers_have_the_right_moments() -> None:
    values = normal(seed_of("noise"), 100_001, CPU)
    assert len(values) == 100_001
    assert abs(values.mean()) < 0.02
    assert abs(values.std() - 1) < 0.02
