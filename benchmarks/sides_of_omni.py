"""Both sides of a part of Qwen3-Omni, ours and that of `transformers`, over the same tensors.

`Parts` makes them, `Node` lets one of ours with a cache be called, `Table` keeps what was compared.
"""

import copy
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from torch import Tensor, nn

from mstarc_runtime.engine.context import StepContext
from mstarc_runtime.engine.device_choices import choices_on
from mstarc_runtime.engine.packed_context import PackedContext
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.layout import CacheLayout
from mstarc_runtime.layers.sampler import GREEDY, SamplerState
from mstarc_runtime.weights.load import weight_map
from mstarc_runtime.weights.random import randomise

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
_EXPERT = re.compile(r"(.*\.mlp\.experts)\.\d+\.(gate|down)_proj\.weight")


class Table:
    """What was compared, a row a line as it comes."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def compare(self, what: str, ours: Tensor, theirs: Tensor, exact: Tensor | None = None) -> None:
        row = {"what": what, "relative": relative(ours, theirs)}
        if exact is not None:
            row["ours_to_f32"] = relative(ours, exact)
            row["theirs_to_f32"] = relative(theirs, exact)
        self.add(row)

    def add(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        print(json.dumps(row), flush=True)


def relative(made: Tensor, wanted: Tensor) -> float:
    """By how much `made` differs, where `wanted` is finite."""
    made, wanted = made.float().flatten(), wanted.float().flatten()
    kept = wanted.isfinite()
    return float(((made - wanted)[kept].norm() / wanted[kept].norm()).item())


@contextmanager
def without_memory(dtype: torch.dtype) -> Iterator[None]:
    """Modules that are built meanwhile have no memory for parameters; buffers are real."""
    register = nn.Module.register_parameter

    def registered(module: nn.Module, name: str, given: nn.Parameter | None) -> None:
        if given is not None:
            given = nn.Parameter(given.to("meta"), requires_grad=False)
        register(module, name, given)

    nn.Module.register_parameter = registered  # type: ignore[method-assign]
    usual = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with DEVICE:
            yield
    finally:
        torch.set_default_dtype(usual)
        nn.Module.register_parameter = register  # type: ignore[method-assign]


def share(ours: nn.Module, theirs: nn.Module) -> None:
    """Gives `theirs` the tensors of `ours`, which it names as the checkpoint does."""
    for own, names in weight_map(ours).items():
        value = ours.get_parameter(own).data
        wanted = [names] if isinstance(names, str) else list(names)
        expert = _EXPERT.fullmatch(wanted[0])
        if expert is not None:
            name = f"{expert[1]}.{'gate_up' if expert[2] == 'gate' else 'down'}_proj"
            _assign(theirs, name, value.view(theirs.get_parameter(name).shape))
            continue
        # What begins with `/` is of another part, and comes first.
        shapes = [theirs.get_parameter(name).shape for name in wanted if not name.startswith("/")]
        start = value.shape[0] - sum(shape[0] for shape in shapes) if len(wanted) > 1 else 0
        for name, shape in zip([n for n in wanted if not n.startswith("/")], shapes, strict=True):
            part = value if len(wanted) == 1 else value[start : start + shape[0]]
            start += shape[0]
            _assign(theirs, name, part.view(shape))


def _assign(module: nn.Module, name: str, value: Tensor) -> None:
    parent, _, leaf = name.rpartition(".")
    setattr(module.get_submodule(parent), leaf, nn.Parameter(value, requires_grad=False))


class Node:
    """A node's module, its cache, and contexts for calls on one request."""

    def __init__(self, module: Any, *, rows: int, dtype: torch.dtype) -> None:
        attention = module.stack.layers[0].attention
        layout = CacheLayout(
            layers=len(module.stack.layers),
            kv_heads=attention.kv_heads,
            head_dim=attention.head_dim,
            pages=rows // 16 + 2,
            page_size=16,
            slots=1,
            max_rows=rows,
        )
        self.cache = KVCache(layout, dtype=dtype, device=DEVICE)
        self._backend = choices_on(DEVICE).attention(self.cache)
        sampler = SamplerState(slots=1, vocab=module.vocab_size, device=DEVICE, mode="greedy")
        sampler.admit(0, GREEDY)
        self._samplers = {"default": sampler}
        self._slots = np.array([0])
        self.logits: list[Tensor] = []
        self._step: Any = None

    def packed(self, rows: int) -> Any:
        """The context of a call of so many rows."""
        return self._kept(
            PackedContext(
                cache=self.cache,
                backend=self._backend,
                samplers=self._samplers,
                slots=self._slots,
                counts=np.array([rows]),
            )
        )

    def step(self) -> Any:
        """The context of a step, made ready."""
        if self._step is None:
            self._step = self._kept(
                StepContext(
                    cache=self.cache, backend=self._backend, samplers=self._samplers, bucket=1
                )
            )
        self._step.prepare(self._slots)
        return self._step

    def _kept(self, context: Any) -> Any:
        def sample(logits: Tensor) -> Tensor:
            self.logits.append(logits.float().clone())
            return logits.argmax(-1)

        context.sample = sample
        return context


class Parts:
    """Makes both sides of a part, with the same weights."""

    def __init__(self, sizes: Path, dtype: torch.dtype) -> None:
        from transformers import Qwen3OmniMoeConfig

        content = yaml.safe_load(sizes.read_text())["weights"]["frontend"]["config"]
        self.config = Qwen3OmniMoeConfig(**copy.deepcopy(content))
        # As in a checkpoint's config.json: with what the reference takes where nothing is said.
        self.content = {**content, **self.config.to_dict()}
        self.dtype = dtype

    def ours(self, kind: Any, seed: int) -> Any:
        module = kind.build(self.content, dtype=self.dtype, device=torch.device("meta"))
        randomise(module, seed=seed, device=DEVICE)
        return module.to(DEVICE)  # what it has beside weights

    def theirs(self, kind: Any, config: Any) -> Any:
        with without_memory(self.dtype):
            module = kind._from_config(config, attn_implementation="sdpa", dtype=self.dtype)
        return module.eval()
