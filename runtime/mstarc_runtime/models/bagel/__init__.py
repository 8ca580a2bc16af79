"""BAGEL: one decoder that reads text and images, writes text, and draws.

Text → ids, an image → patches and pixels (`frontend`); patches → rows of the decoder (`vision`);
pixels → latents and back (`autoencoder`, and `pictures` for the nodes around it); rows and ids →
tokens, and the velocity of a drawing (`decoder`); velocities with and without what is asked for →
the guided one, and a step along it (`guidance`). `embeddings`: what rows of images are made of.

Weights have the names of the public checkpoint ByteDance-Seed/BAGEL-7B-MoT, `config` the keys of
its config.json. Start with `decoder`.
"""

from mstarc_runtime.models.bagel.decoder import MixtureOfTransformers
from mstarc_runtime.models.bagel.frontend import Frontend
from mstarc_runtime.models.bagel.guidance import Guidance
from mstarc_runtime.models.bagel.pictures import VaeDecoder, VaeEncoder
from mstarc_runtime.models.bagel.vision import VisionTower

__all__ = [
    "Frontend",
    "Guidance",
    "MixtureOfTransformers",
    "VaeDecoder",
    "VaeEncoder",
    "VisionTower",
]
