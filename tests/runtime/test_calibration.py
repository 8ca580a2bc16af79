"""A job of a plan's ops is measured, and what can't be measured is left out with its reason."""

import io
import json
import sys
from typing import Any

import pytest

from mstarc_runtime.calibration import __main__ as command
from mstarc_runtime.calibration.facts import measure_facts
from mstarc_runtime.calibration.ops import measure_ops
from mstarc_runtime.calibration.weigh import weigh

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "hidden_act": "silu",
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}


def op(name: str, parameters: list[dict[str, Any]], rows: str) -> dict[str, Any]:
    return {
        "name": name,
        "parameters": parameters,
        "rows": rows,
        "mask": "causal",
        "writes": ["main"],
        "reads": [],
        "sampler": None,
        "advance": None,
    }


def job(**changes: Any) -> dict[str, Any]:
    ids = {"kind": "tensor", "dtype": "i64", "dims": [None]}
    token = {"kind": "tensor", "dtype": "i64", "dims": []}
    lm = {
        "name": "lm",
        "engine": "kv_cache",
        "impl": "orpheus:LanguageModel",
        "config": CONFIG,
        "ops": [
            op("prefill", [ids], "packed"),
            op("step", [token], "one"),
            op("listen", [{"kind": "other"}], "packed"),
            op("no_such_op", [token], "one"),
        ],
        "kv": {
            "layers": 2,
            "heads": 2,
            "head_dim": 8,
            "contexts": ["main"],
            "cross": {},
            "samplers": [{"name": "default", "settings": {"temperature": None, "top_p": 0.8}}],
        },
    }
    poor = {**lm, "name": "poor", "config": {}, "ops": []}
    return {
        "what": "ops",
        "device": "cpu",
        "dtype": "f32",
        "batches": [1, 2],
        "rows": [4],
        "context": 8,
        "threads": 1,
        "nodes": [lm, poor],
        **changes,
    }


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    return measure_ops(job())


def test_each_op_has_seconds_at_each_batch(result: dict[str, Any]) -> None:
    measured = {(p["op"], p["batch"], p["rows"], p["context"]) for p in result["ops"]}
    assert measured == {
        ("prefill", 1, 4, 8),
        ("prefill", 2, 4, 8),
        ("step", 1, 1, 8),
        ("step", 2, 1, 8),
    }
    assert all(0 < point["seconds"] < 60 for point in result["ops"])


def test_what_cannot_be_measured_is_left_out_with_its_reason(result: dict[str, Any]) -> None:
    skipped = {entry["op"]: entry["why"] for entry in result["skipped"]}
    assert skipped.keys() == {"lm.listen", "lm.no_such_op", "poor"}
    assert "only a request" in skipped["lm.listen"]
    assert "no_such_op" in skipped["lm.no_such_op"]
    assert "config" in skipped["poor"]


def test_weights_are_the_same_with_and_without_memory(result: dict[str, Any]) -> None:
    assert weigh(job()) == result["weights"]
    assert weigh(job(dtype="bf16"))["lm"] < weigh(job())["lm"]


def test_facts_are_what_a_profile_has() -> None:
    facts = measure_facts("cpu")
    names = {"bandwidth_bytes_per_s", "matrix_flops_per_s", "hop_s", "launch_s"}
    assert facts.keys() == names
    assert all(value > 0 for value in facts.values())


def test_a_job_comes_in_and_its_result_goes_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(job(what="weigh"))))
    assert command.main() == 0
    result = json.loads(capsys.readouterr().out)
    assert result["weights"].keys() == {"lm"}
    assert result["ops"] == []
