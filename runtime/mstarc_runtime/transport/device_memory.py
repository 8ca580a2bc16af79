"""Memory of a GPU that another process on this machine can write: a tensor there, an address here.

`lend` describes a tensor in bytes that can be sent; `borrow` gives the address that the same memory
has for kernels of this process's own device. CUDA's inter-process handles are whole allocations, so
a tensor's place in its one is told as well.

Source: CUDA driver API, "Unified Addressing" and `cuIpcOpenMemHandle`.
"""

import ctypes
import functools
import struct
from typing import Any

import torch
from torch import Tensor

_HANDLE_BYTES = 64
_PEERS_LAZILY = 1


class _Handle(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_byte * _HANDLE_BYTES),)


class DeviceMemoryError(Exception):
    """The driver does not lend, or does not let in."""


@functools.cache
def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def can_reach(own: int, other: int) -> bool:
    """Whether kernels of CUDA device `own` can write memory of device `other`."""
    return own == other or torch.cuda.can_device_access_peer(own, other)


def lend(tensor: Tensor) -> bytes:
    """What `borrow` in another process takes. The tensor must stay."""
    assert tensor.is_contiguous() and tensor.device.type == "cuda"
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    address = ctypes.c_uint64(tensor.data_ptr())
    _check(
        _driver().cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), address),
        "find an allocation",
    )
    handle = _Handle()
    _check(_driver().cuIpcGetMemHandle(ctypes.byref(handle), base), "lend memory")
    return bytes(handle) + struct.pack("<Q", tensor.data_ptr() - base.value)


class Borrowed:
    """Allocations of other processes that are open in this one, on its device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._open: dict[bytes, int] = {}

    def borrow(self, lent: bytes) -> int:
        """The address of what was lent, for kernels of this device."""
        content, (shift,) = lent[:_HANDLE_BYTES], struct.unpack("<Q", lent[_HANDLE_BYTES:])
        if content not in self._open:
            address = ctypes.c_uint64()
            with torch.cuda.device(self._device):
                # So that the device's context is the one that memory is opened in.
                torch.cuda.current_stream().synchronize()
                opened = _driver().cuIpcOpenMemHandle_v2(
                    ctypes.byref(address), _Handle.from_buffer_copy(content), _PEERS_LAZILY
                )
            _check(opened, "open memory of another process")
            self._open[content] = address.value
        return self._open[content] + int(shift)


class DeviceInbox:
    """Memory of a device, an allocation of its own, and what other devices have of the kind.

    It stays for as long as the process does. Fails with DeviceMemoryError.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._borrowed = Borrowed(device)
        self._address = ctypes.c_uint64()

    def make(self, words: int) -> bytes:
        """`words` i64 of zeros: what `open` takes on another rank."""
        size, handle = ctypes.c_size_t(8 * words), _Handle()
        with torch.cuda.device(self._device):
            torch.cuda.current_stream().synchronize()
            made = _driver().cuMemAlloc_v2(ctypes.byref(self._address), size)
            _check(made, "allocate memory")
            _check(_driver().cuMemsetD8_v2(self._address, 0, size), "clear memory")
            torch.cuda.synchronize()
        lent = _driver().cuIpcGetMemHandle(ctypes.byref(handle), self._address)
        _check(lent, "lend memory")
        return bytes(handle) + struct.pack("<Q", 0) + struct.pack("<q", self._device.index or 0)

    def own(self) -> int:
        """Its address."""
        return self._address.value

    def open(self, lent: bytes) -> int:
        """The address, for kernels of this device, of what another rank lends."""
        place, (other,) = lent[:-8], struct.unpack("<q", lent[-8:])
        own = self._device.index or 0
        if not can_reach(own, other):
            raise DeviceMemoryError(f"device {own} can't write to device {other}")
        return self._borrowed.borrow(place)


def _check(result: int, doing: str) -> None:
    if result != 0:
        raise DeviceMemoryError(f"CUDA can't {doing}: error {result}")
