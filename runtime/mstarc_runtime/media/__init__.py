"""Sound and words at the edges of a request.

Files → mono float32 at the rate that a spec asks for, samples → a wav file that is whole at every
moment (`audio`); a recording → Whisper's spectrogram (`log_mel`); tokens ↔ text, whole characters
only (`tokens`); English → phonemes (`phonemes`). Nothing here knows a plan or a request.

Start with `audio`.
"""
