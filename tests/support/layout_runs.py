"""The tiny models on many layouts: what each is asked, and what it answers there."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mstarc import driver
from mstarc.codegen.write import write_plan
from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from mstarc_runtime.assembly import RunSettings
from mstarc_runtime.launch import LocalRanks, Ranks, run_until_done
from mstarc_runtime.loader import LoadedPlan, load_placement, load_plan
from mstarc_runtime.plan_api import Media, Part, parts_in_order
from mstarc_runtime.process_ranks import ProcessRanks
from mstarc_runtime.request import PreparedRequest
from mstarc_runtime.weights.progress import PlainProgress
from tests.runtime.rig import Collected, nowhere
from tests.support.bagel_cases import sample_image
from tests.support.shipped_specs import SPECS_BY_NAME

Groups = tuple[tuple[str, str, Mapping[str, Any]], ...]
"""Node names, ranks and the other keys of a deployment's groups."""

GREEDY = {"temperature": 0.0}
QWEN_GREEDY = {**GREEDY, "talker_temperature": 0.0, "code_temperature": 0.0}
# Requests of a burst share steps, so that it takes fewer of them.
_TILE_ROWS = 8
_ENCODERS = "frontend, audio_encoder, vision_encoder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiny:
    """A model, its layouts (the first on one rank), and how many requests are asked of each."""

    name: str
    layouts: Mapping[str, Groups]
    count: int


TINY: tuple[Tiny, ...] = (
    Tiny(
        name="orpheus",
        # Every prompt of `_request` with every length.
        count=24,
        layouts={
            "one": (("frontend, lm, codec", "0", {}),),
            "two": (("frontend, lm", "0", {}), ("codec", "1", {})),
            "three": (("frontend", "0", {}), ("lm", "1", {}), ("codec", "2", {})),
            "numbers": (("frontend, lm", "2", {}), ("codec", "3", {})),
            "walks": (
                ("frontend, codec", "0", {}),
                ("lm", "0", {"graph_walks": "[start]"}),
                ("lm", "1", {"graph_walks": "[decode]"}),
            ),
            "copies": (("frontend, lm", "0, 1", {}), ("codec", "2", {})),
            # A rank that serves another one, and has steps of its own.
            "tp2": (
                ("frontend", "0", {}),
                ("lm", "0, 1", {"tp_size": 2}),
                ("codec", "1", {}),
            ),
            "tp2 twice": (
                ("frontend, codec", "0", {}),
                ("lm", "1, 2, 3, 4", {"tp_size": 2}),
            ),
            "tp2 by walk": (
                ("frontend", "2", {}),
                ("lm", "2", {"graph_walks": "[start]"}),
                ("lm", "0, 1", {"graph_walks": "[decode]", "tp_size": 2}),
                ("codec", "2", {}),
            ),
        },
    ),
    Tiny(
        name="bagel",
        count=4,
        layouts={
            "one": (("frontend, vit_encoder, vae_encoder, vae_decoder, LLM", "0", {}),),
            "two": (
                ("frontend, vit_encoder, vae_encoder, vae_decoder", "0", {}),
                ("llm, guide", "1", {}),
            ),
            "three": (
                ("frontend, vit_encoder", "0", {}),
                ("llm, guide", "1", {}),
                ("vae_encoder, vae_decoder", "2", {}),
            ),
            "numbers": (
                ("frontend, vit_encoder, vae_encoder, vae_decoder", "2", {}),
                ("llm, guide", "3", {}),
            ),
            "branches": (
                ("frontend, vit_encoder, vae_encoder, vae_decoder, LLM", "0", {}),
                ("LLM_cfg_text", "1", {"graph_walks": "[image_gen_cfg]"}),
                ("LLM_cfg_img", "2", {"graph_walks": "[image_gen_cfg]"}),
            ),
            "tp2": (
                ("frontend, vit_encoder, vae_encoder, vae_decoder, guide", "0", {}),
                ("llm", "0, 1", {"tp_size": 2}),
            ),
        },
    ),
    Tiny(
        name="qwen3_omni",
        count=4,
        layouts={
            "one": ((f"{_ENCODERS}, prompt, thinker, talker, predictor, code2wav", "0", {}),),
            "two": (
                (f"{_ENCODERS}, prompt, thinker", "0", {}),
                ("talker, predictor, code2wav", "1", {}),
            ),
            "three": (
                (f"{_ENCODERS}, prompt, thinker", "0", {}),
                ("talker, predictor", "1", {}),
                ("code2wav", "2", {}),
            ),
            "numbers": (
                (f"{_ENCODERS}, prompt, thinker", "2", {}),
                ("talker, predictor, code2wav", "3", {}),
            ),
            "walks": (
                (f"{_ENCODERS}, prompt, talker, predictor, code2wav", "0", {}),
                ("thinker", "0", {"graph_walks": "[prefill_text, prefill_audio, prefill_vision]"}),
                ("thinker", "1", {"graph_walks": "[thinker_decode]"}),
            ),
            "tp2": (
                (f"{_ENCODERS}, prompt, predictor, code2wav", "0", {}),
                ("thinker, talker", "0, 1", {"tp_size": 2}),
            ),
        },
    ),
)
# The nodes of each, and the walks that may be on ranks of their own.
_WALKS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "orpheus": {"frontend": (), "lm": ("start", "decode"), "codec": ()},
    "bagel": {
        **dict.fromkeys(("frontend", "vit_encoder", "vae_encoder", "vae_decoder", "guide"), ()),
        "llm": ("prefill_text", "prefill_vit", "prefill_vae", "decode", "image_gen_cfg"),
    },
    "qwen3_omni": {
        **dict.fromkeys(("frontend", "audio_encoder", "vision_encoder", "prompt"), ()),
        # Parts of any kind are one pass.
        "thinker": ("prefill_text", "prefill_audio, prefill_vision", "thinker_decode"),
        "talker": ("talker_prefill", "talker_last_prefill", "talker_decode"),
        **dict.fromkeys(("predictor", "code2wav"), ()),
    },
}
MODELS = {tiny.name: tiny for tiny in TINY}


