"""The device catalogue: what each kind of device holds, how fast it is, how devices are linked.

Memory in bytes as sold (10^9), rates as on the vendor's public data sheet: dense, without sparsity,
one direction of a link. `bandwidth_share` and `matrix_share` are what a well-made kernel reaches of
the sheet's figures. That of the H200's memory is measured: a read of all of it runs at 4.3 of 4.8
TB/s, library matmuls of one step of a 3B decoder at 73 % of that, so 0.65; the others are taken to
be like it, and 0.6 of the matrix rate is what large matmuls usually reach. The numbers of `cpu`
are what one rank may take, not what a machine has. All of them can be overridden: a deployment
or `--devices FILE` gives `device_kinds`.
"""

import re
from collections.abc import Sequence
from math import ceil

from mstarc.ir.types import DType
from mstarc.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceKind:
    """One kind of device. `dtype` is what weights and KV rows are kept in.

    `matrix_flops_per_s` is for `dtype`; `rates` has other dtypes. `link_bytes_per_s` and `hop_s`
    are between devices of one host, `network_…` between hosts of `devices_per_host` devices.
    `launch_s` is what one step costs besides its work: a graph launch, the host's part.
    `shard_call_s` is what a call of a node in shards costs the hosts besides: its first rank tells
    the others, and on CPUs waits for them to get ready; graphs are launched ahead.
    `price` is relative to an hour of one H200. `max_requests` and `max_tokens` are the defaults for
    a placement that names none: how many requests run at once, and how many rows a context of one
    may hold. `source` says where the numbers come from.
    """

    name: str
    memory_bytes: int
    bandwidth_bytes_per_s: float
    matrix_flops_per_s: float
    rates: tuple[tuple[DType, float], ...] = ()
    bandwidth_share: float = 1.0
    matrix_share: float = 1.0
    launch_s: float = 0.0
    shard_call_s: float = 0.0
    link_bytes_per_s: float
    hop_s: float
    network_bytes_per_s: float
    network_s: float
    devices_per_host: int
    price: float
    dtype: DType
    max_requests: int
    max_tokens: int
    source: str

    @property
    def is_cpu(self) -> bool:
        """Whether ranks are processes on the host itself: no graphs, memory shared with others."""
        return self.name == "cpu"

    def flops_per_s(self, dtype: DType | None = None) -> float:
        """What matmuls reach in `dtype`, by default that of the weights."""
        rate = dict(self.rates).get(dtype, self.matrix_flops_per_s) if dtype else None
        return (rate or self.matrix_flops_per_s) * self.matrix_share

    @property
    def read_bytes_per_s(self) -> float:
        """What kernels reach of the memory's bandwidth."""
        return self.bandwidth_bytes_per_s * self.bandwidth_share


# Measured by benchmarks/shard_steps.py on a host of two cores: on CPUs what the first rank says,
# 105 µs, and what the other does with it, 407 µs; on GPUs what the first says a pass of stretches
# of 4 (`--captured`), 21 µs, on the same host.
SHARD_CALL_S = {True: 512e-6, False: 21e-6}


def _gpu(
    name: str,
    source: str,
    *,
    gigabytes: int,
    terabytes_per_s: float,
    bf16: float,
    tf32: float,
    link_gigabytes: float,
    price: float,
    per_host: int = 8,
    network_gigabytes: float = 50,
) -> DeviceKind:
    return DeviceKind(
        name=name,
        memory_bytes=gigabytes * 10**9,
        bandwidth_bytes_per_s=terabytes_per_s * 1e12,
        matrix_flops_per_s=bf16 * 1e12,
        rates=(("bf16", bf16 * 1e12), ("f16", bf16 * 1e12), ("f32", tf32 * 1e12)),
        bandwidth_share=0.65,
        matrix_share=0.6,
        launch_s=30e-6,
        shard_call_s=SHARD_CALL_S[False],
        link_bytes_per_s=link_gigabytes * 1e9,
        hop_s=50e-6,
        network_bytes_per_s=network_gigabytes * 1e9,
        network_s=100e-6,
        devices_per_host=per_host,
        price=price,
        dtype="bf16",
        max_requests=64,
        max_tokens=8192,
        source=source,
    )


