"""The node: phoneme ids of a clause become its sound in one voice."""

from collections.abc import Mapping
from typing import Any, Final, Self

import torch
from torch import Tensor, nn

from mstarc_runtime.engine.context import OpContext
from mstarc_runtime.models.kokoro.albert import Albert
from mstarc_runtime.models.kokoro.generator import Decoder
from mstarc_runtime.models.kokoro.prosody import ProsodyPredictor, TextEncoder
from mstarc_runtime.weights.counter import seed_of

_STYLE_ROWS: Final = 510
_PAUSE_ID: Final = 16  # the space between words


class Voice(nn.Module):
    """Kokoro with one of its voices (config key `voice`), 24,000 samples a second."""

    ignored_weights = r"voices\..*"  # the other voices

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        width, style = int(config["hidden_dim"]), int(config["style_dim"])
        vocabulary, depth = int(config["n_token"]), int(config["n_layer"])
        self._voice = str(config["voice"])
        self._most_ids = int(config["plbert"]["max_position_embeddings"])
        self.bert = Albert(vocabulary, config["plbert"])
        self.bert_encoder = nn.Linear(int(config["plbert"]["hidden_size"]), width)
        self.predictor = ProsodyPredictor(style, width, depth, int(config["max_dur"]))
        kernel = int(config["text_encoder_kernel_size"])
        self.text_encoder = TextEncoder(width, kernel, depth, vocabulary)
        self.decoder = Decoder(width, style, config["istftnet"], int(config["sampling_rate"]))
        rows = int(config.get("voice_rows", _STYLE_ROWS))
        self.styles: Tensor
        self.register_buffer("styles", torch.zeros(rows, 1, 2 * style))

    @classmethod
    def build(cls, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device) -> Self:
        with torch.device(device):
            return cls(config).to(dtype).requires_grad_(False).eval()

    def weight_map(self) -> Mapping[str, str]:
        own = {name: name for name, _ in self.named_parameters()}
        return own | {"styles": f"voices.{self._voice}"}

    def speak(self, ctx: OpContext, ids: Tensor) -> Tensor:
        """Samples f32[1, S] of phoneme ids i64[1, P]; S = 0 for P = 0.

        Ids begin and end with 0. One utterance a call: how long it gets is only known here. More
        phonemes than the model has positions for are spoken in parts, cut between words.
        """
        assert ids.shape[0] == 1, "utterances differ in length and can't share a call"
        if ids.shape[1] == 0:
            return torch.zeros(1, 0, device=ids.device)
        phonemes = ids[0, 1:-1]
        parts = _cut(phonemes.tolist(), min(self._most_ids - 2, len(self.styles)))
        return torch.cat([self._speak_part(part, ids.device) for part in parts], 1)

    def _speak_part(self, phonemes: list[int], device: torch.device) -> Tensor:
        ids = torch.tensor([[0, *phonemes, 0]], device=device)
        sound_style, prosody_style = self.styles[len(phonemes) - 1].chunk(2, 1)
        features = self.bert_encoder(self.bert(ids))
        frames, styled = self.predictor.durations(features, prosody_style)
        owner = torch.repeat_interleave(frames)
        pitch, loudness = self.predictor.curves(styled[:, owner], prosody_style)
        text = self.text_encoder(ids)[:, :, owner]
        samples: Tensor = self.decoder(text, pitch, loudness, sound_style, seed_of(*phonemes))
        return samples


def _cut(phonemes: list[int], most: int) -> list[list[int]]:
    """Parts of at most `most` phonemes, cut behind the last pause that fits."""
    parts = []
    while len(phonemes) > most:
        pauses = [i for i, phoneme in enumerate(phonemes[:most]) if phoneme == _PAUSE_ID]
        end = pauses[-1] + 1 if pauses else most
        parts.append(phonemes[:end])
        phonemes = phonemes[end:]
    return [*parts, phonemes] if phonemes else parts
