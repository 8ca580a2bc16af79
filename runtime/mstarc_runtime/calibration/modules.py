"""Modules of a job's nodes, built from nothing but their config."""

import sys
from typing import Any

import torch
from torch import nn

from mstarc_runtime.engine.model_modules import find_module


def built(node: dict[str, Any], *, dtype: torch.dtype, device: torch.device) -> nn.Module | None:
    """The node's module without values; None, and a line on stderr, where it can't be built."""
    module_name, _, class_name = node["impl"].partition(":")
    try:
        found = getattr(find_module(module_name), class_name)
        module: nn.Module = found.build(node["config"], dtype=dtype, device=device)
    except Exception as error:
        # A config that says too little is no mistake of ours: the node is left out.
        reason = f"{type(error).__name__}: {error}"
        print(f"note: `{node['name']}` can't be built: {reason}", file=sys.stderr)
        return None
    return module.requires_grad_(False).eval()
