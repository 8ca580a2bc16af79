"""The class that a spec names with `impl`, built and filled with weights.

`"llama:Decoder"` → `Decoder` of a [module](model_modules.py); a plan's `Weights` → parameters on a
device. Each (implementation, weights) of host code is built once a process.
"""

import difflib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mstarc_runtime.engine.model_modules import find_module, shipped_modules
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.layers.shard import WHOLE, Shard
from mstarc_runtime.plan_api import Weights
from mstarc_runtime.weights.fetch import fetch
from mstarc_runtime.weights.load import load, read_config
from mstarc_runtime.weights.progress import Progress
from mstarc_runtime.weights.random import randomise


@dataclass(slots=True, kw_only=True)
class Implementations:
    """Where classes and weights come from on this rank.

    `extra` gives classes that are not among the models (a test's). `sources` replaces the weights
    of nodes by other sources.
    """

    cache_dir: Path
    progress: Progress
    extra: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    _host: dict[str, Any] = field(default_factory=dict)

    def module(
        self,
        node: str,
        impl: str,
        weights: Weights,
        *,
        dtype: torch.dtype,
        device: torch.device,
        shard: Shard = WHOLE,
    ) -> nn.Module:
        """A node's module with its weights, or a part of it, ready to run.

        Fails with MS9008, MS9012 or MS91xx.
        """
        found = self._find(node, impl)
        more = {"shard": shard} if _takes(found, node, impl, shard) else {}
        weights = self._chosen(node, weights)
        folder = fetch(weights.source, self.cache_dir, progress=self.progress)
        config = {**({} if folder is None else read_config(folder)), **weights.config}
        built: nn.Module = found.build(config, dtype=dtype, device=device, **more)
        with self.progress.step(f"loading weights of {node}", None):
            if folder is None:
                randomise(built, seed=weights.seed, under=weights.under, device=device)
            else:
                load(built, folder, under=weights.under, device=device)
        return built.requires_grad_(False).eval()

    def host(self, node: str, impl: str, weights: Weights) -> Any:
        """A host node's object. Fails with MS9008 or MS91xx."""
        weights = self._chosen(node, weights)
        wanted = repr((impl, weights))
        if wanted not in self._host:
            found = self._find(node, impl)
            folder = (
                fetch(weights.source, self.cache_dir, progress=self.progress)
                if weights.source
                else None
            )
            has_config = folder is not None and (folder / "config.json").exists()
            config = {**(read_config(folder) if folder and has_config else {}), **weights.config}
            takes_fetch = "fetch" in inspect.signature(found.build).parameters
            more = {"fetch": self._folder_of} if takes_fetch else {}
            self._host[wanted] = found.build(config, folder=folder, **more)
        return self._host[wanted]

    def _folder_of(self, source: str) -> Path:
        folder = fetch(source, self.cache_dir, progress=self.progress)
        assert folder is not None, f"host code asked for the files of `{source}`"
        return folder

    def _chosen(self, node: str, weights: Weights) -> Weights:
        source = self.sources.get(node)
        if source is None:
            return weights
        return Weights(source=source, under=weights.under, seed=weights.seed, config=weights.config)

    def _find(self, node: str, impl: str) -> Any:
        if impl in self.extra:
            return self.extra[impl]
        module_name, _, class_name = impl.partition(":")
        try:
            module = find_module(module_name)
        except Exception as error:
            raise RuntimeFailure(
                "MS9008",
                f"node `{node}` is implemented by `{impl}`, and `{module_name}` can't be imported",
                notes=[f"{type(error).__name__}: {error}"],
            ) from error
        found = getattr(module, class_name, None) if module is not None else None
        if found is None:
            raise RuntimeFailure(
                "MS9008",
                f"node `{node}` is implemented by `{impl}`, which this runtime does not have",
                helps=_near(module_name, class_name),
            )
        return found


def _takes(found: Any, node: str, impl: str, shard: Shard) -> bool:
    """Whether a class is to be told of its part. Fails with MS9012 where it takes none such."""
    if shard.count == shard.sp_count == 1:
        return False
    kinds = getattr(found, "shards", ("tensor",))
    can = "shard" in inspect.signature(found.build).parameters
    for count, kind, key in (
        (shard.count, "tensor", "tp_size"),
        (shard.sp_count, "sequence", "sp_size"),
    ):
        if count > 1 and not (can and kind in kinds):
            raise RuntimeFailure(
                "MS9012",
                f"node `{node}` is placed with `{key}` {count}, and `{impl}` takes no such part",
                notes=["every rank would hold the whole node and compute all of it"],
                helps=[f"place it with `{key}` 1, or as so many replicas"],
            )
    return True


def _near(name: str, class_name: str) -> list[str]:
    near = difflib.get_close_matches(name, shipped_modules(), n=3)
    hints = [f"did you mean {' or '.join(f'`{n}:…`' for n in near)}?"] if near else []
    return [
        *hints,
        f"for a model of your own, write `{class_name}` in `{name.replace('.', '/')}.py`, "
        "in a folder that PYTHONPATH names",
        "for a plan from elsewhere, use the runtime of the version that compiled it",
    ]
