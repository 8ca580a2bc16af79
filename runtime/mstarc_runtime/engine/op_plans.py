"""What a plan says about a node's ops and samplers → what its engine looks up for a call."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mstarc_runtime.attention.mask import CAUSAL, FULL, PREFIX, Mask, frames
from mstarc_runtime.layers.sampler import SamplerMode, SamplerState, SamplingSettings
from mstarc_runtime.plan_api import Sampler

DEFAULT = "default"
GREEDY = Sampler(name=DEFAULT)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpPlan:
    """What an op does to its node's contexts, and which sampler it means by the default one."""

    context: str
    mask: Mask
    sampler: str
    keep: bool = True


def op_plans(
    masks: Mapping[str, str],
    writes: Mapping[str, str],
    reads: Mapping[str, str],
    samplers: Sequence[Sampler],
    op_sampler: Mapping[str, str],
) -> dict[str, OpPlan]:
    """What a plan says about ops, by op."""
    first = samplers[0].name
    return {
        op: OpPlan(
            context=context,
            mask=_mask(masks.get(op, "causal")),
            sampler=op_sampler.get(op, first),
            keep=op in writes,
        )
        for op, context in {**reads, **writes}.items()
    }


def sampler_states(
    node: str,
    samplers: Sequence[Sampler],
    *,
    slots: int,
    vocab: int,
    device: torch.device,
    captured: bool,
) -> dict[str, SamplerState]:
    """The samplers of a node; each has a stream of draws of its own, whatever seed it shares."""
    first = zlib.crc32(node.encode()) >> 1
    return {
        sampler.name: SamplerState(
            slots=slots,
            vocab=vocab,
            device=device,
            stream=stream,
            mode=_mode(sampler, captured),
            penalised=sampler.repetition_penalty != 1.0,
            ranked=sampler.top_k != 0,
            allow=_allowed(sampler, vocab),
        )
        for stream, sampler in enumerate(samplers, first)
    }


def _mode(sampler: Sampler, captured: bool) -> SamplerMode:
    if sampler.temperature == 0:
        return "greedy"
    return "draw" if captured else "auto"


def _allowed(sampler: Sampler, vocab: int) -> list[int] | None:
    if not sampler.allow and not sampler.suppress:
        return None
    never = set(sampler.suppress)
    return [token for token in sampler.allow or range(vocab) if token not in never]


def sampling_settings(sampler: Sampler, options: Mapping[str, Any], seed: int) -> SamplingSettings:
    """What a request asks of a sampler, by its options."""

    def value(given: float | str) -> Any:
        return options[given] if isinstance(given, str) else given

    return SamplingSettings(
        temperature=float(value(sampler.temperature)),
        top_k=int(value(sampler.top_k)),
        top_p=float(value(sampler.top_p)),
        repetition_penalty=float(value(sampler.repetition_penalty)),
        seed=int(options[sampler.seed]) if sampler.seed is not None else seed,
    )


def _mask(text: str) -> Mask:
    named = {"causal": CAUSAL, "full": FULL, "prefix": PREFIX}
    if text in named:
        return named[text]
    assert text.startswith("frames(") and text.endswith(")"), f"no attention mask is `{text}`"
    return frames(int(text[len("frames(") : -1]))
