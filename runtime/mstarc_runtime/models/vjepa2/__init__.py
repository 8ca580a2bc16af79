"""V-JEPA 2: a clip becomes features, and features become those of places that were not shown.

A film → pixels, and which rows are shown and asked for (`frontend`); pixels → a row a tubelet
(`encoder`); rows that are shown → rows that are asked for, in the clip or behind its end
(`predictor`). `blocks` has the layer of both, whose rows know where they stand in three dimensions.

Weights have the names of `VJEPA2Model`, `config` the keys of its config.json. Start with `encoder`.
"""

from mstarc_runtime.models.vjepa2.encoder import Encoder
from mstarc_runtime.models.vjepa2.frontend import Frontend
from mstarc_runtime.models.vjepa2.predictor import Predictor

__all__ = ["Encoder", "Frontend", "Predictor"]
