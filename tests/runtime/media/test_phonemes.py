"""English in Kokoro's alphabet, with its punctuation."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.media import phonemes
from mstarc_runtime.media.phonemes import english_phonemes

pytest.importorskip("espeakng_loader")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Hello, world!", "həlˈO, wˈɜɹld!"),
        ("The judge chose a boy.", "ðə ʤˈʌʤ ʧˈOz ə bˈY."),
        ("Pi is 3.14 today", "pˈI ɪz θɹˈi pYnt wˈʌn fˈɔɹ tədˈA"),
        ("(yes) “no”", "(jˈɛs) “nˈO”"),
        ("Wait... what?", "wˈAt… wˌʌt?"),
        ("it's", "ɪts"),
        ("it’s", "ɪts"),
    ],
)
def test_words_are_said_and_marks_are_kept(text: str, said: str) -> None:
    assert english_phonemes(text) == said


@pytest.mark.parametrize("text", ["", "  \n", "...", "—", "“”", "!?"])
def test_what_has_no_words_has_no_phonemes(text: str) -> None:
    assert english_phonemes(text) == ""


def test_threads_do_not_disturb_one_another() -> None:
    texts = [f"Number {n} of the {n} numbers." for n in range(24)]
    alone = [english_phonemes(text) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(english_phonemes, texts)) == alone


def test_without_the_package_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)
    with pytest.raises(RuntimeFailure) as caught:
        phonemes._Speaker()
    assert caught.value.code == "MS9108"
    assert "pip install" in caught.value.helps[0]
