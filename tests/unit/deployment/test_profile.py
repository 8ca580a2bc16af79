"""Profiles: written, read back, and asked for calls between the measured ones."""

import pytest

from mstarc.deployment import CATALOG, device_kind
from mstarc.deployment.profile import (
    MeasuredProfile,
    OpPoint,
    print_profile,
    read_profile,
    with_facts,
)
from mstarc.diagnostics import DiagnosticSink
from mstarc.source import SourceFile

PROFILE = MeasuredProfile(
    model="speech",
    device="cpu",
    facts={"bandwidth_bytes_per_s": 1.5e10, "hop_s": 3e-5},
    weights={"lm": 1000},
    ops={
        ("lm", "step"): tuple(
            OpPoint(batch=batch, rows=1, context=64, seconds=seconds)
            for batch, seconds in ((1, 1e-3), (4, 4e-3))
        ),
        ("lm", "prefill"): tuple(
            OpPoint(batch=1, rows=rows, context=0, seconds=rows * 1e-4) for rows in (16, 256)
        ),
    },
)
CPU = device_kind("cpu")


def read(text: str) -> tuple[MeasuredProfile | None, DiagnosticSink]:
    sink = DiagnosticSink()
    return read_profile(SourceFile(path="p.yaml", text=text), CATALOG, sink), sink


def test_what_is_written_is_read() -> None:
    found, _ = read(print_profile(PROFILE))
    assert found == PROFILE


@pytest.mark.parametrize(
    ("op", "batch", "rows", "expected"),
    [
        ("step", 1, 1, (1e-3, (1, 1))),
        ("step", 2, 1, (2e-3, (2, 1))),  # on the line between
        ("step", 64, 1, (4e-3, (4, 1))),  # the nearest: what it is of is said
        ("prefill", 1, 20, (16e-4, (1, 16))),
        ("prefill", 1, 200, (256e-4, (1, 256))),
    ],
)
def test_seconds_of_calls_near_the_measured_ones(
    op: str, batch: int, rows: int, expected: tuple[float, tuple[int, int]]
) -> None:
    assert CPU is not None
    found = PROFILE.op_seconds(CPU, "lm", op, batch=batch, rows=rows)
    assert found is not None
    assert found[0] == pytest.approx(expected[0])
    assert found[1] == expected[1]


def test_another_kind_or_op_was_not_measured() -> None:
    h200 = device_kind("H200")
    assert CPU is not None and h200 is not None
    assert PROFILE.op_seconds(h200, "lm", "step", batch=1, rows=1) is None
    assert PROFILE.op_seconds(CPU, "lm", "other", batch=1, rows=1) is None


def test_facts_stand_above_the_kind() -> None:
    h200 = device_kind("H200")
    assert CPU is not None and h200 is not None
    measured = with_facts(CPU, PROFILE)
    assert (measured.read_bytes_per_s, measured.hop_s) == (1.5e10, 3e-5)
    assert measured.matrix_flops_per_s == CPU.matrix_flops_per_s
    assert with_facts(h200, PROFILE) == h200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("device: cpu\n", "no `model`"),
        ("model: m\n", "no `device`"),
        ("model: m\ndevice: gpu\n", "no device kind `gpu`"),
        ("model: m\ndevice: cpu\nfact: {}\n", "no key `fact`"),
        ("model: m\ndevice: cpu\nfacts: {hops: 1}\n", "no key `hops`"),
        ("model: m\ndevice: cpu\nfacts: {hop_s: -1}\n", "above zero"),
        ("model: m\ndevice: cpu\nweights: {a: many}\n", "above zero"),
        ("model: m\ndevice: cpu\nops: {a: [{batch: 1, seconds: 1}]}\n", "`a` is no op"),
        ("model: m\ndevice: cpu\nops: {a.b: []}\n", "a list of measured calls"),
        ("model: m\ndevice: cpu\nops: {a.b: [{batch: 1}]}\n", "has a `seconds`"),
        ("model: m\ndevice: cpu\nops: {a.b: [{batch: 1, seconds: 0}]}\n", "above zero"),
        ("[", ""),
    ],
)
def test_what_is_wrong_is_refused(text: str, message: str) -> None:
    found, sink = read(text)
    assert found is None
    assert {diagnostic.code for diagnostic in sink.diagnostics} == {"MS0626"}
    assert message in sink.diagnostics[0].message
