"""The ids of the chat template, and rows of the Thinker's table that other parts have copies of.

Between `<|im_start|>role` and `<|im_end|>` stand a turn's parts; media stand between marks of their
own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import nn

from mstarc_runtime.layers.config import required
from mstarc_runtime.layers.shard import Portion

ROLES = ("system", "user", "assistant")
# The line break, in every vocabulary of Qwen's.
NEWLINE = 198


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Ids that the template puts around parts; `audio` and `vision` are those before and behind."""

    start: int
    end: int
    roles: Mapping[str, int]
    audio: tuple[int, int]
    vision: tuple[int, int]

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """Fails with MS9109 where the checkpoint's config.json lacks one."""
        thinker = required(config, "thinker_config")
        start, end = (
            {
                kind: int(required(thinker, f"{kind}_{side}_token_id"))
                for kind in ("audio", "vision")
            }
            for side in ("start", "end")
        )
        return cls(
            start=int(required(config, "im_start_token_id")),
            end=int(required(config, "im_end_token_id")),
            roles={role: int(required(config, f"{role}_token_id")) for role in ROLES},
            audio=(start["audio"], end["audio"]),
            vision=(start["vision"], end["vision"]),
        )


class Words(nn.Module):
    """Some rows of the Thinker's table [count, width], the only ones that are read."""

    def __init__(
        self, config: Mapping[str, Any], ids: Sequence[int], *, dtype: torch.dtype, device: Any
    ) -> None:
        super().__init__()
        text = required(required(config, "thinker_config"), "text_config")
        count, width = int(required(text, "vocab_size")), int(required(text, "hidden_size"))
        self.weight = nn.Parameter(
            torch.empty(len(ids), width, dtype=dtype, device=device), requires_grad=False
        )
        ranges = tuple((number, number + 1) for number in ids)
        self.portions = {"weight": Portion(whole=(count, width), dim=0, ranges=ranges)}


TABLE = "/thinker.model.embed_tokens.weight"
