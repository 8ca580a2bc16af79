"""Kokoro: phonemes become speech (the StyleTTS 2 family with an inverse-STFT vocoder).

Phoneme ids → text features and a duration each → pitch and loudness curves → a spectrogram-like
signal → samples at 24 kHz. One file a stage; `voice` puts them in a row and is what specs name.
Weights have the names of the public checkpoint, with weight norm folded in.

Not here: how words become phonemes (`models.voice_chat`). Start with `voice`.
"""

from mstarc_runtime.models.kokoro.voice import Voice

__all__ = ["Voice"]
