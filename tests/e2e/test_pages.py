"""Few pages, prompts in pieces and prompts that begin alike, where ranks are processes."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from mstarc import driver
from mstarc.codegen.write import write_plan
from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from mstarc_runtime.launch import Ranks, ask_ranks
from mstarc_runtime.loader import LoadedPlan, load_plan
from tests.e2e.test_layouts import compare
from tests.runtime.rig import Collected
from tests.support.layout_runs import MODELS, answers, as_processes, in_process, requests_of
from tests.support.shipped_specs import SPECS_BY_NAME

PAGES: Mapping[str, str] = {
    "enough": "page_size: 16, prefill_tokens: 16",
    "few": "page_size: 16, prefill_tokens: 16, max_num_pages: 11, cpu_offload_pages: 60",
}
LAYOUTS = ("one", "walks", "tp2")
REQUESTS = 12


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> LoadedPlan:
    spec = SPECS_BY_NAME["orpheus"]
    files = [
        SourceFile(path=f"{layout}_{pages}.yaml", text=deployment(layout, pages))
        for layout in LAYOUTS
        for pages in PAGES
    ]
    options = CompileOptions(deployments=tuple(files), sizes=spec.sizes)
    outcome = driver.compile_spec(spec.source, options)
    assert outcome.files is not None, [found.message for found in outcome.diagnostics]
    folder = tmp_path_factory.mktemp("pages") / "plan"
    write_plan(outcome.files, folder)
    return load_plan(folder)


def deployment(layout: str, pages: str) -> str:
    groups = MODELS["orpheus"].layouts[layout]
    most = max(int(rank) for _, ranks, _ in groups for rank in ranks.split(", "))
    lines = ["model: orpheus", f"devices: {most + 1}xcpu", "max_seq_len: 176"]
    lines += ["max_concurrent_requests: 5", f"kv_cache: {{{PAGES[pages]}}}", "node_groups:"]
    for nodes, ranks, more in groups:
        lines += [f"  - node_names: [{nodes}]", f"    ranks: [{ranks}]"]
        lines += [f"    {key}: {value}" for key, value in more.items()]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def expected(plan: LoadedPlan, tmp_path_factory: pytest.TempPathFactory) -> list[Collected]:
    with in_process(plan, "one_enough", tmp_path_factory.mktemp("cache")) as ranks:
        made = answers(ranks, requests_of("orpheus")[:REQUESTS])
        counts = counted(ranks)
        assert not counts["kv_preemptions"]
        assert counts["prompt_rows_shared"] >= 16, "they all begin with the same words"
        return made


def counted(ranks: Ranks) -> Counter[str]:
    counts: Counter[str] = Counter()
    for told, _ in ask_ranks(ranks, with_trace=False):
        counts.update(json.loads(told.now)["counts"])
    return counts


@pytest.mark.parametrize("layout", ["walks", "tp2"])
def test_processes_with_few_pages_answer_as_one_with_enough(
    plan: LoadedPlan, expected: list[Collected], layout: str, tmp_path: Path
) -> None:
    with as_processes(plan, f"{layout}_few", tmp_path, 10) as ranks:
        made = answers(ranks, requests_of("orpheus")[:REQUESTS])
        counts = counted(ranks)
        held = [json.loads(told.held) for told, _ in ask_ranks(ranks, with_trace=False)]
    assert [one.failure for one in made] == [None] * REQUESTS
    for one, other in zip(made, expected, strict=True):
        assert other.events[-1] == "finished"
        compare(one, other, exactly=layout != "tp2")
    assert counts["kv_pages_set_aside"] == counts["kv_pages_brought_back"] > 0
    assert counts["prompt_rows_shared"] > 0
    for each in held:
        assert all(cache["used_pages"] == 0 for cache in each["kv"].values())
        assert not each["aside"]
