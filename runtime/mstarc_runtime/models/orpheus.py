"""Orpheus, text to speech: a Llama decoder writes codes of SNAC, a codec makes sound of them.

`Frontend.encode`: a prompt and a voice → token ids. `LanguageModel`: ids → tokens.
`SnacDecoder.decode`: windows of 28 tokens (4 frames of 7) → the 2,048 samples of the second frame,
which then has a frame of context before it and two after.

A frame's seven tokens are codes of three rates, in the order in which the model was trained to
write them: 1, 2, 3, 3, 2, 3, 3. Each place has ids of its own, `codebook_size` apart.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from mstarc_runtime.engine.context import OpContext
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.layers.config import bad_config
from mstarc_runtime.models import llama, snac

FRAME_TOKENS = 7
# Places in a frame of the codes of each rate, coarse to fine.
_PLACES = ((0,), (1, 4), (2, 3, 5, 6))
_FIRST_CODE_ID = 128266
_START = 128259
_END_OF_TEXT = 128009
_END = 128260
_EMITTED = range(1, 2)
"""Frames of a window whose sound is heard."""


class LanguageModel(llama.Decoder):
    """A Llama decoder with Orpheus' vocabulary."""


class SnacDecoder(nn.Module):
    """The codec, in float32 whatever other nodes compute in. `config`: keys of SNAC's config.json,
    and `first_code_id`, the id of code 0 at a frame's first place (128266 unless given)."""

    def __init__(self, config: Mapping[str, Any], *, device: torch.device) -> None:
        super().__init__()
        self.codec = snac.Decoder(config, dtype=torch.float32, device=device)
        if self.codec.strides != (4, 2, 1):
            raise bad_config("vq_strides", list(self.codec.strides), "`[4, 2, 1]`")
        self.first_code_id = int(config.get("first_code_id", _FIRST_CODE_ID))
        self._orders: dict[int, Tensor] = {}

    @classmethod
    def build(cls, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device) -> Self:
        """A codec without weights. Fails with MS9109 where `config` can't be served."""
        return cls(config, device=device)

    def weight_map(self) -> Mapping[str, str]:
        return {f"codec.{own}": name for own, name in self.codec.weight_map().items()}

    def decode(self, ctx: OpContext, codes: Tensor) -> Tensor:
        """Samples f32[B, 2048] of token ids i64[B, 28].

        A token that is no code, such as an end mark, becomes one by the remainder.
        """
        order = self._order(codes.shape[1], codes.device)
        numbers = torch.remainder(codes - self.first_code_id, self.codec.code_count)
        return self.codec.samples(numbers[:, order], frames=_EMITTED)

    def _order(self, tokens: int, device: torch.device) -> Tensor:
        if self._orders.get(tokens) is None:
            self._orders[tokens] = torch.tensor(level_order(tokens), device=device)
        return self._orders[tokens]


def level_order(tokens: int) -> list[int]:
    """Where the codes of a window are, coarsest level first, each level's in time's order."""
    return [
        frame * FRAME_TOKENS + place
        for places in _PLACES
        for frame in range(tokens // FRAME_TOKENS)
        for place in places
    ]


class Frontend:
    """Makes token ids of a prompt.

    With a checkpoint's folder: its tokenizer, and Orpheus' marks around `voice: prompt`. Without
    one (random weights): the text's UTF-8 bytes, each taken modulo the vocabulary below the codes
    (`first_code_id` of `config`, or `vocab_size`), behind an id 1.
    """

    def __init__(self, *, tokenizer: Any | None, byte_ids: int) -> None:
        self._tokenizer = tokenizer
        self._byte_ids = byte_ids

    @classmethod
    def build(cls, config: Mapping[str, Any], *, folder: Path | None) -> Self:
        """A frontend over the `tokenizer.json` in `folder`. Fails with MS9104 without one."""
        if folder is None:
            byte_ids = int(config.get("first_code_id", config.get("vocab_size", 256)))
            return cls(tokenizer=None, byte_ids=byte_ids)
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise RuntimeFailure("MS9104", f"`{folder}` has no tokenizer.json")
        # Here, because random weights need no tokenizer.
        from tokenizers import Tokenizer

        return cls(tokenizer=Tokenizer.from_file(str(path)), byte_ids=0)

    def encode(self, prompt: str, voice: str) -> Tensor:
        """Ids i64[T] of `voice: prompt`."""
        text = f"{voice}: {prompt}"
        if self._tokenizer is None:
            return torch.tensor([1, *(byte % self._byte_ids for byte in text.encode())])
        ids = self._tokenizer.encode(text).ids
        return torch.tensor([_START, *ids, _END_OF_TEXT, _END])
