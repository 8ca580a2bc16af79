"""Device kinds of one's own: over the catalogue's, like one of it, or refused."""

import pytest

from mstarc.deployment import CATALOG, DeviceKind, device_kind, parse_devices, read_deployment
from mstarc.deployment.kinds import read_kinds
from mstarc.diagnostics import DiagnosticSink
from mstarc.source import SourceFile


def read(text: str) -> tuple[tuple[DeviceKind, ...] | None, DiagnosticSink]:
    sink = DiagnosticSink()
    return read_kinds(SourceFile(path="kinds.yaml", text=text), sink), sink


def test_numbers_stand_above_the_catalogue() -> None:
    kinds, _ = read("device_kinds:\n  h200: {memory_bytes: 120.0e9, hop_s: 0}\n")
    assert kinds is not None
    kind = device_kind("H200", kinds)
    assert kind is not None
    assert (kind.name, kind.memory_bytes, kind.hop_s) == ("H200", 120 * 10**9, 0.0)
    usual = device_kind("H200")
    assert usual is not None and kind.matrix_flops_per_s == usual.matrix_flops_per_s
    assert "kinds.yaml" in kind.source
    assert len(kinds) == len(CATALOG)


def test_a_new_kind_is_like_one_that_is_known() -> None:
    kinds, _ = read(
        "device_kinds:\n"
        "  MyCard: {like: L40S, memory_bytes: 64_000_000_000, matrix_flops_per_s: 100e12}\n"
        "  Other: {like: MyCard, price: 0.1}\n"
    )
    assert kinds is not None
    devices = parse_devices("2xmycard+1xOther", kinds)
    assert devices is not None
    assert [kind.memory_bytes for kind in devices.kinds] == [64 * 10**9] * 2
    # Rates of other dtypes were those of the L40S.
    assert devices.kind.flops_per_s("f32") == devices.kind.flops_per_s() == 60e12


@pytest.mark.parametrize(
    ("text", "message", "help_"),
    [
        ("device_kinds:\n  H200: {memory: 1}\n", "no key `memory`", "did you mean"),
        ("device_kinds:\n  H200: {memory_bytes: much}\n", "is a number", ""),
        ("device_kinds:\n  H200: {memory_bytes: 0}\n", "above zero", ""),
        ("device_kinds:\n  H200: {memory_bytes: 1.5}\n", "whole number", ""),
        ("device_kinds:\n  H200: {bandwidth_share: 1.5}\n", "at most 1", ""),
        ("device_kinds:\n  H200: {dtype: f8}\n", "one of f32", ""),
        ("device_kinds:\n  H20: {price: 1}\n", "nothing says what a `H20` is", "`H200`"),
        ("device_kinds:\n  X: {like: H20}\n", "no kind `H20`", "`H200`"),
        ("device_kinds:\n  H200: {price: 1, price: 2}\n", "given twice", ""),
        ("device_kinds: [H200]\n", "a name and numbers", ""),
        ("kinds: {}\n", "no key `kinds`", ""),
        ("", "has the key `device_kinds`", ""),
        ("a: [", "", ""),
    ],
)
def test_what_is_wrong_is_refused(text: str, message: str, help_: str) -> None:
    kinds, sink = read(text)
    assert kinds is None
    (found,) = sink.diagnostics
    assert found.code == "MS0625"
    assert message in found.message
    assert help_ in "\n".join(found.helps)


def test_a_deployment_may_have_kinds_of_its_own() -> None:
    sink = DiagnosticSink()
    text = (
        "model: m\ndevices: 2xBig\ndevice_kinds:\n  Big: {like: H200, memory_bytes: 300.0e9}\n"
        "node_groups: [{node_names: [a], ranks: [0]}]\n"
    )
    deployment = read_deployment(SourceFile(path="d.yaml", text=text), sink)
    assert deployment is not None and deployment.devices is not None
    assert deployment.devices.kind.memory_bytes == 300 * 10**9
    assert device_kind("Big", deployment.kinds) == deployment.devices.kind


def test_mixed_devices_and_hosts() -> None:
    mixed = parse_devices("4xH200 + 2xL40S")
    assert mixed is not None
    assert (mixed.name, mixed.count, mixed.host_count) == ("4xH200+2xL40S", 6, 2)
    assert [mixed.device(rank).name for rank in (0, 3, 4, 5)] == ["H200"] * 2 + ["L40S"] * 2
    sixteen = parse_devices("16xH200")
    assert sixteen is not None
    assert [sixteen.host(rank) for rank in (0, 7, 8, 15)] == [0, 0, 1, 1]
    assert sixteen.link(0, 7).bytes_per_s > sixteen.link(0, 8).bytes_per_s
    assert mixed.link(3, 4).bytes_per_s == min(kind.network_bytes_per_s for kind in mixed.kinds)
    with pytest.raises(IndexError):
        mixed.device(6)


@pytest.mark.parametrize("kind", CATALOG, ids=[kind.name for kind in CATALOG])
def test_every_kind_says_where_its_numbers_are_from(kind: DeviceKind) -> None:
    assert kind.source
    assert 0 < kind.bandwidth_share <= 1 and 0 < kind.matrix_share <= 1
    assert kind.network_bytes_per_s <= kind.link_bytes_per_s or not kind.is_cpu
