"""Greedy tokens through the paged cache are those of `LlamaForCausalLM`, alone and in batches."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

from mstarc_runtime.engine.context import StepContext
from mstarc_runtime.engine.packed_context import PackedContext
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.layers.sampler import GREEDY, SamplerState
from mstarc_runtime.models.llama import Decoder
from mstarc_runtime.models.orpheus import LanguageModel
from tests.support.parity import CPU, cache_for, fill

STEPS = 40
BUCKET = 8
PROMPTS = ([1, 10, 11, 12, 13], [5] * 20, [7, 3, 2], [1], list(range(2, 40)))
TINY: dict[str, Any] = {
    "vocab_size": 576,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    # Large, so that the greatest logit stands out and changes from step to step.
    "initializer_range": 0.3,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "orpheus-like": {
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 500000.0,
            "factor": 32.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        }
    },
    "smollm-like": {
        "tie_word_embeddings": True,
        "hidden_size": 96,
        "num_attention_heads": 6,
        "rms_norm_eps": 1e-5,
    },
    "with-biases": {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 4},
    "linear": {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}},
}


class Model:
    """A reference model saved as a checkpoint, and ours with its weights."""

    def __init__(self, variant: dict[str, Any], folder: Path) -> None:
        torch.manual_seed(7)
        self.theirs = LlamaForCausalLM(LlamaConfig(**(TINY | variant))).eval()
        self.theirs.save_pretrained(folder)
        state = load_file(folder / "model.safetensors")
        config = self.theirs.config.to_dict()
        self.ours = LanguageModel.build(config, dtype=torch.float32, device=CPU)
        fill(self.ours, state)
        self.layers, self.kv_heads = config["num_hidden_layers"], config["num_key_value_heads"]

    def expected(self, prompt: list[int]) -> list[int]:
        made = self.theirs.generate(
            torch.tensor([prompt]),
            max_new_tokens=STEPS + 1,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
        tokens: list[int] = made[0, len(prompt) :].tolist()
        return tokens

    @torch.inference_mode()
    def tokens(
        self,
        prompts: list[list[int]],
        slots: list[int],
        *,
        row_by_row: bool,
        together: bool,
        sampler: SamplerState | None = None,
    ) -> list[list[int]]:
        cache, backend = cache_for(
            layers=self.layers, kv_heads=self.kv_heads, head_dim=16, row_by_row=row_by_row
        )
        before = cache.snapshot()
        samplers = {"default": sampler or SamplerState(slots=8, vocab=576, device=CPU)}
        for slot in slots:
            samplers["default"].admit(slot, GREEDY)
        groups = (
            [slice(0, len(slots))] if together else [slice(i, i + 1) for i in range(len(slots))]
        )
        first = []
        for group in groups:
            context = PackedContext(
                cache=cache,
                backend=backend,
                samplers=samplers,
                slots=np.array(slots[group]),
                counts=np.array([len(prompt) for prompt in prompts[group]]),
            )
            ids = torch.tensor([token for prompt in prompts[group] for token in prompt])
            first.append(self.ours.prefill(context, ids))
        token = torch.cat([*first, torch.zeros(BUCKET - len(slots), dtype=torch.int64)])
        made = [token]
        step = StepContext(cache=cache, backend=backend, samplers=samplers, bucket=BUCKET)
        batch = np.array(slots)
        for _ in range(STEPS):
            step.prepare(batch)
            token = self.ours.step(step, token)
            made.append(token)
        for slot in slots:
            cache.release_slot(slot)
        assert cache.snapshot() == before
        rows: list[list[int]] = torch.stack(made, dim=1)[: len(slots)].tolist()
        return rows


@pytest.fixture(scope="module", params=list(VARIANTS))
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model(VARIANTS[request.param], tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def expected(model: Model) -> list[list[int]]:
    return [model.expected(prompt) for prompt in PROMPTS]


@pytest.mark.parametrize("row_by_row", [True, False], ids=["row-by-row", "batched"])
@pytest.mark.parametrize("together", [True, False], ids=["packed", "one-by-one"])
def test_a_batch_says_what_transformers_says(
    model: Model, expected: list[list[int]], row_by_row: bool, together: bool
) -> None:
    assert len({token for tokens in expected for token in tokens}) > 20, "the test must say much"
    made = model.tokens(list(PROMPTS), [6, 0, 3, 7, 2], row_by_row=row_by_row, together=together)
    assert made == expected


def test_each_alone_says_what_transformers_says(model: Model, expected: list[list[int]]) -> None:
    for prompt, tokens in zip(PROMPTS, expected, strict=True):
        assert model.tokens([prompt], [5], row_by_row=True, together=True) == [tokens]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rope_scaling", {"rope_type": "yarn", "factor": 4.0}),
        ("hidden_act", "gelu"),
    ],
)
def test_a_config_that_cannot_be_served_is_refused(key: str, value: object) -> None:
    with pytest.raises(RuntimeFailure) as caught:
        Decoder.build(TINY | {key: value}, dtype=torch.float32, device=CPU)
    assert caught.value.code == "MS9109"


def test_a_config_without_a_size_is_refused() -> None:
    config = {key: value for key, value in TINY.items() if key != "hidden_size"}
    with pytest.raises(RuntimeFailure, match="`hidden_size` is missing"):
        Decoder.build(config, dtype=torch.float32, device=CPU)


def test_some_ids_need_no_rows_of_others(tmp_path: Path) -> None:
    """The output matrix is read in part, and what is drawn stays what a mask would have left."""
    model = Model(VARIANTS["smollm-like"], tmp_path)
    kept = range(100, 333)
    prompts, slots = [list(prompt) for prompt in PROMPTS], list(range(len(PROMPTS)))
    given: dict[str, Any] = {"row_by_row": False, "together": True}
    masked = SamplerState(slots=8, vocab=576, device=CPU, allow=kept)
    wanted = model.tokens(prompts, slots, sampler=masked, **given)
    assert {token for row in wanted for token in row} <= set(kept)
    assert model.ours.keep_rows(kept)
    part = SamplerState(slots=8, vocab=576, device=CPU, kept=kept)
    assert model.tokens(prompts, slots, sampler=part, **given) == wanted


def test_a_decoder_with_biases_reads_all_rows(tmp_path: Path) -> None:
    assert not Model(VARIANTS["with-biases"], tmp_path).ours.keep_rows(range(9))
