"""Whole requests through the compiled plan of Qwen3-Omni give what `transformers` gives.

Greedy, float32, tiny: the same tokens, the same codes of speech and the same samples, though the
plan reads part by part, draws a step at a time and decodes the speech in chunks.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from mstarc_runtime.media.audio import read_audio
from mstarc_runtime.models.qwen3_omni import Frontend
from mstarc_runtime.models.qwen3_omni.audio_tower import rows_of
from mstarc_runtime.plan_api import Media, Part, parts_in_order
from tests.runtime.rig import Collected
from tests.support.omni_media import write_media
from tests.support.omni_plan import OmniRanks, compile_tiny, samples_of
from tests.support.omni_reference import Reference, tiny_config

TOKENS, FRAMES = 8, 40
END = 421
CASES: Mapping[str, list[Any]] = {
    "text": ["What is this?"],
    "audio": [{"audio": "long.wav"}],
    "image": [{"image": "wide.png"}],
    "video": [{"video": "film.mp4"}],
    "text around media": [
        "Look: ",
        {"image": "wide.png"},
        " and listen: ",
        {"audio": "short.wav"},
        {"image": "tall.png"},
        "What was it?",
    ],
    "all kinds": [
        {"video": "film.mp4"},
        {"audio": "long.wav"},
        "and",
        {"image": "tall.png"},
        {"video": "film.mp4"},
    ],
    "turns": [
        {"text": "Be brief.", "role": "system"},
        {"image": "wide.png"},
        "What is this?",
        {"text": "A cat.", "role": "assistant"},
        "And this?",
        {"audio": "short.wav"},
    ],
}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return Reference(tmp_path_factory.mktemp("omni"))


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_media(tmp_path_factory.mktemp("media"))


@pytest.fixture(scope="module")
def ranks(reference: Reference, tmp_path_factory: pytest.TempPathFactory) -> OmniRanks:
    folder = tmp_path_factory.mktemp("plan") / "plan"
    return OmniRanks(compile_tiny(folder, reference.folder))


@pytest.fixture(scope="module")
def asked(media: Path, reference: Reference) -> Callable[..., dict[str, Any]]:
    """Parts as the reference model wants them: ids with placeholders, and all media together."""
    config = tiny_config()
    thinker = config["thinker_config"]
    frontend = Frontend.build(config, folder=None)

    def make(given: Sequence[Any], *, films: bool = False) -> dict[str, Any]:
        state = frontend.begin()
        found: dict[str, list[Any]] = {"mel": [], "image": [], "video": []}
        kinds: list[str] = []  # of all rows that encoders make, in their order
        for part in parts_in_order([part_of(entry, media) for entry in given]):
            where = (part.role, part.opens, part.closes, part.last)
            if part.kind == "text":
                frontend.text(state, part.value, *where)
                continue
            if part.kind == "audio":
                mel = frontend.audio(state, part.value, *where)
            elif part.kind == "video" and films:
                px, mel = frontend.film(state, part.value, *where)
            else:
                px = getattr(frontend, part.kind)(state, part.value, *where)
            if part.kind != "audio":
                found[part.kind].append(px)
                kinds += [part.kind] * px.shape[:3].numel()
            if part.kind == "audio" or (films and part.kind == "video"):
                found["mel"].append(mel)
                kinds += ["audio"] * rows_of(mel.shape[1])
        rows = [thinker[f"{kind}_token_id"] for kind in kinds]
        words, made, *_ = frontend.prompt(state)
        ids = [
            rows[number - 1] if number else word
            for word, number in zip(words.tolist(), made.tolist(), strict=True)
        ]
        return {"ids": ids, **features(found)}

    return make


def part_of(entry: Any, media: Path) -> Part:
    if isinstance(entry, str):
        return Part(kind="text", value=entry)
    role = entry.get("role", "user")
    kind = next(key for key in entry if key != "role")
    if kind == "text":
        return Part(kind="text", value=entry["text"], role=role)
    path = media / entry[kind]
    if kind == "audio":
        return Part(kind=kind, value=read_audio(path, None)[0], role=role)
    return Part(kind=kind, value=Media(kind=kind, content=path.read_bytes()), role=role)


def features(found: Mapping[str, list[Any]]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if found["mel"]:
        longest = max(mel.shape[1] for mel in found["mel"])
        given["input_features"] = torch.stack(
            [torch.nn.functional.pad(m, (0, longest - m.shape[1])) for m in found["mel"]]
        )
        given["feature_attention_mask"] = torch.stack(
            [(torch.arange(longest) < m.shape[1]).long() for m in found["mel"]]
        )
    for kind, pixels, grids in (
        ("image", "pixel_values", "image_grid_thw"),
        ("video", "pixel_values_videos", "video_grid_thw"),
    ):
        if found[kind]:
            given[pixels] = torch.cat([px.reshape(-1, 1536) / 127.5 - 1.0 for px in found[kind]])
            given[grids] = torch.tensor(
                [[px.shape[0], 2 * px.shape[1], 2 * px.shape[2]] for px in found[kind]]
            )
    if found["video"]:
        given["video_second_per_grid"] = torch.ones(len(found["video"]))
    return given


def text_of(tokens: Sequence[int]) -> str:
    return bytes(32 + token % 95 for token in tokens).decode().lstrip()


def check(made: Collected, expected: Any) -> None:
    assert made.events[-1] == "finished", made.failure
    assert made.texts["reply"] == text_of(expected.tokens)
    samples = samples_of(made)
    assert samples.shape == (1920 * expected.codes.shape[1] - 555,)
    torch.testing.assert_close(samples, expected.samples, rtol=0, atol=1e-4)


@pytest.mark.parametrize("case", CASES)
def test_a_request_gives_what_transformers_gives(
    ranks: OmniRanks,
    reference: Reference,
    media: Path,
    asked: Callable[..., dict[str, Any]],
    case: str,
) -> None:
    made = ranks.submit(CASES[case], media, max_tokens=TOKENS, talker_max_tokens=FRAMES)
    ranks.run()
    given = asked(CASES[case])
    expected = reference.answer(given.pop("ids"), tokens=TOKENS, frames=FRAMES, eos=END, **given)
    check(made, expected)


@pytest.mark.parametrize(
    "parts",
    [
        [{"video": "talk.mp4"}, "What is said?"],
        [{"image": "wide.png"}, {"video": "talk.mp4"}, {"audio": "short.wav"}],
    ],
)
def test_a_film_with_its_sound_gives_what_transformers_gives(
    ranks: OmniRanks,
    reference: Reference,
    media: Path,
    asked: Callable[..., dict[str, Any]],
    parts: list[Any],
) -> None:
    made = ranks.submit(
        parts, media, max_tokens=TOKENS, talker_max_tokens=FRAMES, use_audio_in_video=True
    )
    ranks.run()
    given = asked(parts, films=True)
    expected = reference.answer(
        given.pop("ids"), tokens=TOKENS, frames=FRAMES, eos=END, use_audio_in_video=True, **given
    )
    check(made, expected)


def test_text_and_speech_end_where_transformers_ends_them(
    ranks: OmniRanks,
    reference: Reference,
    media: Path,
    asked: Callable[..., dict[str, Any]],
) -> None:
    made = ranks.submit(["moon"], media, max_tokens=40, talker_max_tokens=200)
    ranks.run()
    expected = reference.answer(asked(["moon"])["ids"], tokens=40, frames=200, eos=END)
    assert expected.codes is not None
    assert len(expected.tokens) < 40, "the Thinker draws the end of the text"
    assert expected.codes.shape[1] < 200, "the Talker draws the end of the speech"
    check(made, expected)
