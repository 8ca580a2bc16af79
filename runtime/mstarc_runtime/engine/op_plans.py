"""What a plan says about a node's ops and samplers → what its engine looks up for a call."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from mstarc_runtime.attention.mask import CAUSAL, FULL, PREFIX, Mask, frames
from mstarc_runtime.layers.sampler import SamplerMode, SamplerState, SamplingSettings
from mstarc_runtime.plan_api import Sampler


@runtime_checkable
class KeepsRows(Protocol):
    """A module whose output matrix can be read in part."""

    def keep_rows(self, ids: range) -> bool:
        """From now on logits are of these ids alone; False, and nothing was done, if they can't."""
        ...


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
    kept: range | None = None,
    device: torch.device,
    captured: bool,
) -> dict[str, SamplerState]:
    """The samplers of a node; each has a stream of draws of its own, whatever seed it shares.

    `kept`: the ids that logits are of, of `vocab`, or all.
    """
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
            allow=None if kept is not None else allowed_by(sampler, vocab),
            kept=kept,
        )
        for stream, sampler in enumerate(samplers, first)
    }


def _mode(sampler: Sampler, captured: bool) -> SamplerMode:
    if sampler.temperature == 0:
        return "greedy"
    return "draw" if captured else "auto"


def allowed_by(sampler: Sampler, vocab: int) -> range | None:
    """The ids that may be drawn; None if all."""
    if sampler.allow_first is None or sampler.allow_last is None:
        return None
    return range(sampler.allow_first, min(sampler.allow_last + 1, vocab))


def kept_rows(module: nn.Module, samplers: Sequence[Sampler], vocab: int) -> range | None:
    """The ids whose logits the module computes alone; None if it computes all.

    That is so where all samplers of a node allow the same ids and the module knows how.
    """
    allowed = {allowed_by(sampler, vocab) for sampler in samplers}
    if len(allowed) != 1 or (ids := allowed.pop()) is None or not isinstance(module, KeepsRows):
        return None
    return ids if module.keep_rows(ids) else None


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
