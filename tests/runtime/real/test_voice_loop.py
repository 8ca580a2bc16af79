"""The spoken question is understood, answered, and the spoken answer is understood word for word.

Real weights through the modules themselves, with the simplest context; what the compiled plan and
the runtime add is tested in `tests/e2e`.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from mstarc_runtime.media.audio import read_audio, resample
from mstarc_runtime.models.kokoro import Voice
from mstarc_runtime.models.llama import Decoder as Llama
from mstarc_runtime.models.voice_chat import Ear, Phonemes
from mstarc_runtime.models.whisper import Decoder as WhisperDecoder
from mstarc_runtime.models.whisper import Encoder as WhisperEncoder
from mstarc_runtime.plan_api import Audio
from mstarc_runtime.weights.load import load, read_config
from tests.support.dense_context import DenseContext
from tests.support.real_weights import real_weights

pytestmark = pytest.mark.real_weights

ROOT = Path(__file__).parents[3]
PROMPT = [50258, 50259, 50359, 50363]
WHISPER_END = 50257
SMOLLM2_END = 2
QUESTIONS = {
    "question": "Why do we sleep?",
    "question_capital": "What is the capital of France?",
    "question_computer": "What is a computer?",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    encoder: WhisperEncoder
    decoder: WhisperDecoder
    llama: Llama
    voice: Voice
    ear: Ear
    mouth: Phonemes


def _build(kind: Any, source: str) -> Any:
    folder = real_weights(source)
    config = read_config(folder)
    module = kind.build(config, dtype=torch.float32, device=torch.device("cpu"))
    load(module, folder)
    return module


@pytest.fixture(scope="module")
def models() -> Models:
    words = real_weights("voice-chat-text")
    return Models(
        encoder=_build(WhisperEncoder, "whisper-base"),
        decoder=_build(WhisperDecoder, "whisper-base"),
        llama=_build(Llama, "smollm2-135m-instruct"),
        voice=_build(Voice, "kokoro-82m"),
        ear=Ear.build({}, folder=words),
        mouth=Phonemes.build({}, folder=words),
    )


def _hear(models: Models, sound: Audio) -> list[int]:
    ctx = DenseContext(1)
    states = models.encoder.encode(ctx, models.ear.mel(sound).unsqueeze(0))
    token = models.decoder.start(ctx.rows([len(PROMPT)]), states, torch.tensor(PROMPT))
    tokens: list[int] = []
    while token.item() != WHISPER_END and len(tokens) < 220:
        tokens.append(int(token.item()))
        token = models.decoder.step(ctx.rows([1]), token)
    return tokens


def _answer(models: Models, heard: list[int]) -> list[int]:
    ctx = DenseContext(1)
    ids = models.ear.prompt(torch.tensor(heard, dtype=torch.int64))
    token = models.llama.prefill(ctx.rows([len(ids)]), ids)
    tokens: list[int] = []
    while token.item() != SMOLLM2_END and len(tokens) < 96:
        tokens.append(int(token.item()))
        token = models.llama.step(ctx.rows([1]), token)
    return tokens


def _clauses(tokens: list[int]) -> list[list[int]]:
    spec = (ROOT / "specs" / "voice_chat.mstar").read_text(encoding="utf-8")
    found = re.search(r"clause_ends\s*:\s*\[int\] = \[([\d,\s]+)\]", spec)
    assert found is not None
    ends = {int(number) for number in found[1].split(",")}
    clauses: list[list[int]] = [[]]
    for token in tokens:
        clauses[-1].append(token)
        if token in ends:
            clauses.append([])
    return [clause for clause in clauses if clause]


def _speak(models: Models, tokens: list[int]) -> NDArray[np.float32]:
    spoken = [
        models.voice.speak(DenseContext(1), models.mouth.phonemes(torch.tensor(clause))[None])
        for clause in _clauses(tokens)
    ]
    return torch.cat(spoken, 1)[0].numpy()


def _text(node: Ear | Phonemes, tokens: list[int]) -> str:
    state = node.begin()
    piece = node.heard if isinstance(node, Ear) else node.said
    return "".join(piece(state, token) for token in tokens) + node.end(state)


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9']+", text.lower().replace("-", " "))


@pytest.mark.parametrize("name", QUESTIONS)
def test_each_question_is_heard_as_it_was_said(models: Models, name: str) -> None:
    sound, notes = read_audio(ROOT / "examples" / f"{name}.wav", 16000)
    assert notes == ()
    with torch.inference_mode():
        assert _text(models.ear, _hear(models, sound)) == QUESTIONS[name]


def test_the_spoken_answer_is_heard_word_for_word(models: Models) -> None:
    sound, _ = read_audio(ROOT / "examples" / "question.wav", 16000)
    with torch.inference_mode():
        reply = _answer(models, _hear(models, sound))
        spoken = Audio(samples=resample(_speak(models, reply), 24000, 16000), rate=16000)
        heard = _hear(models, spoken)
    text = _text(models.mouth, reply)
    assert len(_clauses(reply)) > 1, "one clause can't show that speech begins before the end"
    assert _words(_text(models.ear, heard)) == _words(text)


def test_silence_is_legal_and_is_answered(models: Models) -> None:
    silence = Audio(samples=np.zeros(16000, np.float32), rate=16000)
    with torch.inference_mode():
        reply = _answer(models, _hear(models, silence))
    assert _text(models.mouth, reply)


def test_smollm2_tokens_equal_transformers(models: Models) -> None:
    transformers = pytest.importorskip("transformers")
    folder = real_weights("smollm2-135m-instruct")
    reference = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    heard = models.ear._hearing.encode(" What is the capital of France?")
    ids = models.ear.prompt(torch.tensor(heard))
    with torch.inference_mode():
        expected = reference.generate(ids[None], max_new_tokens=12, do_sample=False)
        reply = _answer(models, heard)
    assert [*reply, SMOLLM2_END] == expected[0, len(ids) :].tolist()