def compile_layouts(
    name: str, folder: Path, layouts: Mapping[str, Groups] | None = None
) -> LoadedPlan:
    """The model's plan for its layouts, or for others."""
    spec = SPECS_BY_NAME[name]
    outcome = driver.compile_spec(
        spec.source,
        CompileOptions(
            deployments=tuple(
                SourceFile(path=f"{layout.replace(' ', '_')}.yaml", text=_deployment(name, groups))
                for layout, groups in (layouts or MODELS[name].layouts).items()
            ),
            sizes=spec.sizes,
        ),
    )
    assert outcome.files is not None, [found.message for found in outcome.diagnostics]
    write_plan(outcome.files, folder)
    return load_plan(folder)


def random_layout(name: str, seed: int) -> Groups:
    """Nodes anywhere, their walks apart; the same for the same seed."""
    random = Random(f"{name} {seed}")
    ranks = random.choice(((0, 1), (0, 1, 2), (2, 3, 5)))
    made: list[tuple[str, str, Mapping[str, Any]]] = []
    for node, walks in _WALKS[name].items():
        if not walks or random.random() < 0.2:
            made.append((node, str(random.choice(ranks)), {}))
            continue
        placed: dict[int, list[str]] = {}
        for walk in walks:
            placed.setdefault(random.choice(ranks), []).append(walk)
        for rank, chosen in placed.items():
            made.append((node, str(rank), {"graph_walks": f"[{', '.join(chosen)}]"}))
    return tuple(made)


def requests_of(name: str) -> list[PreparedRequest]:
    """What the model is asked: requests of different kinds and lengths."""
    return [_request(name, index) for index in range(MODELS[name].count)]


