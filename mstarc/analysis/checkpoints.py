"""The tensors of a local checkpoint, by the headers of its safetensors files.

A file begins with eight bytes, the length of the header, and the header: JSON, a tensor's name to
its dtype, shape and place. Nothing else of the file is read.
"""

import json
from collections.abc import Mapping
from typing import Any

from mstarc.analysis.weighing import Tensor
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label
from mstarc.options import CheckpointFolder
from mstarc.source import Span


def read_tensors(folder: CheckpointFolder, sink: DiagnosticSink) -> tuple[Tensor, ...]:
    """Every tensor once; headers that are none are reported (MS0010)."""
    found: dict[str, Tensor] = {}
    for path, text in folder.headers:
        try:
            header = json.loads(text)
            for name, entry in header.items():
                if name != "__metadata__":
                    shape = tuple(int(size) for size in entry["shape"])
                    found[name] = Tensor(name=name, dtype=str(entry["dtype"]), shape=shape)
        except (ValueError, KeyError, TypeError, AttributeError):
            report_no_checkpoint(path, "its header is not that of a safetensors file", sink)
    return tuple(found.values())


def read_config(folder: CheckpointFolder) -> Mapping[str, Any] | None:
    """The folder's config.json, where it is there and holds keys and values."""
    if folder.config is None:
        return None
    try:
        config = json.loads(folder.config)
    except ValueError:
        return None
    return config if isinstance(config, dict) else None


def report_no_checkpoint(path: str, why: str, sink: DiagnosticSink) -> None:
    """Report (MS0010) that a folder or a file is no part of a checkpoint."""
    sink.report(
        Diagnostic(
            code="MS0010",
            message=f"`{path}` is no checkpoint",
            primary=Label(span=Span(path=path, start=0, end=0), text=why),
            notes=(why,),
            helps=("give the folder that holds the `.safetensors` files of the weights",),
        )
    )
