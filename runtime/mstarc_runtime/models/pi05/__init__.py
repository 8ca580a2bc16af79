"""π0.5: what cameras see and an order say becomes what a robot does next.

Images, an order and a state → pixels and ids (`frontend`); pixels → rows (`vision`); ids → rows,
and rows → a prefix that actions attend to, and their velocity (`experts`, of layers in `gemma`);
noise → actions along it (`flow`). `sizes` has the public sizes, which checkpoints name only.

Weights have the names of openpi's PyTorch checkpoints. Start with `experts`.
"""

from mstarc_runtime.models.pi05.experts import Embedding, Experts
from mstarc_runtime.models.pi05.flow import Flow
from mstarc_runtime.models.pi05.frontend import Frontend
from mstarc_runtime.models.pi05.vision import VisionTower

__all__ = ["Embedding", "Experts", "Flow", "Frontend", "VisionTower"]
