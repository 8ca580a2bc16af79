"""English text → the phonemes that Kokoro was taught.

espeak-ng (through the shared library that `espeakng-loader` carries) says each stretch of text
between two punctuation marks in IPA; the marks are kept, for they are pauses and tunes to Kokoro;
then IPA is written in Kokoro's alphabet, in which a diphthong is one letter.

The library has one state for the process, so calls are one at a time.
"""

import ctypes
import re
import threading
from functools import cache
from typing import Final

from mstarc_runtime.errors import RuntimeFailure

_RETRIEVE_ONLY: Final = 1
_DO_NOT_EXIT: Final = 0x8000
_UTF8: Final = 1
_TIE: Final = "͡"
# IPA, with a tie between the letters of one sound.
_TIED_IPA: Final = 0x02 | 0x80 | ord(_TIE) << 8
_LANGUAGE: Final = b"en-us"

_MARKS: Final = re.compile(r'([,.;:!?…]+(?=[\s"”)]|$)|[—"“”()])')
_SPELLINGS: Final = (("’", "'"), ("‘", "'"), ("–", "—"), ("--", "—"), ("...", "…"), ("*", ""))

# In this order: `ɜːɹ` before `ɜː`, and ties last.
_ALPHABET: Final = (
    ("ʔn\u0329", "tᵊn"),
    ("n\u0329", "ᵊn"),
    ("l\u0329", "ᵊl"),
    (f"ə{_TIE}l", "ᵊl"),
    (f"a{_TIE}ɪ", "I"),
    (f"a{_TIE}ʊ", "W"),
    (f"e{_TIE}ɪ", "A"),
    (f"o{_TIE}ʊ", "O"),
    (f"ɔ{_TIE}ɪ", "Y"),
    (f"d{_TIE}ʒ", "ʤ"),
    (f"t{_TIE}ʃ", "ʧ"),
    (_TIE, ""),
    ("ɜːɹ", "ɜɹ"),
    ("ɜː", "ɜɹ"),
    ("ɚ", "əɹ"),
    ("oː", "ɔ"),
    ("ɐ", "ə"),
    ("ɾ", "T"),
    ("ʔ", "t"),
    ("r", "ɹ"),
    ("ː", ""),
)


def english_phonemes(text: str) -> str:
    """The phonemes and punctuation of `text`; empty when there is nothing to say.

    Fails with MS9108 where the library is missing.
    """
    for written, meant in _SPELLINGS:
        text = text.replace(written, meant)
    said = []
    for index, part in enumerate(_MARKS.split(text)):
        if index % 2:
            said.append(part if len(part) == 1 else part[-1])
        elif words := _speaker().ipa(part):
            said.append((" " if part[0].isspace() else "") + words + _space_after(part))
        else:
            said.append(" " if part.isspace() else "")
    joined = re.sub(r"\s+", " ", "".join(said)).strip()
    for ipa, letter in _ALPHABET:
        joined = joined.replace(ipa, letter)
    return joined if any(letter.isalpha() for letter in joined) else ""


def _space_after(part: str) -> str:
    return " " if part[-1].isspace() else ""


class _Speaker:
    """espeak-ng, loaded once."""

    def __init__(self) -> None:
        try:
            import espeakng_loader
        except ModuleNotFoundError as error:
            raise RuntimeFailure(
                "MS9108",
                "speaking English needs the package `espeakng-loader`",
                helps=["`pip install 'mstarc[demo]'`"],
            ) from error
        self._lock = threading.Lock()
        self._library = ctypes.CDLL(espeakng_loader.get_library_path())
        self._library.espeak_TextToPhonemes.restype = ctypes.c_char_p
        self._library.espeak_TextToPhonemes.argtypes = [
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.c_int,
            ctypes.c_int,
        ]
        data = espeakng_loader.get_data_path().encode()
        rate = self._library.espeak_Initialize(_RETRIEVE_ONLY, 0, data, _DO_NOT_EXIT)
        status = self._library.espeak_SetVoiceByName(_LANGUAGE)
        assert rate > 0, "espeak-ng did not start"
        assert status == 0, "espeak-ng has no American English"

    def ipa(self, text: str) -> str:
        """IPA of `text`, words between spaces."""
        if not text.strip():
            return ""
        buffer = ctypes.create_string_buffer(text.strip().encode())
        rest = ctypes.c_void_p(ctypes.addressof(buffer))
        said: list[str] = []
        with self._lock:
            while rest.value:
                part = self._library.espeak_TextToPhonemes(ctypes.byref(rest), _UTF8, _TIED_IPA)
                said.append(part.decode().strip())
        return " ".join(part for part in said if part)


@cache
def _speaker() -> _Speaker:
    return _Speaker()
