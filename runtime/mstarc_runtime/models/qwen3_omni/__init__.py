"""Qwen3-Omni: text, images, audio and video become text and speech.

`Frontend` makes ids, pixels and spectrograms of a request's parts; `AudioTower` and `VisionTower`
make rows of them, which `Prompt` puts in order; `Thinker` reads all rows and writes the reply;
`Talker` and `CodePredictor` draw codes of speech, `Code2Wav` makes sound of them. All names of
weights are those of the public checkpoint (`Qwen3OmniMoeForConditionalGeneration`).
"""

from mstarc_runtime.models.qwen3_omni.audio_tower import AudioTower
from mstarc_runtime.models.qwen3_omni.code2wav import Code2Wav
from mstarc_runtime.models.qwen3_omni.code_predictor import CodePredictor
from mstarc_runtime.models.qwen3_omni.frontend import Frontend
from mstarc_runtime.models.qwen3_omni.prompt import Prompt
from mstarc_runtime.models.qwen3_omni.talker import Talker
from mstarc_runtime.models.qwen3_omni.thinker import Thinker
from mstarc_runtime.models.qwen3_omni.vision_tower import VisionTower

__all__ = [
    "AudioTower",
    "Code2Wav",
    "CodePredictor",
    "Frontend",
    "Prompt",
    "Talker",
    "Thinker",
    "VisionTower",
]
