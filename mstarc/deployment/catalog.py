"""The device catalogue: what each kind of device holds and how fast it is.

Public data sheets; memory in bytes as sold (10^9), rates for dense bf16. The numbers of `cpu` are
what one rank may take, not what a machine has.
"""

import re

from mstarc.ir.types import DType
from mstarc.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceKind:
    """One kind of device. `dtype` is what weights and KV rows are kept in.

    `max_requests` and `max_tokens` are the defaults for a placement that names none: how many
    requests run at once, and how many rows a context of one may hold.
    """

    name: str
    memory_bytes: int
    bandwidth_bytes_per_s: float
    matrix_flops_per_s: float
    link_bytes_per_s: float
    hop_s: float
    dtype: DType
    max_requests: int
    max_tokens: int


def _gpu(name: str, gigabytes: int, bandwidth: float, flops: float, link: float) -> DeviceKind:
    return DeviceKind(
        name=name,
        memory_bytes=gigabytes * 10**9,
        bandwidth_bytes_per_s=bandwidth,
        matrix_flops_per_s=flops,
        link_bytes_per_s=link,
        hop_s=50e-6,
        dtype="bf16",
        max_requests=64,
        max_tokens=8192,
    )


CATALOG: tuple[DeviceKind, ...] = (
    DeviceKind(
        name="cpu",
        memory_bytes=32 * 2**30,
        bandwidth_bytes_per_s=20e9,
        matrix_flops_per_s=0.2e12,
        link_bytes_per_s=5e9,
        hop_s=100e-6,
        dtype="f32",
        max_requests=8,
        max_tokens=2048,
    ),
    _gpu("A100", 80, 2.0e12, 312e12, 300e9),
    _gpu("B200", 192, 8.0e12, 2250e12, 900e9),
    _gpu("H100", 80, 3.35e12, 989e12, 450e9),
    _gpu("H200", 141, 4.8e12, 989e12, 450e9),
    _gpu("L40S", 48, 0.864e12, 362e12, 32e9),
    _gpu("MI300X", 192, 5.3e12, 1307e12, 448e9),
    _gpu("RTX4090", 24, 1.008e12, 165e12, 32e9),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """`count` devices of one kind, ranks 0 to count - 1. `name` is as the user wrote it."""

    name: str
    kind: DeviceKind
    count: int


def device_kind(name: str) -> DeviceKind | None:
    """The kind with this name, in any case."""
    return next((kind for kind in CATALOG if kind.name.lower() == name.lower()), None)


_TARGET = re.compile(r"(?:(?P<count>[0-9]+)x)?(?P<kind>[A-Za-z][A-Za-z0-9]*)")


def parse_devices(text: str) -> Devices | None:
    """`cpu`, `3xcpu`, `2xH200`; None where the form, the count or the kind is unknown.

    >>> parse_devices("2xH200").count
    2
    """
    match = _TARGET.fullmatch(text)
    kind = device_kind(match["kind"]) if match is not None else None
    if match is None or kind is None:
        return None
    count = int(match["count"] or 1)
    if not 1 <= count <= 1024:
        return None
    name = f"{count}x{kind.name}" if count > 1 or kind.name != "cpu" else kind.name
    return Devices(name=name, kind=kind, count=count)
