"""How Qwen3-Omni's Thinker reads prompts: all parts in one pass, in pieces, by shape, and again."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from mstarc_runtime.assembly import Extras
from mstarc_runtime.attention.torch_reference import TorchAttention
from mstarc_runtime.engine.context import StatelessContext
from mstarc_runtime.engine.fake import FakeCapture, FakeGraphExecutor
from mstarc_runtime.engine.op_graphs import OpGraphs
from mstarc_runtime.models.qwen3_omni import Prompt, Thinker
from tests.runtime.rig import Collected
from tests.support.omni_media import write_media
from tests.support.omni_plan import OmniRanks, compile_tiny, samples_of
from tests.support.omni_reference import Reference

LAYOUT = """
model: qwen3_omni
devices: 1xcpu
max_seq_len: 1024
max_concurrent_requests: 4
kv_cache: KV
node_groups:
  - node_names: [frontend, audio_encoder, vision_encoder, Thinker, Talker, Code2Wav]
    ranks: [0]
"""
DEPLOYMENTS = {
    "whole": LAYOUT.replace("KV", "{page_size: 16}"),
    "pieces": LAYOUT.replace("KV", "{page_size: 16, prefill_tokens: 16}"),
    "narrow": LAYOUT.replace("1024", "256").replace(
        "KV", "{page_size: 16, prefill_tokens: 16, max_num_pages: 16, cpu_offload_pages: 48}"
    ),
}
MIXED: Sequence[list[Any]] = (
    ["Look: ", {"image": "wide.png"}, " and: ", {"image": "tall.png"}, "What was it?"],
    [
        {"text": "Be brief.", "role": "system"},
        {"audio": "short.wav"},
        "Who is it?",
        {"text": "A cat.", "role": "assistant"},
        {"video": "film.mp4"},
        "And this?",
    ],
)
TEXTS: Sequence[list[Any]] = (
    ["What is this?"],
    [
        {"text": "Be brief.", "role": "system"},
        "What is a cat?",
        {"text": "An animal.", "role": "assistant"},
        "And a dog?",
    ],
)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    weights = Reference(tmp_path_factory.mktemp("omni")).folder
    folder = tmp_path_factory.mktemp("plan") / "plan"
    return compile_tiny(folder, weights, deployments=DEPLOYMENTS)


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_media(tmp_path_factory.mktemp("media"))


@pytest.fixture(scope="module")
def noted() -> Iterator[list[tuple[str, int]]]:
    """The passes of all Thinkers over prompts: op, and how many rows."""
    made: list[tuple[str, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        for op in ("text", "parts"):
            method = getattr(Thinker, op)

            def note(
                self: Thinker, ctx: Any, ids: Tensor, *more: Any, op: str = op, method: Any = method
            ) -> Any:
                made.append((op, len(ids)))
                return method(self, ctx, ids, *more)

            patch.setattr(Thinker, op, note)
        yield made


@pytest.fixture
def passes(noted: list[tuple[str, int]]) -> list[tuple[str, int]]:
    noted.clear()
    return noted


@pytest.fixture(scope="module")
def whole(plan: Path, noted: list[tuple[str, int]]) -> OmniRanks:
    return OmniRanks(plan, "whole")


def submit(ranks: OmniRanks, media: Path, parts: Sequence[Any], **more: Any) -> Collected:
    return ranks.submit(parts, media, **{"max_tokens": 7, "talker_max_tokens": 5, **more})


def told(made: Collected) -> tuple[str | None, list[float]]:
    assert made.events[-1] == "finished", made.failure
    return made.texts.get("reply"), samples_of(made).tolist()


def alone(
    ranks: OmniRanks, media: Path, parts: Sequence[Any], **more: Any
) -> tuple[str | None, list[float]]:
    made = submit(ranks, media, parts, **more)
    ranks.run()
    return told(made)


@pytest.mark.parametrize("wants", [("reply",), ("reply", "speech")])
@pytest.mark.parametrize(
    ("parts", "op"), [*((parts, "parts") for parts in MIXED), *((parts, "text") for parts in TEXTS)]
)
def test_all_parts_are_one_pass(
    whole: OmniRanks,
    media: Path,
    passes: list[tuple[str, int]],
    parts: list[Any],
    op: str,
    wants: tuple[str, ...],
) -> None:
    alone(whole, media, parts, wants=wants)
    assert [name for name, _ in passes] == [op]


def test_a_film_with_its_sound_is_in_it(
    whole: OmniRanks, media: Path, passes: list[tuple[str, int]]
) -> None:
    parts = ["Look: ", {"video": "talk.mp4"}, {"audio": "short.wav"}]
    alone(whole, media, parts, use_audio_in_video=True)
    assert len(passes) == 1


def test_texts_alone_go_through_no_encoder(plan: Path, media: Path) -> None:
    ranks = OmniRanks(plan, "whole")
    parts = ranks.ranks.workers[0].parts
    for node in ("audio_encoder", "vision_encoder", "prompt"):
        parts.stateless[node].module = None  # type: ignore[assignment]
    assert alone(ranks, media, TEXTS[1], wants=("reply",))[0]


def test_texts_that_begin_alike_share_their_pages(
    plan: Path, media: Path, passes: list[tuple[str, int]]
) -> None:
    ranks = OmniRanks(plan, "pieces")
    first = alone(ranks, media, TEXTS[1], wants=("reply",))
    rows = sum(count for _, count in passes)
    passes.clear()
    assert alone(ranks, media, TEXTS[1], wants=("reply",)) == first
    assert sum(count for _, count in passes) <= 16 < rows
    passes.clear()
    alone(ranks, media, [*TEXTS[1][:-1], "And what is a horse?"], wants=("reply",))
    assert sum(count for _, count in passes) < rows


@pytest.mark.parametrize("is_spoken_first", [False, True])
def test_what_is_spoken_shares_nothing_and_keeps_nobody_from_sharing(
    plan: Path, media: Path, passes: list[tuple[str, int]], is_spoken_first: bool
) -> None:
    """The Talker hears of each row. Both are steps of one node, of which one shares."""
    ranks = OmniRanks(plan, "pieces")
    both, read = ("reply", "speech"), ("reply",)
    order = (both, read, both, read) if is_spoken_first else (read, both, read, both)
    counts, said = [], []
    for wants in order:
        passes.clear()
        said.append(alone(ranks, media, TEXTS[1], wants=wants))
        counts.append(sum(count for _, count in passes))
    assert said[:2] == said[2:]
    spoken, texts = (counts[::2], counts[1::2]) if is_spoken_first else (counts[1::2], counts[::2])
    assert spoken[0] == spoken[1] == texts[0] and texts[1] <= 16 < texts[0]


@pytest.mark.parametrize("wants", [("reply",), ("reply", "speech")])
@pytest.mark.parametrize("parts", [*MIXED, TEXTS[1]])
def test_a_long_prompt_is_read_in_pieces(
    plan: Path,
    whole: OmniRanks,
    media: Path,
    passes: list[tuple[str, int]],
    parts: list[Any],
    wants: tuple[str, ...],
) -> None:
    wanted = alone(whole, media, parts, wants=wants)
    ((_, rows),) = passes
    passes.clear()
    assert alone(OmniRanks(plan, "pieces"), media, parts, wants=wants) == wanted
    assert sum(count for _, count in passes) == rows
    assert max(count for _, count in passes) == 16


def test_requests_that_take_pages_from_each_other_say_what_each_says_alone(
    plan: Path, whole: OmniRanks, media: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [parts for parts in (*MIXED, *MIXED) for _ in range(2)]
    options: list[dict[str, Any]] = [
        {"seed": seed, "temperature": 1.0, "max_tokens": 40, "wants": ("reply",)}
        for seed in range(len(asked))
    ]
    wanted = [alone(whole, media, parts, **own) for parts, own in zip(asked, options, strict=True)]
    ranks = OmniRanks(plan, "narrow")
    cache = ranks.ranks.workers[0].parts.kv["thinker"].cache
    set_aside, aside = cache.set_aside, list[int]()

    def note(slot: int) -> None:
        aside.append(slot)
        set_aside(slot)

    monkeypatch.setattr(cache, "set_aside", note)
    made = [submit(ranks, media, parts, **own) for parts, own in zip(asked, options, strict=True)]
    ranks.run()
    assert [told(one) for one in made] == wanted
    assert aside


def test_by_shape_requests_say_what_they_say_call_by_call(plan: Path, media: Path) -> None:
    """Alone, and two together, padded to as many rows: the second of each shape is a graph."""

    def ranks_of() -> OmniRanks:
        return OmniRanks(
            plan,
            "whole",
            extras=Extras(
                executor=FakeGraphExecutor(),
                attention=lambda cache: TorchAttention(cache, row_by_row=False),
            ),
        )

    def said(ranks: OmniRanks) -> list[Any]:
        got = []
        for wave in ([MIXED[0]], [MIXED[0]], [MIXED[1]], [MIXED[0], MIXED[0]], [MIXED[1]]):
            made = [submit(ranks, media, parts, wants=("reply",)) for parts in wave]
            ranks.run()
            got += [told(one) for one in made]
        return got

    wanted = said(ranks_of())
    ranks = ranks_of()
    engine = ranks.ranks.workers[0].parts.kv["thinker"]
    captured: list[FakeCapture] = []

    def capture(body: Callable[[], None]) -> FakeCapture:
        # The double of a graph runs what it notes, and a draw would count twice.
        (sampler,) = set(engine.samplers.values())
        slots = range(ranks.ranks.workers[0].plan.slots + 1)
        before = [sampler.state(slot) or (0, None) for slot in slots]
        captured.append(FakeCapture(body))
        for slot, (draws, seen) in zip(slots, before, strict=True):
            sampler.restore(slot, draws, seen)
        return captured[-1]

    engine.graphs = OpGraphs(capture)
    assert said(ranks) == wanted
    assert captured


def test_rows_are_put_where_they_stand() -> None:
    context = StatelessContext(batch=1, device=torch.device("cpu"))
    made = torch.arange(4.0)[None, :, None].expand(1, 4, 2)
    deep = 10 * torch.arange(3.0)[None, :, None, None].expand(1, 3, 2, 2)
    which, seen = torch.tensor([[0, 3, 1, 0, 2]]), torch.tensor([[0, 0, 2, 0, 1]])
    rows, deeper = Prompt().rows(context, made, deep, which, seen)
    assert rows[0, :, 0].tolist() == [0, 3, 1, 0, 2]
    assert deeper[0, :, 1, 1].tolist() == [0, 0, 20, 0, 10]
    assert Prompt().heard(context, rows, torch.tensor([[1, 4]]))[0, :, 1].tolist() == [3, 2]
