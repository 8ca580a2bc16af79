"""Whole characters come out, whatever way tokens cut them."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.media.tokens import AsciiVocabulary, FileVocabulary, TextState, decode


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> FileVocabulary:
    """A token for every byte, `he` and one special token."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {letter: index for index, letter in enumerate(letters)} | {"he": 256}
    tokenizer = Tokenizer(models.BPE(vocab=words, merges=[("h", "e")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|end|>", special=True)])
    path = tmp_path_factory.mktemp("tokens") / "tokenizer.json"
    tokenizer.save(str(path))
    return FileVocabulary(path)


@given(text=st.text())
def test_any_text_comes_back_and_no_piece_holds_half_a_character(
    vocabulary: FileVocabulary, text: str
) -> None:
    text = text.encode("utf-8", "ignore").decode().lstrip()
    state = TextState()
    pieces = [state.feed(vocabulary.bytes_of(token)) for token in vocabulary.encode(text)]
    pieces.append(state.feed(b"", final=True))
    assert "".join(pieces) == text
    assert all("\ufffd" not in piece for piece in pieces) or "\ufffd" in text


def test_a_character_of_four_bytes_comes_with_its_last_token(vocabulary: FileVocabulary) -> None:
    tokens = vocabulary.encode("🎵")
    assert len(tokens) == 4
    state = TextState()
    assert [state.feed(vocabulary.bytes_of(t)) for t in tokens] == ["", "", "", "🎵"]


def test_an_unfinished_character_is_shown_as_such_at_the_end(vocabulary: FileVocabulary) -> None:
    state = TextState()
    assert state.feed(vocabulary.bytes_of(vocabulary.encode("é")[0])) == ""
    assert state.feed(b"", final=True) == "\ufffd"


def test_special_tokens_have_no_text_and_can_not_be_written_by_text(
    vocabulary: FileVocabulary,
) -> None:
    special = vocabulary.token("<|end|>")
    assert vocabulary.bytes_of(special) == b""
    assert vocabulary.bytes_of(10**6) == b""
    assert special not in vocabulary.encode("say <|end|> now")
    assert decode(vocabulary, vocabulary.encode("say <|end|> now")) == "say <|end|> now"


def test_space_before_the_first_word_is_dropped_and_later_space_is_kept() -> None:
    state = TextState()
    assert [state.feed(part) for part in (b" ", b" Why", b" not")] == ["", "Why", " not"]


def test_letters_are_tokens_where_there_is_no_file() -> None:
    letters = AsciiVocabulary(95)
    assert decode(letters, letters.encode("a plain word")) == "a plain word"
    assert all(token < 40 for token in AsciiVocabulary(40).encode("any ~ letter é"))


def test_a_broken_tokenizer_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(RuntimeFailure) as caught:
        FileVocabulary(tmp_path / "tokenizer.json")
    assert caught.value.code == "MS9107"


def test_older_files_cut_text_as_transformers_does(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = ["h e", "l l", "he ll", "Ġ w", "o r", "Ċ Ċ", "1 2"]
    words = [*letters, *(pair.replace(" ", "") for pair in pairs)]
    (tmp_path / "vocab.json").write_text(json.dumps({word: n for n, word in enumerate(words)}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "\n".join(pairs) + "\n")
    added = {str(len(words)): {"content": "<|im_end|>", "special": True}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}))
    made = FileVocabulary.of_folder(tmp_path)
    assert made.token("<|im_end|>") == len(words)
    vocabulary = {word: n for n, word in enumerate(words)}
    merges = [tuple(pair.split()) for pair in pairs]
    reference = transformers.Qwen2TokenizerFast(vocab=vocabulary, merges=merges)
    for text in ("hello world", "\nhello\n\n 12 345", "I'll  go!\r\n", "ünïcode 日本", " \t x"):
        expected = reference(text)["input_ids"]
        assert made.encode(text) == expected
    assert len(words) not in made.encode("<|im_end|>"), "a user's word is no mark"


def test_a_folder_without_words_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailure) as caught:
        FileVocabulary.of_folder(tmp_path)
    assert caught.value.code == "MS9104"
