"""What `four_gpus.py` runs: models, their layouts by number of devices, and what they are asked.

A layout is a deployment file, which may be cut to fewer replicas, or is found by `mstarc place` for
so many devices. Sizes of requests are those of the published figures, and small ones for CPUs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Unit = Literal["s", "requests/s", "audio-s/s", "tokens/s"]

PICTURE = {"steps": 50, "height": 1024, "width": 1024, "text_scale": 4.0}
ALL_BRANCHES = {**PICTURE, "image_scale": 2.0, "guide_from": 0.0}
SMALL_PICTURE = {"steps": 4, "height": 64, "width": 80}
STORY = "Tell me a story about a lighthouse keeper who collects the sounds of the sea, please."
WORDS = " ".join(["on and"] * 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """`file` is a deployment, below the repository; without one it is found for `objective`.

    `replicas`: the file's groups are on ranks 0 to this, each a copy of all.
    """

    name: str
    devices: int
    file: str = ""
    replicas: int = 0
    objective: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Requests of one kind: `image` is how long the sides of a picture are that comes with them.

    `repeats` is the op that most of the time goes to: what one device takes for it is fitted to
    what was measured there, and other layouts are simulated with it. `published` are figures of M*
    by layout and batch.
    """

    name: str
    unit: Unit
    text: str
    wants: tuple[str, ...]
    options: Mapping[str, Any]
    small: Mapping[str, Any]
    repeats: str
    rows: int
    repeated_rows: int = 1
    image: int = 0
    only_alone: bool = False
    published: Mapping[tuple[str, int], float] = field(default_factory=dict)
    goals: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def is_better_when_less(self) -> bool:
        return self.unit == "s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A model with its layouts, the first on one device. The input of text is `prompt` or parts."""

    name: str
    model: str
    sizes: str
    small_sizes: str
    layouts: tuple[Layout, ...]
    loads: tuple[Load, ...]
    batches: tuple[int, ...]
    requests: int
    tokens: int = 8192
    prompt: bool = False


def _drawing(name: str, options: Mapping[str, Any], image: int, m: tuple[float, float]) -> Load:
    return Load(
        name=name,
        unit="s",
        text="a bagel on a plate, by a window",
        wants=("picture",),
        options=options,
        small={**options, **SMALL_PICTURE},
        repeats="llm.denoise",
        rows=32,
        repeated_rows=4098,
        image=image,
        only_alone=True,
        published={("one", 1): m[0], ("three", 1): m[1]} if m[0] else {},
        goals={"three": (2.4, 5.0)} if m[0] else {},
    )


_OMNI_TWO = {1: 11.7, 4: 35.4, 8: 54.2, 16: 87.1, 32: 113.2}
_FOUND = (
    Layout(name="found, latency", devices=4, objective="latency"),
    Layout(name="found, throughput", devices=4, objective="throughput"),
)


def _replicas(file: str) -> tuple[Layout, ...]:
    """Two and four copies of what a deployment file has four times."""
    return tuple(
        Layout(name=f"{count} replicas", devices=count, file=file, replicas=count)
        for count in (2, 4)
    )


PARTS: tuple[Part, ...] = (
    Part(
        name="bagel",
        model="bagel",
        sizes="specs/random/bagel.yaml",
        small_sizes="specs/tiny/bagel.yaml",
        layouts=(
            Layout(name="one", devices=1),
            Layout(name="two", devices=2, file="benchmarks/bagel_apart_2gpu.yaml"),
            Layout(name="three", devices=3, file="specs/deployments/bagel_cfg_parallel.yaml"),
            _FOUND[0],
        ),
        loads=(
            _drawing("text to image", ALL_BRANCHES, 0, (18.0, 6.8)),
            _drawing("editing", ALL_BRANCHES, 1024, (15.1, 6.4)),
            _drawing("text to image, usual options", PICTURE, 0, (0.0, 0.0)),
        ),
        batches=(1,),
        requests=4,
    ),
    Part(
        name="omni",
        model="qwen3_omni",
        sizes="specs/random/qwen3_omni.yaml",
        small_sizes="specs/tiny/qwen3_omni.yaml",
        layouts=(
            Layout(name="one", devices=1),
            Layout(name="two", devices=2, file="specs/deployments/qwen3omni_2gpu.yaml"),
            Layout(
                name="thinker tp 2",
                devices=2,
                file="specs/deployments/qwen3omni_thinker_tp2_2gpu.yaml",
            ),
            Layout(name="pd", devices=3, file="specs/deployments/qwen3omni_pd_3gpu.yaml"),
            Layout(
                name="full tp 2", devices=4, file="specs/deployments/qwen3omni_full_tp2_4gpu.yaml"
            ),
            *_FOUND,
        ),
        loads=(
            Load(
                name="speech",
                unit="audio-s/s",
                text=STORY,
                wants=("reply", "speech"),
                options={"max_tokens": 256, "talker_max_tokens": 256},
                small={"max_tokens": 5, "talker_max_tokens": 6},
                repeats="predictor.step",
                rows=32,
                published={("two", batch): value for batch, value in _OMNI_TWO.items()},
            ),
        ),
        batches=(1, 4, 8, 16, 32),
        requests=32,
    ),
    Part(
        name="orpheus",
        model="orpheus",
        sizes="benchmarks/orpheus_full.yaml",
        small_sizes="specs/tiny/orpheus.yaml",
        layouts=(
            Layout(name="one", devices=1),
            *_replicas("specs/deployments/orpheus_4replicas.yaml"),
            *_FOUND,
        ),
        loads=(
            Load(
                name="speech",
                unit="audio-s/s",
                text=WORDS,
                wants=("speech",),
                options={"max_tokens": 420, "temperature": 0.6},
                small={"max_tokens": 35},
                repeats="lm.step",
                rows=32,
            ),
        ),
        batches=(1, 4, 16, 64),
        requests=64,
        prompt=True,
    ),
    Part(
        name="thinker",
        model="qwen3_omni",
        sizes="specs/random/qwen3_omni.yaml",
        small_sizes="specs/tiny/qwen3_omni.yaml",
        layouts=(
            Layout(name="one", devices=1),
            *_replicas("specs/deployments/qwen3omni_4replicas.yaml"),
            *_FOUND,
        ),
        loads=(
            Load(
                name="text",
                unit="tokens/s",
                text=STORY,
                wants=("reply",),
                options={"max_tokens": 256},
                small={"max_tokens": 8},
                repeats="thinker.step",
                rows=32,
            ),
        ),
        batches=(1, 4, 16, 32),
        requests=32,
    ),
)