CATALOG: tuple[DeviceKind, ...] = (
    DeviceKind(
        name="cpu",
        memory_bytes=32 * 2**30,
        bandwidth_bytes_per_s=20e9,
        matrix_flops_per_s=0.2e12,
        launch_s=50e-6,
        shard_call_s=SHARD_CALL_S[True],
        link_bytes_per_s=5e9,
        hop_s=100e-6,
        network_bytes_per_s=1.25e9,
        network_s=200e-6,
        devices_per_host=1024,
        price=0.02,
        dtype="f32",
        max_requests=8,
        max_tokens=2048,
        source="a share of a server's socket; measure yours with `mstarc bench --calibrate`",
    ),
    _gpu(
        "A100",
        "NVIDIA A100 80GB SXM data sheet; NVLink 3, 600 GB/s both ways",
        gigabytes=80,
        terabytes_per_s=2.039,
        bf16=312,
        tf32=156,
        link_gigabytes=300,
        price=0.5,
        network_gigabytes=25,
    ),
    _gpu(
        "B200",
        "NVIDIA DGX B200 data sheet, an eighth of it; NVLink 5, 1.8 TB/s both ways",
        gigabytes=180,
        terabytes_per_s=8.0,
        bf16=2250,
        tf32=1100,
        link_gigabytes=900,
        price=1.7,
    ),
    _gpu(
        "H100",
        "NVIDIA H100 80GB SXM data sheet; NVLink 4, 900 GB/s both ways",
        gigabytes=80,
        terabytes_per_s=3.35,
        bf16=989,
        tf32=494,
        link_gigabytes=450,
        price=0.8,
    ),
    _gpu(
        "H200",
        "NVIDIA H200 SXM data sheet; NVLink 4, 900 GB/s both ways; shares measured",
        gigabytes=141,
        terabytes_per_s=4.8,
        bf16=989,
        tf32=494,
        link_gigabytes=450,
        price=1.0,
    ),
    _gpu(
        "L40S",
        "NVIDIA L40S data sheet; PCIe 4 x16, 64 GB/s both ways",
        gigabytes=48,
        terabytes_per_s=0.864,
        bf16=362,
        tf32=183,
        link_gigabytes=32,
        price=0.3,
        network_gigabytes=25,
    ),
    _gpu(
        "MI300X",
        "AMD Instinct MI300X data sheet; Infinity Fabric, 7 links of 64 GB/s each way",
        gigabytes=192,
        terabytes_per_s=5.3,
        bf16=1307,
        tf32=654,
        link_gigabytes=448,
        price=0.8,
    ),
    _gpu(
        "RTX4090",
        "NVIDIA Ada GPU architecture paper; FP32 accumulate; PCIe 4 x16, 64 GB/s both ways",
        gigabytes=24,
        terabytes_per_s=1.008,
        bf16=165,
        tf32=82.6,
        link_gigabytes=32,
        price=0.12,
        network_gigabytes=3,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Between two devices: bytes a second and seconds before the first arrives."""

    bytes_per_s: float
    latency_s: float

    def seconds(self, size: float) -> float:
        """The time that `size` bytes take from one device to the other."""
        return self.latency_s + size / self.bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """The devices of a cluster, ranks 0 to count - 1. `name` is as the user wrote it.

    `parts` are the kinds in the order of ranks, with the number of each. Devices of one kind fill
    hosts of `devices_per_host`; those of another kind are on other hosts.
    """

    name: str
    parts: tuple[tuple[DeviceKind, int], ...]

    @property
    def kind(self) -> DeviceKind:
        """The kind of rank 0."""
        return self.parts[0][0]

    @property
    def kinds(self) -> tuple[DeviceKind, ...]:
        """Each kind once, in the order of ranks."""
        return tuple(dict.fromkeys(kind for kind, _ in self.parts))

    @property
    def count(self) -> int:
        """How many devices there are."""
        return sum(count for _, count in self.parts)

    @property
    def host_count(self) -> int:
        """How many hosts they fill."""
        return sum(ceil(count / kind.devices_per_host) for kind, count in self.parts)

    def device(self, rank: int) -> DeviceKind:
        """The kind of a rank's device. Raises `IndexError` where there is no such rank."""
        return self._locate(rank)[0]

    def host(self, rank: int) -> int:
        """The number of the host that a rank's device is in."""
        return self._locate(rank)[1]

    def link(self, a: int, b: int) -> Link:
        """The way from one rank's device to another's; the same one costs only its latency."""
        (first, host_a), (second, host_b) = self._locate(a), self._locate(b)
        if host_a == host_b:
            return Link(bytes_per_s=first.link_bytes_per_s, latency_s=first.hop_s)
        return Link(
            bytes_per_s=min(first.network_bytes_per_s, second.network_bytes_per_s),
            latency_s=max(first.network_s, second.network_s),
        )

    def _locate(self, rank: int) -> tuple[DeviceKind, int]:
        before, hosts = 0, 0
        for kind, count in self.parts:
            if before <= rank < before + count:
                return kind, hosts + (rank - before) // kind.devices_per_host
            before += count
            hosts += ceil(count / kind.devices_per_host)
        raise IndexError(rank)


# The word of placement: the same thing, seen as what a layout is searched for.
Cluster = Devices

MOST_DEVICES = 1024


def device_kind(name: str, kinds: Sequence[DeviceKind] = CATALOG) -> DeviceKind | None:
    """The kind with this name, in any case."""
    return next((kind for kind in kinds if kind.name.lower() == name.lower()), None)


_PART = re.compile(r"(?:(?P<count>[0-9]+)x)?(?P<kind>[A-Za-z][A-Za-z0-9_-]*)")


def parse_devices(text: str, kinds: Sequence[DeviceKind] = CATALOG) -> Devices | None:
    """`cpu`, `3xcpu`, `2xH200`, `4xH200+2xL40S`; None where a form, count or kind is unknown.

    >>> parse_devices("2xH200").count
    2
    >>> parse_devices("16xH200").host_count
    2
    """
    parts: list[tuple[DeviceKind, int]] = []
    for part in text.split("+"):
        match = _PART.fullmatch(part.strip())
        kind = device_kind(match["kind"], kinds) if match is not None else None
        if match is None or kind is None:
            return None
        parts.append((kind, int(match["count"] or 1)))
    if any(count < 1 for _, count in parts) or sum(c for _, c in parts) > MOST_DEVICES:
        return None
    only_cpu = len(parts) == 1 and parts[0][0].is_cpu and parts[0][1] == 1
    name = parts[0][0].name if only_cpu else "+".join(f"{c}x{kind.name}" for kind, c in parts)
    return Devices(name=name, parts=tuple(parts))
