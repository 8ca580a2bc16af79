"""What the ranks of a group do together with tensors: gloo between CPUs, NCCL between GPUs.

The members meet through a file in the private folder of the run. Each group has a process group of
its own, so that groups that share a rank do not wait for one another. Between GPUs that can write
into one another's memory a few numbers go by a kernel of our own instead (`kernels.exchange`):
NCCL takes several times as long for them. Which way they go depends on their number and type.

A group is not taken down. NCCL's part of a captured graph is that of its communicator, which waits
for the graphs to be gone, and for the other ranks; a process that ends frees both (`rank_main`).
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import Tensor

from mstarc_runtime.transport.device_memory import DeviceInbox
from mstarc_runtime.transport.inboxes import Inboxes, agree

# Groups are made one by one, not split off one that all processes share; the library's stubs do not
# tell of these classes.
dist: Any = torch.distributed
# A member that has failed ends within seconds, and the others' calls with it; this is only longer
# than any step may take.
_TIMEOUT = timedelta(minutes=10)
_SUMMED = (torch.float32, torch.bfloat16, torch.float16)


class ProcessGroup:
    """One member's end of a group of processes.

    `is_direct`: whether GPUs may write into one another's memory. The members meet when they put
    something together for the first time: a device that waits for a rank which has other things to
    do, weights to read and kernels to compile, would hold both up. Then people are told which way a
    few numbers go, and why.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        index: int,
        count: int,
        device: torch.device,
        is_direct: bool = True,
        say: Callable[[str], None] = lambda text: None,
    ):
        self._store = dist.FileStore(str(folder / f"group-{name}"), count)
        self._store.set_timeout(_TIMEOUT)
        self._name, self._index, self._count = name, index, count
        self._device, self._is_direct, self._say = device, is_direct, say
        self._inboxes: Inboxes | None = None
        self._is_alone = True
        self._has_met = device.type == "cpu"
        self._group: Any = (
            _gloo(self._store, index, count)
            if self._has_met
            else _nccl(self._store, index, count, device)
        )

    def inboxes(self, numbers: int) -> Inboxes | None:
        """By what kernels tell so many numbers; None where NCCL or gloo does."""
        if not self._has_met:
            self._meet()
        found = self._inboxes
        return found if found is not None and 0 < numbers <= found.most else None

    def share_device(self) -> None:
        """Other groups' kernels are waited for on this device as well."""
        self._is_alone = False
        if self._inboxes is not None:
            self._inboxes.is_alone = False

    def sum(self, value: Tensor) -> Tensor:
        value = value.contiguous()
        inboxes = self.inboxes(value.numel())
        if inboxes is not None and value.dtype in _SUMMED:
            # Here, because the kernel's compiler comes with torch for GPUs only.
            from mstarc_runtime.kernels.joined_rows import SUM, exchange

            return exchange(value, inboxes, SUM)
        self._group.allreduce([value]).wait()
        return value

    def broadcast(self, value: Tensor) -> Tensor:
        """The first member's value, into `value` of the others."""
        assert value.is_contiguous(), "it is written where it is"
        inboxes = self.inboxes(_words(value))
        if inboxes is not None:
            from mstarc_runtime.kernels.joined_rows import FIRST, exchange

            return exchange(value, inboxes, FIRST)
        return self._told(value)

    def gather(self, value: Tensor) -> list[Tensor]:
        value = value.contiguous()
        inboxes = self.inboxes(_words(value))
        if inboxes is not None:
            from mstarc_runtime.kernels.joined_rows import ALL, exchange

            return list(exchange(value, inboxes, ALL).unbind())
        made = [torch.empty_like(value) for _ in range(self._count)]
        self._group.allgather([made], [value]).wait()
        return made

    def _told(self, value: Tensor) -> Tensor:
        options = dist.BroadcastOptions()
        options.rootRank, options.rootTensor = 0, 0
        self._group.broadcast([value], options).wait()
        return value

    def _meet(self) -> None:
        self._has_met = True
        device = self._device
        assert not torch.cuda.is_current_stream_capturing(), "first runs come before captures"
        found: Inboxes | str = "`--joins nccl`"
        if self._is_direct:
            found = agree(
                self._store,
                DeviceInbox(device),
                index=self._index,
                count=self._count,
                device=device,
            )
        # A graph holds calls of NCCL, which are not to be its first.
        self._told(torch.zeros(1, device=device))
        torch.cuda.current_stream(device).synchronize()
        if isinstance(found, str):
            self._say(f"shards {self._name} are joined by NCCL: {found}")
            return
        found.is_alone = self._is_alone
        self._inboxes = found
        # Their kernels are there before a graph holds them: calls that are not captured give
        # their arguments through the host.
        for dtype in (torch.int8, torch.int16, torch.int32):
            self.broadcast(torch.zeros(1, dtype=dtype, device=device))
        self._say(
            f"shards {self._name} are joined from device to device, "
            f"by NCCL above {found.most} numbers"
        )


def _words(value: Tensor) -> int:
    """Words of 32 bits that an exchange takes; one for a number of less."""
    return value.numel() * max(1, value.element_size() // 4)


def _gloo(store: Any, index: int, count: int) -> Any:
    options = dist.ProcessGroupGloo._Options()
    # All processes of a run are on one machine.
    options._devices = [dist.ProcessGroupGloo.create_device(hostname="127.0.0.1")]
    options._timeout = _TIMEOUT
    return dist.ProcessGroupGloo(store, index, count, options)


def _nccl(store: Any, index: int, count: int, device: torch.device) -> Any:
    torch.cuda.set_device(device)
    options = dist.ProcessGroupNCCL.Options()
    options._timeout = _TIMEOUT
    return dist.ProcessGroupNCCL(store, index, count, options)
