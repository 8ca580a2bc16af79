"""The keys of deployment files, with what each means, and how a file tells of what it is."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from mstarc.source import SourceFile, Span

TOP: Mapping[str, str] = MappingProxyType(
    {
        "model": "the public name of the model: its spec is found by it",
        "device_kinds": "device kinds of one's own, over those of the catalogue",
        "devices": "where it runs, such as `2xH200` or `4xcpu`; else H200s, one a rank",
        "max_seq_len": "the rows of a request's longest context",
        "max_concurrent_requests": "how many requests run at once",
        "stretch": "the most passes of a loop at which the host looks once; 0: it looks at each",
        "kv_cache": "the pools of KV pages",
        "resources": "newer files write `kv_cache` below it",
        "model_kwargs": "values for the spec's `config`, by their names or public names",
        "node_groups": "which nodes run on which ranks",
    }
)
GROUP: Mapping[str, str] = MappingProxyType(
    {
        "node_names": "public names of nodes and contexts",
        "ranks": "the ranks that hold them: one, the shards of one, or replicas",
        "tp_size": "over how many ranks the heads and weights are cut",
        "sp_size": "over how many ranks the sequence is cut",
        "graph_walks": "the walks in which this holds; without it, all",
    }
)
KV_CACHE: Mapping[str, str] = MappingProxyType(
    {
        "max_num_pages": "the pages of each pool; without `page_size`, of 128 rows each",
        "page_size": "the rows of a page",
        "prefill_tokens": "the most rows of prompts that one step reads",
        "cpu_offload_pages": "pages of each pool that requests which wait may have in host memory",
        "flashinfer_backend": "decides nothing here: the runtime picks the kernels",
    }
)
PAGE_SIZES = tuple(1 << power for power in range(10))
"""Rows of a page: whole pages make up the 512 rows in which prompts that many share are read once,
and these are the sizes that the attention kernels are built and tested for."""
PAGE_LABEL = f"a power of two up to {PAGE_SIZES[-1]} is wanted"
RESOURCES: Mapping[str, str] = MappingProxyType({"kv_cache": TOP["kv_cache"]})
BACKENDS = ("auto", "fa2", "fa3", "cudnn", "cutlass", "trtllm-gen")

_MODEL_KEY = re.compile(r"^model[ \t]*:[ \t]*[\"']?([^\s\"'#]+)", re.MULTILINE)
_MODEL_LINE = re.compile(
    r"^[ \t]*(?:model[ \t]+([A-Za-z_]\w*)|variant[ \t]+\"([^\"\n]*)\")", re.MULTILINE
)


def page_size_remedy(rows: int) -> str | None:
    """What to write instead of a page of so many rows; None for one that there is."""
    if rows in PAGE_SIZES:
        return None
    near = min(PAGE_SIZES, key=lambda size: (abs(size - rows), size))
    return f"write `{near}`, which is nearest"


_TOP_KEY = re.compile(r"^([A-Za-z_]\w*)[ \t]*:", re.MULTILINE)

FileKind = Literal["deployment", "sizes", "requests", "profile", "device kinds"]


def kind_of_file(text: str) -> FileKind | None:
    """What a YAML text is meant as, by its keys; none for YAML that is not ours."""
    keys = set(_TOP_KEY.findall(text))
    if "node_groups" in keys:
        return "deployment"
    if keys & {"ops", "facts"}:
        return "profile"
    if "model" in keys:
        return "deployment"
    if keys & {"config", "weights"}:
        return "sizes"
    if keys == {"requests"}:
        return "requests"
    return "device kinds" if keys == {"device_kinds"} else None


def is_deployment(text: str) -> bool:
    """Whether a YAML text is meant as a deployment, so that other YAML is left alone."""
    return kind_of_file(text) == "deployment"


def wanted_model(deployment: SourceFile) -> tuple[str, Span] | None:
    """The model that a deployment file names, as far as its text tells."""
    match = _MODEL_KEY.search(deployment.text)
    if match is None:
        return None
    return match[1], Span(path=deployment.path, start=match.start(1), end=match.end(1))


def models_of(spec: str) -> tuple[str, ...]:
    """The public names of a spec's model: its own, then those of variants, as its text tells."""
    return tuple(match[1] or match[2] for match in _MODEL_LINE.finditer(spec))
