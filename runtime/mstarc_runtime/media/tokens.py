"""Tokens ↔ text for byte-level vocabularies, one token at a time.

A token stands for bytes, and a character may be cut in two by tokens: `TextState` keeps the bytes
of an unfinished character, so that every piece that goes out is whole. Special tokens have no text.
"""

import codecs
import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol, Self

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

from mstarc_runtime.errors import RuntimeFailure


class Vocabulary(Protocol):
    """What reads and writes tokens."""

    def bytes_of(self, token: int) -> bytes:
        """What a token stands for; nothing for special tokens and those out of range."""
        ...

    def encode(self, text: str) -> list[int]:
        """The tokens of `text`; words that look like special tokens are plain text."""
        ...


class TextState:
    """The text of one sequence as it grows."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._has_begun = False

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """The characters that `data` completes. White space before the first word is dropped."""
        piece = self._decoder.decode(data, final)
        if not self._has_begun:
            piece = piece.lstrip()
            self._has_begun = bool(piece)
        return piece


# How Qwen's words are cut before pairs are merged.
_CUTS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class FileVocabulary:
    """A byte-level BPE from a `tokenizer.json`, or from the older `vocab.json` and `merges.txt`."""

    def __init__(self, path: Path) -> None:
        try:
            self._tokenizer = (
                Tokenizer.from_file(str(path)) if path.is_file() else _older(path.parent)
            )
        except Exception as error:  # the library raises bare Exception for every fault of a file
            raise RuntimeFailure(
                "MS9107", f"`{path}` is not a tokenizer file", notes=[str(error)]
            ) from error
        self._tokenizer.encode_special_tokens = True
        self._special = {
            token for token, added in self._tokenizer.get_added_tokens_decoder().items()
            if added.special
        }  # fmt: skip

    @classmethod
    def of_folder(cls, folder: Path) -> Self:
        """The vocabulary of a checkpoint. Fails with MS9104 where it has none."""
        path = folder / "tokenizer.json"
        if not path.is_file() and not (folder / "vocab.json").is_file():
            raise RuntimeFailure("MS9104", f"`{folder}` has neither tokenizer.json nor vocab.json")
        return cls(path)

    def bytes_of(self, token: int) -> bytes:
        return self._table[token] if 0 <= token < len(self._table) else b""

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def token(self, word: str) -> int:
        """The id of a special token."""
        found = self._tokenizer.token_to_id(word)
        assert found is not None, f"the tokenizer has no `{word}`"
        return int(found)

    @cached_property
    def _table(self) -> Sequence[bytes]:
        letters = _byte_letters()
        table = [b""] * self._tokenizer.get_vocab_size()
        for word, token in self._tokenizer.get_vocab().items():
            if token not in self._special:
                table[token] = bytes(letters[letter] for letter in word)
        return table


class AsciiVocabulary:
    """A letter a token, for models with random weights: no file, any size.

    `newline` is the id of a line break, where a model has one for it.
    """

    def __init__(self, size: int, newline: int = 0) -> None:
        self._size = size
        self._newline = newline

    def bytes_of(self, token: int) -> bytes:
        return bytes([32 + token % 95])

    def encode(self, text: str) -> list[int]:
        return [
            self._newline if letter == "\n" else max(0, ord(letter) - 32) % self._size
            for letter in text
        ]


def _older(folder: Path) -> Tokenizer:
    """The words and merges of Qwen's older files, and the added words of tokenizer_config.json."""
    bpe = models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    made = Tokenizer(bpe)
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_CUTS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    config = folder / "tokenizer_config.json"
    added = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
    words = sorted((int(id_), word) for id_, word in added.get("added_tokens_decoder", {}).items())
    for id_, word in words:
        token = AddedToken(word["content"], special=word["special"], normalized=False)
        (made.add_special_tokens if word["special"] else made.add_tokens)([token])
        assert made.token_to_id(word["content"]) == id_, f"`{word['content']}` is not {id_}"
    return made


def decode(vocabulary: Vocabulary, tokens: Iterable[int]) -> str:
    """The text of a whole sequence."""
    state = TextState()
    return state.feed(b"".join(vocabulary.bytes_of(token) for token in tokens), final=True)


def _byte_letters() -> dict[str, int]:
    """The printable letter that byte-level BPE writes for every byte, to that byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in printable]
    shown = {chr(byte): byte for byte in printable}
    return shown | {chr(256 + index): byte for index, byte in enumerate(hidden)}
