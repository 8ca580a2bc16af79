"""Rotary positions: their geometry, and scalings as config.json names them."""

import pytest
import torch

from mstarc_runtime.layers.rope import Llama3Scaling, Rope, RopeSettings, frequencies


def test_neighbours_are_halves_in_another_order() -> None:
    x = torch.randn(3, 2, 8, generator=torch.Generator().manual_seed(0))
    positions = torch.tensor([0, 7, 63])
    halves = Rope(RopeSettings(head_dim=8, theta=1e4, positions=64))
    neighbours = Rope(RopeSettings(head_dim=8, theta=1e4, positions=64, pairing="neighbours"))
    mixed = torch.stack(x.chunk(2, dim=-1), dim=-1).flatten(-2)
    expected = halves.turn(x, halves.angles(positions))
    made = neighbours.turn(mixed, neighbours.angles(positions))
    torch.testing.assert_close(made, torch.stack(expected.chunk(2, -1), -1).flatten(-2))


def test_position_zero_changes_nothing_and_lengths_stay() -> None:
    rope = Rope(RopeSettings(head_dim=16, theta=1e4, positions=64))
    x = torch.randn(2, 3, 16, generator=torch.Generator().manual_seed(0))
    turned = rope.turn(x, rope.angles(torch.tensor([0, 41])))
    assert torch.equal(turned[0], x[0])
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))


def test_the_product_of_two_depends_on_their_distance() -> None:
    rope = Rope(RopeSettings(head_dim=16, theta=1e4, positions=64))
    x = torch.randn(1, 2, 16, generator=torch.Generator().manual_seed(0))

    def product(first: int, second: int) -> torch.Tensor:
        q = rope.turn(x[:, :1], rope.angles(torch.tensor([first])))
        k = rope.turn(x[:, 1:], rope.angles(torch.tensor([second])))
        return (q * k).sum()

    torch.testing.assert_close(product(3, 10), product(40, 47), rtol=1e-4, atol=1e-5)


def test_llama3_keeps_fast_rotations_and_stretches_slow_ones() -> None:
    plain = RopeSettings(head_dim=128, theta=5e5, positions=64)
    scaling = Llama3Scaling(
        factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, original_positions=8192
    )
    scaled = RopeSettings(head_dim=128, theta=5e5, positions=64, llama3=scaling)
    before, after = frequencies(plain), frequencies(scaled)
    assert torch.equal(after[:10], before[:10])
    torch.testing.assert_close(after[-10:], before[-10:] / 32)
    assert (after.diff() < 0).all()


@pytest.mark.parametrize(
    "config",
    [
        {"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2.0}},
        {"rope_parameters": {"rope_theta": 5e5, "rope_type": "linear", "factor": 2.0}},
    ],
    ids=["older", "newer"],
)
def test_older_and_newer_keys_mean_the_same(config: dict[str, object]) -> None:
    settings = RopeSettings.from_config(config, head_dim=8)
    assert (settings.theta, settings.linear, settings.positions) == (5e5, 2.0, 2048)
