"""Compiles the kernels of Qwen3-Omni's steps into Triton's cache, many at a time.

A kernel takes a second to compile, and a size of a batch has two dozen: one after the other they
take minutes on a machine that has none yet. Here each decoder and size has a process, which steps a
decoder of one or two layers of the full width once. A run that follows finds all of them.

    python benchmarks/gpu_compile_omni.py [--batches 1 4 8 16 32] [--requests 64]
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from mstarc_runtime.attention.paged_decode import PagedDecodeAttention
from mstarc_runtime.attention.torch_reference import TorchAttention
from mstarc_runtime.engine.context import StepContext
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.layout import CacheLayout
from mstarc_runtime.layers.sampler import SamplerState, SamplingSettings
from mstarc_runtime.models.qwen3_omni import CodePredictor, Talker, Thinker
from mstarc_runtime.plan_api import Maybe
from mstarc_runtime.weights.random import randomise

SIZES = Path("specs/random/qwen3_omni.yaml")
KINDS = {"thinker": Thinker, "talker": Talker, "predictor": CodePredictor}
ROWS = 8192


def small() -> dict[str, Any]:
    """The full config with as few layers as there can be."""
    config: dict[str, Any] = yaml.safe_load(SIZES.read_text())["weights"]["frontend"]["config"]
    talker = config["talker_config"]
    config["thinker_config"]["text_config"]["num_hidden_layers"] = 2
    talker["accept_hidden_layer"] = 1
    talker["text_config"]["num_hidden_layers"] = 1
    talker["code_predictor_config"]["num_hidden_layers"] = 1
    return config


def context(module: Any, *, kind: str, batch: int, requests: int) -> StepContext:
    """A step's context with the sampler that the plan's node has."""
    device = torch.device("cuda")
    attention = module.stack.layers[0].attention
    layout = CacheLayout(
        layers=len(module.stack.layers),
        kv_heads=attention.kv_heads,
        head_dim=attention.head_dim,
        pages=requests + 16,
        page_size=16,
        slots=requests,
        max_rows=16 if kind == "predictor" else ROWS,
    )
    cache = KVCache(layout, dtype=torch.bfloat16, device=device)
    sampler = SamplerState(
        slots=requests,
        vocab=module.vocab_size,
        device=device,
        mode="draw",
        penalised=kind != "predictor",
        ranked=True,
    )
    for slot in range(requests):
        sampler.admit(slot, SamplingSettings(temperature=0.7, top_p=0.9))
    made = StepContext(
        cache=cache,
        backend=PagedDecodeAttention(cache, TorchAttention(cache, row_by_row=False)),
        samplers={"default": sampler},
        bucket=batch,
    )
    made.prepare(np.arange(batch))
    return made


@torch.inference_mode()
def step_once(kind: str, batch: int, requests: int) -> None:
    config, device = small(), torch.device("cuda")
    built: Any = KINDS[kind].build(config, dtype=torch.bfloat16, device=torch.device("meta"))
    randomise(built, device=device)
    module = built.to(device)
    ctx = context(module, kind=kind, batch=batch, requests=requests)
    zeros = torch.zeros(batch, dtype=torch.int64, device=device)
    if kind == "thinker":
        module.step(ctx, zeros, True)
    elif kind == "talker":
        width = int(config["talker_config"]["thinker_hidden_size"])
        heard = torch.zeros(batch, width, dtype=torch.bfloat16, device=device)
        frames = zeros[:, None].expand(-1, module.groups).contiguous()
        module.step(ctx, frames, Maybe(value=heard, there=zeros == 0), zeros)
    else:
        width = module.stack.norm.weight.shape[0]
        module.prime(ctx, torch.zeros(batch, width, dtype=torch.bfloat16, device=device))
        module.step(ctx, zeros, 0)
    torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 8, 16, 32])
    parser.add_argument("--requests", type=int, default=64, help="that the plan lets run at once")
    parser.add_argument("--only", choices=[*KINDS], help="this decoder, in this process")
    given = parser.parse_args()
    began = time.perf_counter()
    if given.only is not None:
        for batch in given.batches:
            step_once(given.only, batch, given.requests)
        return
    running = {
        (kind, batch): subprocess.Popen(
            [
                *(sys.executable, __file__, "--only", kind),
                *("--batches", str(batch), "--requests", str(given.requests)),
            ]
        )
        for kind in KINDS
        for batch in given.batches
    }
    failed = [name for name, process in running.items() if process.wait()]
    print(f"{len(running)} sizes in {time.perf_counter() - began:.1f} s; failed: {failed}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
