"""Compiles the kernels of Qwen3-Omni's steps and prompts into Triton's cache, many at a time.

A kernel takes a second to compile, and a size of a batch has two dozen: one after the other they
take minutes on a machine that has none yet. Here each decoder and size has a process, which steps a
decoder of one or two layers of the full width once; two more attend prompts of every shape to which
several requests are padded. A run that follows finds all of them.

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

from mstarc_runtime.attention.mask import CAUSAL
from mstarc_runtime.attention.paged_decode import PagedDecodeAttention
from mstarc_runtime.attention.torch_reference import TorchAttention
from mstarc_runtime.engine.context import StepContext
from mstarc_runtime.engine.padded_prompts import MOST_ROWS
from mstarc_runtime.kernels.fixed_attention import FixedRowsAttention
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.layout import CacheLayout
from mstarc_runtime.layers.sampler import SamplerState, SamplingSettings
from mstarc_runtime.models.qwen3_omni import CodePredictor, Talker, Thinker
from mstarc_runtime.plan_api import Maybe
from mstarc_runtime.weights.random import randomise

SIZES = Path("specs/random/qwen3_omni.yaml")
KINDS = {"thinker": Thinker, "talker": Talker, "predictor": CodePredictor}
ROWS = 8192
LENGTHS = (16, 32, 64, 128, 256, 512)
"""That prompts are padded to where several are read together."""


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


@torch.inference_mode()
def attend_prompts(kind: str) -> None:
    """Prompts that are read together: their number and length decide how the attention is cut."""
    config, device = small(), torch.device("cuda")
    of_text = config[f"{kind}_config"]["text_config"]
    heads, kv_heads = of_text["num_attention_heads"], of_text["num_key_value_heads"]
    head_dim, page = of_text["head_dim"], 16
    keys = torch.zeros(page, page, kv_heads, head_dim, dtype=torch.bfloat16, device=device)
    for each in LENGTHS:
        for batch in (1, 2, 4, 8, 16, 32):
            if batch * each > MOST_ROWS:
                continue
            attend = FixedRowsAttention(
                batch=batch,
                each=each,
                heads=heads,
                kv_heads=kv_heads,
                head_dim=head_dim,
                page_size=page,
                mask=CAUSAL,
                device=device,
            )
            ends = torch.full((batch,), each, dtype=torch.int32, device=device)
            attend(
                keys.new_zeros(batch * each, heads, head_dim),
                lengths=ends,
                firsts=torch.zeros_like(ends),
                pages=torch.zeros(batch, ROWS // page, dtype=torch.int32, device=device),
                keys=keys,
                values=keys,
                scale=head_dim**-0.5,
            )
    torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 8, 16, 32])
    parser.add_argument("--requests", type=int, default=64, help="that the plan lets run at once")
    parser.add_argument("--only", choices=[*KINDS], help="this decoder, in this process")
    parser.add_argument("--prompts", action="store_true", help="with `--only`: its prompts")
    given = parser.parse_args()
    began = time.perf_counter()
    if given.only is not None and given.prompts:
        attend_prompts(given.only)
        return
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
    running |= {
        (kind, 0): subprocess.Popen([sys.executable, __file__, "--only", kind, "--prompts"])
        for kind in ("thinker", "talker")
    }
    failed = [name for name, process in running.items() if process.wait()]
    print(f"{len(running)} sizes in {time.perf_counter() - began:.1f} s; failed: {failed}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
