"""What the ranks of a group do together with tensors: gloo between CPUs, NCCL between GPUs.

The members meet through a file in the private folder of the run. Each group has a process group of
its own, so that groups that share a rank do not wait for one another.
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import Tensor

# Groups are made one by one, not split off one that all processes share; the library's stubs do not
# tell of these classes.
dist: Any = torch.distributed
# A member that has failed ends within seconds, and the others' calls with it; this is only longer
# than any step may take.
_TIMEOUT = timedelta(minutes=10)


class ProcessGroup:
    """One member's end of a group of processes."""

    def __init__(self, folder: Path, name: str, *, index: int, count: int, device: torch.device):
        store = dist.FileStore(str(folder / f"group-{name}"), count)
        self._count = count
        self._group: Any = (
            _nccl(store, index, count, device)
            if device.type == "cuda"
            else _gloo(store, index, count)
        )

    def sum(self, value: Tensor) -> Tensor:
        value = value.contiguous()
        self._group.allreduce([value]).wait()
        return value

    def broadcast(self, value: Tensor) -> Tensor:
        """The first member's value, into `value` of the others."""
        options = dist.BroadcastOptions()
        options.rootRank, options.rootTensor = 0, 0
        self._group.broadcast([value], options).wait()
        return value

    def gather(self, value: Tensor) -> list[Tensor]:
        value = value.contiguous()
        made = [torch.empty_like(value) for _ in range(self._count)]
        self._group.allgather([made], [value]).wait()
        return made


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
