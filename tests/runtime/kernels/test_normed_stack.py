"""Qwen3-Omni's decoders by our kernels: near plain torch, and a row depends on its bucket alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mstarc_runtime.attention.torch_reference import TorchAttention
from mstarc_runtime.engine.context import StepContext
from mstarc_runtime.engine.packed_context import PackedContext
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.layout import CacheLayout
from mstarc_runtime.layers.sampler import SamplerState, SamplingSettings
from mstarc_runtime.models.qwen3_omni import CodePredictor, Talker, Thinker
from mstarc_runtime.plan_api import Maybe

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [12, 10, 10]}
TEXT: dict[str, Any] = {
    "vocab_size": 600,
    "hidden_size": 256,
    "intermediate_size": 256,
    "moe_intermediate_size": 128,
    "shared_expert_intermediate_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "num_experts": 16,
    "num_experts_per_tok": 3,
    "max_position_embeddings": 512,
    "rope_parameters": ROPE,
}
CONFIG: dict[str, Any] = {
    "tts_pad_token_id": 3,
    "tts_bos_token_id": 4,
    "thinker_config": {
        "text_config": {**TEXT, "shared_expert_intermediate_size": 0, "hidden_size": 512}
    },
    "talker_config": {
        "thinker_hidden_size": 512,
        "accept_hidden_layer": 2,
        "num_code_groups": 4,
        "codec_eos_token_id": 1505,
        "codec_nothink_id": 1501,
        "codec_think_bos_id": 1502,
        "codec_think_eos_id": 1503,
        "codec_pad_id": 1504,
        "codec_bos_id": 1506,
        "text_config": {**TEXT, "vocab_size": 2048},
        "code_predictor_config": {**TEXT, "num_code_groups": 4, "rope_parameters": ROPE},
    },
}
LENGTHS = {0: 20, 1: 1, 2: 33, 3: 100}


class World:
    """A node's module with random weights, its cache with `LENGTHS` rows a slot, and a step."""

    def __init__(self, module: Any, *, bucket: int, by_kernels: bool) -> None:
        self.module = module
        attention = module.stack.layers[0].attention
        layout = CacheLayout(
            layers=len(module.stack.layers),
            kv_heads=attention.kv_heads,
            head_dim=attention.head_dim,
            pages=64,
            page_size=16,
            slots=len(LENGTHS),
            max_rows=256,
        )
        self.cache = KVCache(layout, dtype=torch.bfloat16, device=DEVICE)
        self.backend: Any = TorchAttention(self.cache, row_by_row=False)
        if by_kernels:
            # Here, because kernels are compiled on a machine with a GPU only.
            from mstarc_runtime.attention.paged_decode import PagedDecodeAttention

            self.backend = PagedDecodeAttention(self.cache, self.backend)
        sampler = SamplerState(slots=len(LENGTHS), vocab=module.vocab_size, device=DEVICE)
        self.samplers = {"default": sampler}
        self.bucket = bucket
        self.logits: list[Tensor] = []
        for slot, length in LENGTHS.items():
            sampler.admit(slot, SamplingSettings())
            rows = PackedContext(
                cache=self.cache,
                backend=self.backend,
                samplers=self.samplers,
                slots=np.array([slot]),
                counts=np.array([length]),
            )
            self._fill(rows, slot, length)

    def step(self, slots: list[int], call: Callable[[Any], Any]) -> Any:
        """One step of `slots`; the logits that it sampled of are kept."""
        context: Any = StepContext(
            cache=self.cache, backend=self.backend, samplers=self.samplers, bucket=self.bucket
        )
        context.prepare(np.array(slots))

        def sample(logits: Tensor) -> Tensor:
            self.logits.append(logits.float().clone())
            return logits.argmax(-1)

        context.sample = sample
        return call(context)

    def _fill(self, rows: PackedContext, slot: int, length: int) -> None:
        generator = torch.Generator(DEVICE).manual_seed(slot)
        width = self.module.stack.norm.weight.shape[0]
        x = torch.randn(length, width, generator=generator, device=DEVICE).bfloat16()
        self.module.stack.forward(rows, x, self.module.rope.angles(rows.positions))


def made(kind: Any) -> nn.Module:
    module: nn.Module = kind.build(CONFIG, dtype=torch.bfloat16, device=DEVICE)
    generator = torch.Generator(DEVICE).manual_seed(1)
    for parameter in module.parameters():
        if parameter.ndim > 1:
            spread = parameter.shape[-1] ** -0.5
            parameter.data.normal_(0.0, spread, generator=generator)
        else:
            parameter.data.normal_(1.0, 0.1, generator=generator)
    return module


def near(wanted: Tensor, given: Tensor) -> bool:
    kept = wanted.isfinite()
    assert torch.equal(given.isfinite(), kept)
    difference = (given - wanted)[kept].norm() / wanted[kept].norm()
    return bool(difference < 3e-2)


def thinker(world: World, slots: list[int]) -> Tensor:
    ids = torch.tensor([7 * slot + 1 for slot in slots], device=DEVICE)
    ids = torch.cat([ids, ids.new_zeros(world.bucket - len(slots))])
    world.step(slots, lambda ctx: world.module.step(ctx, ids, True))
    return world.logits[-1][: len(slots)]


def talker(world: World, slots: list[int]) -> tuple[Tensor, Tensor]:
    generator = torch.Generator(DEVICE).manual_seed(3)
    frames = torch.randint(0, 500, (len(LENGTHS), 4), generator=generator, device=DEVICE)
    words = torch.randn(len(LENGTHS), 512, generator=generator, device=DEVICE).bfloat16()
    pick = torch.tensor(slots + [0] * (world.bucket - len(slots)), device=DEVICE)
    heard = Maybe(value=words[pick], there=pick != 2)
    ahead = 5 + pick
    _, past = world.step(slots, lambda ctx: world.module.step(ctx, frames[pick], heard, ahead))
    return world.logits[-1][: len(slots)], past[: len(slots)].float().clone()


def predictor(world: World, slots: list[int]) -> Tensor:
    generator = torch.Generator(DEVICE).manual_seed(4)
    past = torch.randn(len(LENGTHS), 256, generator=generator, device=DEVICE).bfloat16()
    pick = torch.tensor(slots + [0] * (world.bucket - len(slots)), device=DEVICE)
    world.step(slots, lambda ctx: world.module.prime(ctx, past[pick]))
    for depth in range(3):
        world.step(slots, lambda ctx, at=depth: world.module.step(ctx, pick * 11 + at, at))
    return torch.stack(world.logits[-3:])[:, : len(slots)]


@torch.inference_mode()
@pytest.mark.parametrize("bucket", [1, 4])
def test_steps_are_those_of_plain_torch(bucket: int) -> None:
    slots = [2, 0, 3, 1][:bucket]
    for kind, run in ((Thinker, thinker), (Talker, talker), (CodePredictor, predictor)):
        module = made(kind)
        plain = run(World(module, bucket=bucket, by_kernels=False), slots)
        ours = run(World(module, bucket=bucket, by_kernels=True), slots)
        if isinstance(plain, tuple):
            assert near(plain[1], ours[1]), kind
            plain, ours = plain[0], ours[0]
        assert near(plain, ours), kind


@torch.inference_mode()
def test_a_row_depends_on_its_bucket_only() -> None:
    module = made(Thinker)
    alone = thinker(World(module, bucket=4, by_kernels=True), [3])
    among = thinker(World(module, bucket=4, by_kernels=True), [0, 3, 2, 1])
    assert torch.equal(among[1], alone[0])
