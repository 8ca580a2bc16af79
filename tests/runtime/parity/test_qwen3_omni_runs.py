"""What else Qwen3-Omni's plan does: text alone, many at once, options, streams, refusals."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from mstarc_runtime.assembly import Extras
from mstarc_runtime.attention.torch_reference import TorchAttention
from mstarc_runtime.engine.context import StatelessContext
from mstarc_runtime.engine.fake import FakeGraphExecutor
from tests.runtime.rig import Collected
from tests.support.omni_media import write_media
from tests.support.omni_plan import OmniRanks, compile_tiny, samples_of
from tests.support.omni_reference import Reference

TOGETHER = """
model: qwen3_omni
devices: 1xcpu
max_seq_len: 2048
max_concurrent_requests: 8
node_groups:
  - node_names: [frontend, audio_encoder, vision_encoder, Thinker, Talker, Code2Wav]
    ranks: [0]
"""
APART = """
model: qwen3_omni
devices: 2xcpu
max_seq_len: 2048
max_concurrent_requests: 8
node_groups:
  - node_names: [frontend, audio_encoder, vision_encoder, Thinker]
    ranks: [0]
  - node_names: [Talker, Code2Wav]
    ranks: [1]
"""
PARTS: Sequence[list[Any]] = (
    ["What is this?"],
    [{"audio": "short.wav"}, "Who?"],
    ["See:", {"image": "wide.png"}],
    [{"video": "film.mp4"}],
    [{"text": "Be brief.", "role": "system"}, "And now?"],
)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    weights = Reference(tmp_path_factory.mktemp("omni")).folder
    folder = tmp_path_factory.mktemp("plan") / "plan"
    return compile_tiny(folder, weights, deployments={"together": TOGETHER, "apart": APART})


@pytest.fixture(scope="module")
def colocated(tmp_path_factory: pytest.TempPathFactory, plan: Path) -> OmniRanks:
    return OmniRanks(plan, "together")


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_media(tmp_path_factory.mktemp("media"))


def ask(ranks: OmniRanks, media: Path, parts: Sequence[Any], **options: Any) -> Collected:
    limits = {"max_tokens": 7, "talker_max_tokens": 13}
    made = ranks.submit(parts, media, **{**limits, **options})
    ranks.run()
    assert made.events[-1] == "finished", made.failure
    return made


def told(made: Collected) -> tuple[Any, ...]:
    return made.texts.get("reply"), b"".join(made.values.get("speech", []))


def test_text_alone_touches_nothing_of_the_talker(plan: Path, media: Path) -> None:
    ranks = OmniRanks(plan, "together")
    parts = ranks.ranks.workers[0].parts
    for node in ("talker", "predictor"):
        parts.kv[node].module = None  # type: ignore[assignment]
    parts.stateless["code2wav"].module = None  # type: ignore[assignment]
    before = {node: parts.kv[node].snapshot() for node in ("talker", "predictor")}
    made = ask(ranks, media, PARTS[0], wants=("reply",))
    assert len(made.texts["reply"]) > 0
    assert "speech" not in made.values
    assert {node: parts.kv[node].snapshot() for node in before} == before


def test_speech_alone_is_the_speech_of_both(colocated: OmniRanks, media: Path) -> None:
    both = ask(colocated, media, PARTS[0])
    alone = ask(colocated, media, PARTS[0], wants=("speech",))
    assert "reply" not in alone.texts
    assert told(alone)[1] == told(both)[1]


@pytest.mark.parametrize(
    ("placement", "drawn"), [("together", True), ("together", False), ("apart", False)]
)
def test_five_at_once_on_any_ranks_say_what_each_says_alone(
    plan: Path, colocated: OmniRanks, media: Path, placement: str, drawn: bool
) -> None:
    heat = {"temperature": 1.0, "talker_temperature": 1.0, "code_temperature": 1.0}
    options = [{**(heat if drawn else {}), "seed": seed} for seed in range(len(PARTS))]
    alone = [
        told(ask(colocated, media, parts, **own)) for parts, own in zip(PARTS, options, strict=True)
    ]
    ranks = OmniRanks(plan, placement)
    together = []
    for parts, own in zip(PARTS, options, strict=True):
        together.append(ranks.submit(parts, media, max_tokens=7, talker_max_tokens=13, **own))
        for _ in range(3):
            ranks.ranks.turn()
    ranks.run()
    assert [told(made) for made in together] == alone


def test_captured_regions_say_what_eager_ones_say(plan: Path, media: Path) -> None:
    executor = FakeGraphExecutor()
    told_by = []
    for chosen in (executor, None):
        extras = Extras(
            executor=chosen, attention=lambda cache: TorchAttention(cache, row_by_row=False)
        )
        ranks = OmniRanks(plan, "together", extras=extras)
        made = [
            ranks.submit(parts, media, max_tokens=7, talker_max_tokens=9, talker_temperature=0.9)
            for parts in PARTS[:3]
        ]
        ranks.run()
        assert [one.failure for one in made] == [None] * len(made)
        told_by.append([told(one) for one in made])
    assert told_by[0] == told_by[1]
    assert executor.replays > 0
    assert not executor.eager_runs


def test_each_sampler_follows_its_own_options(colocated: OmniRanks, media: Path) -> None:
    greedy = told(ask(colocated, media, PARTS[0]))
    codes = told(ask(colocated, media, PARTS[0], code_temperature=1.0, seed=1))
    frames = told(ask(colocated, media, PARTS[0], talker_temperature=1.0, seed=1))
    assert codes[0] == frames[0] == greedy[0], "the text is the Thinker's alone"
    assert len({greedy[1], codes[1], frames[1]}) == 3
    texts = {told(ask(colocated, media, PARTS[0], temperature=1.0, seed=n))[0] for n in (1, 2, 3)}
    assert len(texts) == 3
    penalised = {"talker_repetition_penalty": 2.0, "talker_top_k": 1}
    assert told(ask(colocated, media, PARTS[0], **penalised))[1] != greedy[1]


def test_a_seed_gives_the_same_again(colocated: OmniRanks, media: Path) -> None:
    drawn = {"temperature": 1.0, "talker_temperature": 1.0, "code_temperature": 1.0, "seed": 5}
    assert told(ask(colocated, media, PARTS[2], **drawn)) == told(
        ask(colocated, media, PARTS[2], **drawn)
    )


def test_voices_differ(colocated: OmniRanks, media: Path) -> None:
    made = {
        voice: told(ask(colocated, media, PARTS[0], voice=voice)) for voice in ("ethan", "aiden")
    }
    assert made["ethan"][0] == made["aiden"][0]
    assert made["ethan"][1] != made["aiden"][1]


@pytest.mark.parametrize("frames", [1, 7, 25, 60, 116])
def test_streamed_sound_is_the_sound_of_one_call(
    colocated: OmniRanks, media: Path, frames: int
) -> None:
    vocoder = colocated.ranks.workers[0].parts.stateless["code2wav"]
    heard: list[torch.Tensor] = []
    usual = vocoder.decode

    def listen(batch: Any, window: torch.Tensor) -> torch.Tensor:
        heard.append(window[0, batch.old :].clone())
        made: torch.Tensor = usual(batch, window)
        return made

    vocoder.__dict__["decode"] = listen
    try:
        made = ask(colocated, media, PARTS[0], talker_max_tokens=frames)
    finally:
        vocoder.__dict__["decode"] = usual
    codes = torch.cat(heard)
    assert len(codes) == frames or 60 < len(codes) < frames, "the speech may end by itself"
    context = StatelessContext(batch=1, device=torch.device("cpu"))
    at_once = vocoder.module.decode(context, codes[None])[0]  # type: ignore[operator]
    streamed = samples_of(made)
    assert streamed.shape == at_once.shape == (1920 * len(codes) - 555,)
    torch.testing.assert_close(streamed, at_once, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (["Hi", {"text": "Hello.", "role": "assistant"}], "ends with a turn of `assistant`"),
        ([{"text": "Hi", "role": "judge"}], "a turn of `judge`"),
        ([{"image": "short.wav"}], "an image can't be read"),
        (["a" * 4090], "more than 4096 positions"),
        ([{"video": "wide.png"}], "a video can't be read"),
    ],
)
def test_what_cannot_be_answered_is_refused(
    colocated: OmniRanks, media: Path, parts: list[Any], said: str
) -> None:
    made = colocated.submit(parts, media, max_tokens=2, wants=("reply",))
    colocated.run()
    assert made.failure is not None
    assert said in str(made.failure)
    assert told(ask(colocated, media, PARTS[0], wants=("reply",)))[0]


def test_a_film_without_sound_is_not_heard(colocated: OmniRanks, media: Path) -> None:
    made = colocated.submit(
        [{"video": "film.mp4"}], media, use_audio_in_video=True, wants=("reply",)
    )
    colocated.run()
    assert made.failure is not None
    assert "a video has no sound" in str(made.failure)


@pytest.mark.parametrize("placement", ["together", "apart"])
def test_a_cancelled_request_leaves_nothing_and_disturbs_nobody(
    plan: Path, colocated: OmniRanks, media: Path, placement: str
) -> None:
    alone = told(ask(colocated, media, PARTS[0]))
    ranks = OmniRanks(plan, placement)
    workers = ranks.ranks.workers
    before = [worker.snapshot() for worker in workers]
    for turns in (0, 1, 2, 4, 7, 11, 16, 24, 35, 60):
        kept = ranks.submit(PARTS[0], media, max_tokens=7, talker_max_tokens=13)
        number = ranks.number
        gone = ranks.submit(PARTS[2], media, max_tokens=7, talker_max_tokens=13)
        for _ in range(turns):
            ranks.ranks.turn()
        ranks.ranks.conductor.cancel(ranks.number)
        assert ranks.number != number
        ranks.run()
        assert gone.events[-1] in ("cancelled", "finished")
        assert told(kept) == alone
    for _ in range(20):
        ranks.ranks.turn()
    assert [worker.snapshot() for worker in workers] == before
