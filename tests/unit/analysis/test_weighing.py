"""How large weights are, and what says so."""

import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from mstarc.analysis.config_parameters import parameters_of_config
from mstarc.analysis.weighing import Sources, Tensor, Weight, weigh
from mstarc.cli.main import run_command
from mstarc.ir.graph import Node, Program
from mstarc.ir.text import parse_program
from tests.support.golden import ROOT

PROGRAM = """
program talk from "org/talk"

input prompt : text
output reply : text

node words : host {
  impl "talk:Words"
  op ids(prompt: text) -> (ids: i64[T])
}

node tower : stateless {
  impl "talk:Tower"
  weights "org/talk" under "model.tower."
  op see(px: f32[N, 4]) -> (e: bf16[N, 8])
}

node lm : kv_cache {
  impl "talk:Decoder"
  weights "org/talk" under "model." bytes 6600000000
  kv { layers = 2, heads = 2, head_dim = 8 }
  context main
  op prefill(ids: i64[T]) -> (token: i64) attends causal writes main
}

node codec : stateless {
  impl "talk:Codec"
  weights "org/codec" bytes 80000000
  op decode(codes: i64[28]) -> (pcm: f32[2048])
}

node glue : stateless {
  impl "talk:Glue"
  weights "org/glue"
  op mix(a: f32[4]) -> (b: f32[4])
}
"""
CONFIG = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "vocab_size": 100,
    "tie_word_embeddings": True,
}
# Two layers of 16x16 twice and 16x8 twice, three matrices of 16x32, and the vocabulary.
PARAMETERS = 2 * (2 * 16 * 16 + 2 * 16 * 8 + 3 * 16 * 32) + 100 * 16


def program() -> Program:
    return parse_program(PROGRAM)


def test_declared_and_guessed_sizes() -> None:
    found = weigh(program(), Sources(), "bf16")
    assert found == {
        "tower": Weight(2 * 10**8, "guessed"),
        "lm": Weight(6_600_000_000, "declared"),
        "codec": Weight(80_000_000, "declared"),
        "glue": Weight(2 * 10**8, "guessed"),
    }


def test_a_config_counts_parameters_of_nodes_of_the_model() -> None:
    found = weigh(program(), Sources(configs={"": CONFIG}), "bf16")
    assert found["lm"] == Weight(2 * PARAMETERS, "config")
    assert weigh(program(), Sources(configs={"": CONFIG}), "f32")["lm"].bytes == 4 * PARAMETERS
    # Its weights are others': the model's config says nothing about it.
    assert found["codec"].by == "declared"
    assert found["glue"].by == "guessed"


def test_headers_go_to_the_node_with_the_longest_prefix() -> None:
    tensors = (
        Tensor(name="model.layers.0.weight", dtype="BF16", shape=(10, 10)),
        Tensor(name="model.tower.weight", dtype="F32", shape=(7,)),
        Tensor(name="model.table", dtype="I64", shape=(3,)),
        Tensor(name="other.weight", dtype="F32", shape=(1000,)),
    )
    found = weigh(program(), Sources(tensors={"": tensors}, configs={"": CONFIG}), "bf16")
    assert found["lm"] == Weight(200 + 24, "checkpoint")
    assert found["tower"] == Weight(14, "checkpoint")
    assert found["codec"].by == "declared"


def test_what_is_nearer_the_truth_goes_first() -> None:
    tensors = (Tensor(name="model.weight", dtype="BF16", shape=(10,)),)
    sources = Sources(tensors={"": tensors}, measured={"lm": 30}, given={"codec": 40})
    found = weigh(program(), sources, "bf16")
    assert found["lm"] == Weight(30, "implementation")
    assert found["codec"] == Weight(40, "given")


def test_other_weights_make_a_declared_size_void() -> None:
    found = weigh(program(), Sources(replaced=frozenset({"lm", "codec"})), "bf16")
    assert found["lm"].by == found["codec"].by == "guessed"
    with_config = Sources(replaced=frozenset({"lm"}), configs={"lm": CONFIG})
    assert weigh(program(), with_config, "bf16")["lm"] == Weight(2 * PARAMETERS, "config")


def test_the_order_of_nodes_changes_nothing() -> None:
    nodes: tuple[Node, ...] = program().nodes
    tensors = (Tensor(name="model.tower.weight", dtype="F32", shape=(7,)),)
    sources = Sources(tensors={"": tensors})
    turned = replace(program(), nodes=nodes[::-1])
    assert weigh(turned, sources, "bf16") == weigh(program(), sources, "bf16")


@pytest.mark.parametrize(
    ("config", "under", "billions"),
    [
        # Llama 3.2 3B with the vocabulary of Orpheus; Whisper large v3.
        (
            {
                "hidden_size": 3072,
                "intermediate_size": 8192,
                "num_hidden_layers": 28,
                "num_attention_heads": 24,
                "num_key_value_heads": 8,
                "head_dim": 128,
                "vocab_size": 156940,
                "tie_word_embeddings": True,
            },
            "",
            3.30,
        ),
        (
            {
                "d_model": 1280,
                "encoder_layers": 32,
                "decoder_layers": 32,
                "encoder_attention_heads": 20,
                "encoder_ffn_dim": 5120,
                "vocab_size": 51866,
                "tie_word_embeddings": True,
            },
            "",
            1.54,
        ),
        # A mixture of experts inside a section that the prefix of the tensors names.
        (
            {
                "thinker_config": {
                    "text_config": {
                        "hidden_size": 2048,
                        "moe_intermediate_size": 768,
                        "num_hidden_layers": 48,
                        "num_attention_heads": 32,
                        "num_key_value_heads": 4,
                        "head_dim": 128,
                        "num_experts": 128,
                        "vocab_size": 152064,
                    }
                },
                "talker_config": {"hidden_size": 9999, "num_hidden_layers": 9999},
            },
            "thinker.",
            30.5,
        ),
    ],
)
def test_parameters_of_public_configs(
    config: dict[str, object], under: str, billions: float
) -> None:
    found = parameters_of_config(config, under)
    assert found is not None
    assert found / 10**9 == pytest.approx(billions, rel=0.01)


def test_a_config_without_sizes_says_nothing() -> None:
    assert parameters_of_config({"sampling_rate": 24000}) is None


def test_a_checkpoint_folder_is_weighed_by_its_headers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "weights"
    folder.mkdir()
    header = json.dumps(
        {"w": {"dtype": "F32", "shape": [1000, 1000], "data_offsets": [0, 4_000_000]}}
    ).encode()
    # Nothing but the header is read: there is nothing else.
    (folder / "a.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    spec, plan = str(ROOT / "specs" / "orpheus.mstar"), str(tmp_path / "plan")
    code = run_command(["compile", spec, "--checkpoint", f"codec={folder}", "-o", plan])
    assert code == 0
    report = " ".join((tmp_path / "plan" / "REPORT.md").read_text().split())
    assert "| weights | codec | 4 MB | checkpoint |" in report
    wrong = ["compile", spec, "--checkpoint", f"codek={folder}", "-o", plan, "--format", "human"]
    assert run_command(wrong) == 2
    assert "did you mean `codec`" in capsys.readouterr().out