def _request(name: str, index: int) -> PreparedRequest:
    if name == "orpheus":
        prompt = " ".join(["on and"] * (index % 8 + 1))
        options = {"max_tokens": 28 + 7 * (index % 3), **GREEDY}
        return _prepared(index, {"prompt": prompt}, options, {"speech"})
    if name == "bagel":
        parts = [_text("draw"), _image(index)] if index % 2 else [_text("a bird, a tree")]
        wants = {"picture", "reply"} if index == 3 else {"picture"} if index < 2 else {"reply"}
        sizes = {"height": 64, "width": 80, "steps": 4, "max_tokens": 6}
        options = {**sizes, "image_scale": 2.0, "guide_from": 0.0, **GREEDY}
        return _prepared(index, {"parts": parts_in_order(parts)}, options, wants)
    parts = [_text("say it")] if index % 2 else [_text("what is this?"), _image(index)]
    wants = {"reply"} if index == 3 else {"reply", "speech"}
    options = {"max_tokens": 5 + index, "talker_max_tokens": 6 + index, **QWEN_GREEDY}
    return _prepared(index, {"parts": parts_in_order(parts)}, options, wants)


@contextmanager
def in_process(plan: LoadedPlan, placement: str, cache: Path) -> Iterator[LocalRanks]:
    """All ranks in this process."""
    ranks = LocalRanks(
        plan,
        load_placement(plan, placement),
        settings=RunSettings(cache_dir=cache, threads=1, tile_rows=_TILE_ROWS),
        progress=PlainProgress(nowhere()),
    )
    try:
        yield ranks
    finally:
        ranks.close()


@contextmanager
def as_processes(
    plan: LoadedPlan, placement: str, cache: Path, high_water_mark: int
) -> Iterator[ProcessRanks]:
    """Each rank a process."""
    ranks = ProcessRanks(
        plan,
        load_placement(plan, placement),
        settings=RunSettings(
            cache_dir=cache, threads=1, tile_rows=_TILE_ROWS, high_water_mark=high_water_mark
        ),
        progress=PlainProgress(nowhere()),
        say=lambda text: None,
        start_timeout_s=300,
    )
    try:
        yield ranks
    finally:
        ranks.close()


def answers(ranks: Ranks, requests: list[PreparedRequest]) -> list[Collected]:
    """What all requests make, asked for at once."""
    made = []
    for request in requests:
        listener = Collected()
        ranks.conductor.submit(request, listener)
        made.append(listener)
    run_until_done(ranks)
    return made


def answers_of_half(
    ranks: Ranks, requests: list[PreparedRequest], random: Random
) -> list[Collected]:
    """What every other request makes, while those between are cancelled at some time."""
    made = [Collected() for _ in requests]
    numbers = [
        ranks.conductor.submit(request, listener)
        for request, listener in zip(requests, made, strict=True)
    ]
    for number in numbers[1::2]:
        for _ in range(random.randint(0, 12)):
            if not ranks.turn():
                ranks.wait(0.002)
        ranks.conductor.cancel(number)
    run_until_done(ranks)
    return made[::2]


def as_numbers(made: Collected) -> dict[str, NDArray[Any]]:
    """Every output of a request as one array; text as its letters."""
    found: dict[str, NDArray[Any]] = {
        name: np.frombuffer(text.encode(), np.uint8) for name, text in made.texts.items()
    }
    for name, values in made.values.items():
        parts = [
            np.frombuffer(value, np.float32) if isinstance(value, bytes) else np.asarray(value)
            for value in values
        ]
        found[name] = np.concatenate([part.reshape(-1) for part in parts])
    return found


def _deployment(name: str, groups: Groups) -> str:
    most = max(int(rank) for _, ranks, _ in groups for rank in ranks.split(", "))
    lines = [f"model: {name}", f"devices: {most + 1}xcpu", "max_seq_len: 512"]
    lines += ["max_concurrent_requests: 10", "node_groups:"]
    for nodes, ranks, more in groups:
        lines += [f"  - node_names: [{nodes}]", f"    ranks: [{ranks}]"]
        lines += [f"    {key}: {value}" for key, value in more.items()]
    return "\n".join(lines) + "\n"


def _prepared(
    index: int, inputs: Mapping[str, Any], options: Mapping[str, Any], wants: set[str]
) -> PreparedRequest:
    return PreparedRequest(
        name=str(index), inputs=inputs, options=options, wants=frozenset(wants), seed=index
    )


def _text(value: str) -> Part:
    return Part(kind="text", value=value)


def _image(turn: int) -> Part:
    buffer = BytesIO()
    sample_image(turn=turn).save(buffer, "PNG")
    return Part(kind="image", value=Media(kind="image", content=buffer.getvalue()))
