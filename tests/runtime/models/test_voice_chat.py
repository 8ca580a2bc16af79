"""The host nodes: what they refuse, and what they make of words."""

import numpy as np
import pytest
import torch

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.models.voice_chat import Ear, Phonemes
from mstarc_runtime.plan_api import Audio
from tests.support.real_weights import real_weights

NOTHING = torch.zeros(0, dtype=torch.int64)


@pytest.fixture(scope="module")
def ear() -> Ear:
    return Ear.build({"vocab_size": 95}, folder=None)


@pytest.fixture(scope="module")
def mouth() -> Phonemes:
    return Phonemes.build({"vocab_size": 95, "n_token": 50}, folder=None)


def _audio(seconds: float) -> Audio:
    random = np.random.default_rng(0)
    samples = 0.1 * random.standard_normal(int(seconds * 16000))
    return Audio(samples=samples.astype(np.float32), rate=16000)


def test_half_a_minute_is_heard_and_more_is_refused_with_the_limit(ear: Ear) -> None:
    assert ear.mel(_audio(30.0)).shape == (80, 3000)
    with pytest.raises(RuntimeFailure) as caught:
        ear.mel(_audio(31.5))
    assert caught.value.code == "MS9204"
    assert "31.5 s" in caught.value.message
    assert "30 s" in caught.value.notes[0]


def test_an_empty_question_is_refused(ear: Ear) -> None:
    with pytest.raises(RuntimeFailure) as caught:
        ear.mel(_audio(0.0))
    assert caught.value.code == "MS9203"


def test_a_request_has_a_state_of_its_own(ear: Ear) -> None:
    one, other = ear.begin(), ear.begin()
    hello = [ord(letter) - 32 for letter in " hi"]
    assert "".join(ear.heard(one, token) for token in hello) == "hi"
    assert ear.heard(other, hello[0]) == ""
    assert ear.end(one) == ear.end(other) == ""


def test_a_prompt_is_made_even_where_nothing_was_heard(ear: Ear) -> None:
    assert len(ear.prompt(NOTHING)) > 0
    assert ear.prompt(NOTHING).dtype == torch.int64


def test_a_clause_without_words_has_no_phonemes(mouth: Phonemes) -> None:
    pytest.importorskip("espeakng_loader")
    assert mouth.phonemes(NOTHING).shape == (0,)
    ids = mouth.phonemes(torch.tensor([ord(letter) - 32 for letter in "word"]))
    assert ids[0] == ids[-1] == 0
    assert ((ids >= 0) & (ids < 50)).all()


@pytest.mark.real_weights
def test_the_prompt_equals_the_public_chat_template() -> None:
    transformers = pytest.importorskip("transformers")
    ear = Ear.build({}, folder=real_weights("voice-chat-text"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(real_weights("smollm2-135m-instruct"))
    heard = [*ear._hearing.encode(" What is the capital of France?"), 50257]
    ids = ear.prompt(torch.tensor(heard)).tolist()
    text = tokenizer.decode(ids)
    system = text.split("<|im_end|>")[0].removeprefix("<|im_start|>system\n")
    turns = [
        {"role": "system", "content": system},
        {"role": "user", "content": "What is the capital of France?"},
    ]
    template = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
    assert ids == tokenizer(template, add_special_tokens=False).input_ids


@pytest.mark.real_weights
def test_an_empty_transcript_says_so_in_the_prompt() -> None:
    folder = real_weights("voice-chat-text")
    ear, mouth = Ear.build({}, folder=folder), Phonemes.build({}, folder=folder)
    state = mouth.begin()
    text = "".join(mouth.said(state, token) for token in ear.prompt(NOTHING).tolist())
    assert "I said nothing." in text


@pytest.mark.real_weights
def test_every_phoneme_of_a_clause_is_in_the_voice_s_alphabet() -> None:
    mouth = Phonemes.build({}, folder=real_weights("voice-chat-text"))
    clause = mouth._words.encode(" The judge chose a boy, near the water button.")
    ids = mouth.phonemes(torch.tensor(clause)).tolist()
    assert ids[0] == ids[-1] == 0
    assert ids[-2] == 4, "the full stop is kept"
    assert all(0 < number < 178 for number in ids[1:-1])
