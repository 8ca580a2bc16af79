"""Bytes of each node's weights, by building its module on the meta device: no memory, no values."""

from typing import Any

import torch

from mstarc_runtime.calibration.modules import built
from mstarc_runtime.engine.dtypes import torch_dtype


def weigh(job: dict[str, Any]) -> dict[str, int]:
    """Bytes by node, of those whose module can be built from its config."""
    found: dict[str, int] = {}
    for node in job["nodes"]:
        if node["engine"] == "host":
            continue
        module = built(node, dtype=torch_dtype(job["dtype"]), device=torch.device("meta"))
        if module is not None:
            found[node["name"]] = bytes_of(module)
    return found


def bytes_of(module: torch.nn.Module) -> int:
    """Bytes of all parameters and buffers of a module."""
    tensors = [*module.parameters(), *module.buffers()]
    unique = {id(tensor): tensor for tensor in tensors}
    return sum(tensor.numel() * tensor.element_size() for tensor in unique.values())
