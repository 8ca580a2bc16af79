"""The host nodes of `voice_chat`: sound to spectrogram, tokens to words, words to phonemes.

`Ear` hears the question and writes the prompt; `Phonemes` reads the reply's tokens aloud, so to
say, before `kokoro:Voice` does. Their files are those of the weights `voice-chat-text`; without a
folder (random weights) a letter is a token and any phoneme id will do.

A class with a `stateful` op has `begin()`, which makes the state of one request, and `end(state)`,
which gives the text that is left when its tokens are over.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import torch
from torch import Tensor

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.media.log_mel import LONGEST_S, RATE, log_mel
from mstarc_runtime.media.phonemes import english_phonemes
from mstarc_runtime.media.tokens import (
    AsciiVocabulary,
    FileVocabulary,
    TextState,
    Vocabulary,
    decode,
)
from mstarc_runtime.plan_api import Audio
from mstarc_runtime.weights.load import read_json

_SYSTEM: Final = "You are a helpful voice assistant. Answer in short plain sentences."
_NOTHING_HEARD: Final = "I said nothing. Ask me to repeat the question."
_BOUNDARY: Final = 0  # begins and ends every utterance of Kokoro


class Ear:
    """Hears a question: spectrogram, transcript, prompt."""

    stateful = ("heard",)

    def __init__(self, hearing: Vocabulary, thinking: Vocabulary, turns: "_Turns") -> None:
        self._hearing = hearing
        self._thinking = thinking
        self._turns = turns

    @classmethod
    def build(cls, config: Mapping[str, Any], *, folder: Path | None, **_: object) -> Self:
        if folder is None:
            letters = AsciiVocabulary(int(config.get("vocab_size", 95)))
            return cls(letters, letters, _Turns(letters, opens=(), closes=()))
        thinking = FileVocabulary(folder / "smollm2" / "tokenizer.json")
        opens, closes = thinking.token("<|im_start|>"), thinking.token("<|im_end|>")
        turns = _Turns(thinking, opens=(opens,), closes=(closes,))
        return cls(FileVocabulary(folder / "whisper" / "tokenizer.json"), thinking, turns)

    def mel(self, question: Audio) -> Tensor:
        """Log-mel features f32[80, 3000] of sound at 16 kHz. Fails with MS9203 or MS9204."""
        assert question.rate == RATE, "a request's sound has the rate that its spec declares"
        if len(question.samples) == 0:
            raise RuntimeFailure("MS9203", "the question holds no samples")
        seconds = len(question.samples) / question.rate
        if seconds > LONGEST_S:
            raise RuntimeFailure(
                "MS9204",
                f"the question is {seconds:.1f} s long",
                notes=[f"Whisper hears {LONGEST_S} s at a time"],
                helps=[f"cut the recording to {LONGEST_S} s or less"],
            )
        return log_mel(question.samples)

    def begin(self) -> TextState:
        return TextState()

    def heard(self, state: TextState, token: int) -> str:
        """The characters of the transcript that `token` completes."""
        return state.feed(self._hearing.bytes_of(int(token)))

    def end(self, state: TextState) -> str:
        return state.feed(b"", final=True)

    def prompt(self, heard: Tensor) -> Tensor:
        """SmolLM2's prompt i64[T] for a transcript of Whisper's tokens i64[N], N >= 0."""
        question = decode(self._hearing, heard.tolist()).strip()
        ids = [
            *self._turns.turn("system", _SYSTEM),
            *self._turns.turn("user", question or _NOTHING_HEARD),
            *self._turns.opening("assistant"),
        ]
        return torch.tensor(ids, dtype=torch.int64)


class Phonemes:
    """Reads a reply: its text for people, its phonemes for the voice."""

    stateful = ("said",)

    def __init__(self, words: Vocabulary, alphabet: Mapping[str, int] | int) -> None:
        self._words = words
        self._alphabet = alphabet

    @classmethod
    def build(cls, config: Mapping[str, Any], *, folder: Path | None, **_: object) -> Self:
        if folder is None:
            letters = AsciiVocabulary(int(config.get("vocab_size", 95)))
            return cls(letters, int(config.get("n_token", 178)))
        words = FileVocabulary(folder / "smollm2" / "tokenizer.json")
        return cls(words, read_json(folder / "kokoro" / "phonemes.json"))

    def begin(self) -> TextState:
        return TextState()

    def said(self, state: TextState, token: int) -> str:
        """The characters of the reply that `token` completes."""
        return state.feed(self._words.bytes_of(int(token)))

    def end(self, state: TextState) -> str:
        return state.feed(b"", final=True)

    def phonemes(self, clause: Tensor) -> Tensor:
        """Kokoro's ids i64[P] of a clause's tokens i64[C], with a boundary at both ends.

        P is 0 where nothing can be said: white space, lone punctuation, letters of no language
        that the speaker knows.
        """
        ids = self._ids(english_phonemes(decode(self._words, clause.tolist())))
        return torch.tensor([_BOUNDARY, *ids, _BOUNDARY] if ids else [], dtype=torch.int64)

    def _ids(self, phonemes: str) -> list[int]:
        if isinstance(self._alphabet, int):
            return [1 + ord(letter) % (self._alphabet - 1) for letter in phonemes]
        return [self._alphabet[letter] for letter in phonemes if letter in self._alphabet]


class _Turns:
    """Turns of a conversation as tokens: marks around who speaks and what."""

    def __init__(
        self, vocabulary: Vocabulary, *, opens: Sequence[int], closes: Sequence[int]
    ) -> None:
        self._vocabulary = vocabulary
        self._opens = opens
        self._closes = closes

    def opening(self, role: str) -> list[int]:
        return [*self._opens, *self._vocabulary.encode(f"{role}\n")]

    def turn(self, role: str, text: str) -> list[int]:
        said = self._vocabulary.encode(f"{role}\n{text}")
        return [*self._opens, *said, *self._closes, *self._vocabulary.encode("\n")]
