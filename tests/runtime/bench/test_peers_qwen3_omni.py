"""Qwen3-Omni beside another server: what needs neither it nor a GPU."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
import yaml
from transformers import AutoTokenizer

from tests.support.golden import ROOT

CONFIG = {
    "im_start_token_id": 420,
    "im_end_token_id": 421,
    "system_token_id": 410,
    "user_token_id": 411,
    "assistant_token_id": 412,
}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "peers"))
    import qwen3_omni

    yield qwen3_omni
    for name in ("qwen3_omni", "qwen3_omni_inside", "orpheus_checkpoint", "beside", "serving"):
        sys.modules.pop(name, None)


def fake_site(script: ModuleType, folder: Path) -> Path:
    """The places of the peer that are changed, and nothing else of it."""
    files = {"engine/cuda_graph_runner.py": script.TUNED}
    files |= {name: f"{expected}): ..." for name, (expected, _) in script.ADDED.items()}
    for name, text in files.items():
        path = folder / "mstar" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_a_copy_of_the_peer_imports_the_changes_and_all_are_said(
    script: ModuleType, tmp_path: Path
) -> None:
    site = fake_site(script, tmp_path / "site")
    said = script.changed_peer(site, tmp_path / "copy", [1, 4])
    ends = (tmp_path / "copy/mstar/model/utils.py").read_text().splitlines()
    assert ends[-1] == (
        "from qwen3_omni_inside import random_modules as load_weights_from_hf_shards"
    )
    assert (tmp_path / "copy" / "qwen3_omni_inside.py").exists()
    assert any("[1, 4]" in line for line in said)
    (site / "mstar/model/loader/base.py").write_text("something else")
    with pytest.raises(ValueError, match=r"this is not mstar-ai 0\.2\.1"):
        script.changed_peer(site, tmp_path / "copy", [1, 4])


def test_a_prompt_is_laid_out_as_ours_is(script: ModuleType, tmp_path: Path) -> None:
    script.write_folder(tmp_path, CONFIG)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    turns = [
        {"role": "system", "content": "left out"},
        {"role": "user", "content": [{"type": "text", "text": "a user"}]},
    ]
    text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    ids = tokenizer(text)["input_ids"]
    letters = [tokenizer.convert_tokens_to_ids(letter) for letter in "aĠuser"]
    line = tokenizer.convert_tokens_to_ids("Ċ")
    assert ids == [420, 411, line, *letters, 421, line, 420, 412, line]
    # A token that no letter has is no text.
    assert tokenizer.decode([415]) == ""


def test_our_plan_ends_at_no_token(script: ModuleType) -> None:
    sizes = yaml.safe_load((ROOT / "specs" / "random" / "qwen3_omni.yaml").read_text())
    content = script.endless(sizes)
    assert (content["config"]["im_end"], content["config"]["codec_eos"]) == (-1, -1)
    configs = [part["config"] for part in content["weights"].values() if "config" in part]
    talkers = [config["talker_config"] for config in configs]
    assert {talker["codec_eos_token_id"] for talker in talkers} == {0}
    assert "config" not in sizes


def test_the_peer_draws_its_weights_and_reads_one_tensor(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    import qwen3_omni_inside as inside

    with torch.device("meta"):
        module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.LayerNorm(3))
    module.to_empty(device="cpu")
    assert inside.random_weights(module, iter(())) == set(dict(module.named_parameters()))
    assert module[0].weight.abs().max() < 1
    assert module[1].weight.tolist() == [1, 1, 1]
    assert module[0].bias.tolist() == [0, 0, 0]
    monkeypatch.setenv("MSTARC_PEER_EMBEDDING", "5,4")
    assert list(inside.random_embedding("", device="cpu", prefix="talker.")) == []
    ((name, table),) = inside.random_embedding(
        "", device="cpu", prefix="thinker.model.embed_tokens"
    )
    assert (name, tuple(table.shape)) == ("thinker.model.embed_tokens.weight", (5, 4))


def test_the_peer_captures_what_is_measured(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    import qwen3_omni_inside as inside

    monkeypatch.setenv("MSTARC_PEER_BATCHES", "1,8")
    monkeypatch.setenv("MSTARC_PEER_PROMPTS", "128")

    class Part:
        def get_cuda_graph_configs(self, _device: str) -> list[Any]:
            names = ("thinker_decode", "prefill_text", "talker_prefill", "prefill_vision")
            made = [SimpleNamespace(capture_graph_walk=name) for name in names]
            for config in made[1:]:
                config.capture_token_lengths = [2048]
            return made

    inside.fewer_captures(Part)
    step, text, talker = Part().get_cuda_graph_configs("cpu")
    assert (step.capture_batch_sizes, text.capture_batch_sizes) == ([1, 8], [1, 4])
    assert (text.capture_token_lengths, talker.capture_batch_sizes) == ([128], [1])


def test_the_peer_draws_no_end_of_speech(script: ModuleType) -> None:
    import qwen3_omni_inside as inside

    class Talker:
        config = SimpleNamespace(talker=SimpleNamespace(codec_eos_token_id=2))

        def _get_suppress_mask(self) -> torch.Tensor:
            return torch.tensor([False, False, False, True])

    inside.never_ending(Talker)
    assert Talker()._get_suppress_mask().tolist() == [False, False, True, True]


def test_both_are_asked_for_as_many_tokens(script: ModuleType, tmp_path: Path) -> None:
    asked = script.parse(["--batches", "2", "--tokens", "9"])
    jobs: list[dict[str, Any]] = []

    def bench(job: dict[str, Any], *, limit_s: float | None) -> dict[str, Any]:
        jobs.append(job)
        return {}

    script.bench = bench
    for name in (script.PEER, "mstarc over HTTP"):
        script.measured(asked, tmp_path, {"name": name, "url": "http://127.0.0.1:9"})
    peer, ours = (job["kinds"][0]["options"] for job in jobs)
    assert (peer["max_output_tokens"], peer["talker_max_output_tokens"]) == (9, 9)
    assert (ours["max_tokens"], ours["talker_max_tokens"]) == (9, 9)
    assert json.dumps(jobs[0]["loads"]) == json.dumps(jobs[1]["loads"])
