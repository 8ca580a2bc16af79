"""Rows that requests hold in the same pages are attended once, and what is seen is the same.

The kernel of our own has `tests/runtime/kernels/test_level_attention.py`, since it takes products
that are still joined.
"""

import numpy as np
import pytest

from mstarc_runtime.attention import levels
from mstarc_runtime.attention.mask import CAUSAL, FULL, PREFIX, Mask, frames
from mstarc_runtime.kvcache.layout import CacheLayout
from mstarc_runtime.kvcache.levels import SharedLevel, chunk_of, common_pages, explained
from tests.runtime.attention.attention_bench import Bench, Setting, flashinfer_settings

GPU = pytest.mark.gpu
SETTINGS = [
    pytest.param(Setting(backend="levels"), id="torch-levels"),
    pytest.param(
        Setting(backend="levels", heads=4, kv_heads=4, page_size=1), id="torch-pages-of-1"
    ),
    pytest.param(Setting(backend="levels", device="cuda"), id="torch-cuda", marks=GPU),
    *flashinfer_settings((24, 8, 128), (9, 3, 64)),
]


@pytest.fixture(params=SETTINGS)
def setting(request: pytest.FixtureRequest) -> Setting:
    made: Setting = request.param
    return made


@pytest.fixture
def bench(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Slot 0 has read a prompt of 70 rows; 1 and 2 begin with 64 of them, 3 with 32."""
    monkeypatch.setattr(levels, "LEAST_SAVED_ROWS", 32)
    made = Bench(setting, max_rows=160, shared_chunk=32)
    made.packed([0], [70])
    for slot, rows in ((1, 64), (2, 64), (3, 32)):
        made.adopt(slot, 0, rows)
    made.cache.tables.prompts[:4] = (64, 64, 96, 32)
    return made


@pytest.mark.parametrize("mask", [CAUSAL, FULL, PREFIX, frames(3)], ids=lambda mask: f"{mask.kind}")
def test_prompts_that_go_on_from_the_same_pages(bench: Bench, mask: Mask) -> None:
    keep = mask.kind != "prefix"
    bench.packed([1, 2], [9, 40], mask=mask, keep=keep)
    assert bench.cache.levels.read_rows in ((64,) if mask.kind != "frames" else (0, 64))
    bench.packed([3, 0, 1], [5, 1, 7], mask=mask, keep=keep)
    assert bench.cache.levels.attended_rows in (2 * 64 + 3 * 32, 0)


def test_steps_of_requests_that_share_and_one_that_does_not(bench: Bench) -> None:
    bench.packed([1, 2, 3, 4], [3, 40, 1, 9])
    batch = np.array([4, 2, 0, 3, 1])
    for _ in range(20):
        bench.step(batch)
    bench.release(0)
    for _ in range(3):
        bench.step(np.array([1, 3, 2]))


def test_requests_that_share_too_little_are_attended_one_by_one(bench: Bench) -> None:
    bench.packed([4, 5], [6, 3])
    bench.packed([4, 1], [6, 3])
    assert bench.cache.levels.read_rows == 0


def test_tasks_name_each_chunk_once_for_those_that_hold_it() -> None:
    bench = Bench(Setting(backend="levels"), max_rows=160, shared_chunk=32)
    bench.packed([0], [70])
    bench.adopt(1, 0, 64)
    bench.adopt(2, 0, 32)
    bench.packed([1, 2, 3], [10, 50, 40])
    tables = bench.cache.tables
    tables.prompts[:4] = (70, 70, 80, 31)
    rows = bench.cache.step_rows(6, "main")
    level = SharedLevel(tables, rows, bench.cache.levels, members=2)
    batch = np.array([3, 2, 0, 1])
    rows.prepare(batch)
    level.update()
    assert level.chunks.tolist() == [0, 2, 2, 2, 0, 0]
    tasks = level.tasks[: level.task_count[0]]
    # Chunk 0 is one of three requests, of which a task takes two; 2 has read its own chunk 1.
    assert tasks[:, :3].tolist() == [[0, 1, 2], [0, 3, -1], [1, 1, -1], [1, 2, 3]]
    for task in tasks:
        first = task[0] * level.pages
        assert task[3:].tolist() == rows.page_table[task[1], first : first + level.pages].tolist()
    version = level.version
    for _ in range(9):
        rows.prepare(batch)
        level.update()
    assert level.version == version, "pages that rows begin behind their prompts change no task"
    counts = bench.cache.levels
    assert (counts.attended_rows, counts.read_rows) == (10 * 6 * 32, 10 * 3 * 32)


def test_a_prompt_is_forgotten_with_its_context_and_goes_aside_with_it() -> None:
    bench = Bench(Setting(backend="row-by-row"), contexts=("main", "other"))
    bench.packed([2], [20])
    tables, key = bench.cache.tables, bench.cache.key(2, "main")
    tables.prompts[key] = 16
    bench.cache.set_aside(2)
    assert tables.prompts[key] == 0
    bench.cache.bring_back(2)
    bench.cache.fork(2, "main", "other")
    assert tables.prompts[key] == tables.prompts[bench.cache.key(2, "other")] == 16
    bench.cache.release_slot(2)
    assert not tables.prompts.any()


def test_common_pages_are_full_before_anything_is_written() -> None:
    lists = [np.array([4, 7, 1, 9], np.int32), np.array([4, 7, 2], np.int32)]
    assert common_pages(lists, np.array([40, 40]), 16) == 2
    assert common_pages(lists, np.array([40, 31]), 16) == 1
    assert common_pages(lists[:1] * 2, np.array([40, 64]), 16) == 2


@pytest.mark.parametrize("cascade", ["auto", "on", "off"])
def test_chunks_are_whole_pages_of_contexts_that_hold_them(cascade: str) -> None:
    for most in (500, 512, 16_384, 200_000):
        chunk = chunk_of(most, 16, cascade)  # type: ignore[arg-type]
        assert chunk % 16 == 0 and chunk <= most
        assert (chunk > 0) == (cascade == "on" and most >= 512)
        assert not chunk or most // chunk <= 32


@pytest.mark.parametrize(
    ("cascade", "most", "page", "said"),
    [
        ("on", 16_384, 16, "steps read 512 rows of prompts once"),
        ("auto", 16_384, 16, "`--cascade on` lets steps do so too"),
        ("on", 8192, 48, "no chunk of 512 rows or more is whole pages"),
        ("off", 16_384, 16, "`--cascade off`"),
    ],
)
def test_people_are_told_why(cascade: str, most: int, page: int, said: str) -> None:
    chunk = chunk_of(most, page, cascade)  # type: ignore[arg-type]
    layout = CacheLayout(
        layers=1,
        kv_heads=1,
        head_dim=8,
        pages=4,
        page_size=page,
        slots=1,
        max_rows=most,
        shared_chunk=chunk,
    )
    assert said in explained(layout, cascade)  # type: ignore[arg-type]
