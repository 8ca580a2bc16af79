"""V-JEPA 2-AC: a robot's frames and moves become frames that follow, and moves that reach a goal.

A film, poses and moves → tensors (`frontend`); each frame → its rows of features (`encoder`); rows
of a frame, beside its move and its pose → those of the next (`predictor`); the pose behind a move
(`poses`); moves drawn, weighed and drawn again (`planning`).

Weights have the names of Meta's checkpoint, whose encoder and predictor stand below `encoder.` and
`predictor.`. Start with `predictor`.
"""

from mstarc_runtime.models.vjepa2_ac.encoder import Encoder
from mstarc_runtime.models.vjepa2_ac.frontend import Frontend
from mstarc_runtime.models.vjepa2_ac.planning import CrossEntropy
from mstarc_runtime.models.vjepa2_ac.predictor import ActionPredictor, FrameRows

__all__ = ["ActionPredictor", "CrossEntropy", "Encoder", "FrameRows", "Frontend"]
