"""A deployment with one mistake is refused: the place, the code, the name, and what was meant."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mstarc.cli.main import run_command
from mstarc.diagnostics import CATALOG

SPEC = """mstar 1

model pair

request {
  in  prompt : text
  out speech : audio(24000)
}

node words : host {
  impl "pair:Words"
  op ids(prompt: text) -> (ids: i64[T])
}

node decoder : kv_cache {
  impl "pair:Decoder"
  weights "pair" size 1 GB
  shards tensor
  kv { layers = 2, heads = 2, head_dim = 64 }
  op prefill(ids: i64[T]) -> (token: i64)  attends causal  writes
  op step(token: i64) -> (next: i64)       attends causal  writes
}

node codec : stateless {
  impl "pair:Codec"
  weights "codec" size 1 GB
  op decode(codes: i64[4]) -> (pcm: f32[64])
}

stream codes : i64 chunk fixed(4) tail drop

walk decode(ids: i64[T]) {
  first = decoder.prefill(ids)
  loop max 64 carry token = first while token != 2 {
    send codes <- token
    token = decoder.step(token)
  }
}

walk vocode(codes: i64[4]) {
  pcm = codec.decode(codes)
  emit speech <- pcm
}

machine talk {
  state begin {
    ids = words.ids(prompt)
    run decode(ids)
    next done
  }
}

machine sound {
  state begin {
    each codes as window { run vocode(window) }
    next done
  }
}
"""
VALID = """model: pair
max_seq_len: 1024
max_concurrent_requests: 4
node_groups:
  - node_names: [decoder]
    ranks: [0]
    tp_size: 1
    graph_walks: [decode]
  - node_names: [codec]
    ranks: [1]
    graph_walks: [vocode]
"""
# What is changed, and the code, place, name and suggestion that have to come of it.
MUTATIONS = [
    ("missing node", "[codec]", "[words]", "MS0607", 4, 1, "codec", None),
    ("extra node", "[codec]", "[codec, mixer]", "MS0608", 9, 25, "mixer", None),
    ("misspelt node", "[codec]", "[codex]", "MS0608", 9, 18, "codex", "codec"),
    ("wrong walk", "[vocode]", "[vocoda]", "MS0609", 11, 19, "vocoda", "vocode"),
    (
        "node in two groups",
        "[codec]\n    ranks: [1]\n    graph_walks: [vocode]",
        "[codec, decoder]\n    ranks: [1]\n    graph_walks: [vocode, decode]",
        "MS0613",
        9,
        25,
        "decoder",
        None,
    ),
    ("misspelt key", "tp_size", "tp_szie", "MS0603", 7, 5, "tp_szie", "tp_size"),
    ("duplicate rank", "ranks: [1]", "ranks: [1, 1]", "MS0610", 10, 16, "1", None),
    ("empty ranks", "ranks: [1]", "ranks: []", "MS0611", 10, 12, "ranks", None),
    ("rank too high", "ranks: [1]", "ranks: [2]", "MS0612", 10, 13, "2", None),
    ("not divisible", "[0]\n    tp_size: 1", "[0, 1]\n    tp_size: 3", "MS0614", 6, 12, "2", None),
    (
        "not shardable",
        "[codec]\n    ranks: [1]",
        "[codec]\n    ranks: [0, 1]\n    tp_size: 2",
        "MS0616",
        9,
        18,
        "codec",
        None,
    ),
    ("no number", "max_seq_len: 1024", "max_seq_len: many", "MS0605", 2, 14, "many", None),
    ("no model", "model: pair\n", "", "MS0604", 1, 1, "model", None),
    ("no YAML", "[codec]", "[codec", "MS0602", 9, 17, "[", None),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pair.mstar").write_text(SPEC)
    return tmp_path


def compile_with(deployment: str, *, alone: bool = False) -> list[str]:
    """The command for a file beside its spec, or alone: then the spec is found by the model."""
    Path("pair.yaml").write_text(deployment)
    return [
        "compile",
        *(("pair.yaml",) if alone else ("pair.mstar", "--deployment", "pair.yaml")),
        "--placement",
        "2xH200",
        "--format",
        "jsonl",
        "-o",
        "plan",
    ]


@pytest.mark.parametrize("alone", [False, True])
def test_the_valid_file_compiles(
    folder: Path, capsys: pytest.CaptureFixture[str], *, alone: bool
) -> None:
    assert run_command(compile_with(VALID, alone=alone)) == 0
    assert capsys.readouterr().out == ""
    assert (folder / "plan" / "placements" / "pair").is_dir()


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(
    ("old", "new", "code", "line", "column", "name", "meant"),
    [row[1:] for row in MUTATIONS],
    ids=[row[0] for row in MUTATIONS],
)
def test_one_mistake_is_one_error(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    code: str,
    line: int,
    column: int,
    name: str,
    meant: str | None,
    *,
    alone: bool,
) -> None:
    mutated = VALID.replace(old, new)
    assert mutated != VALID
    assert run_command(compile_with(mutated, alone=alone)) == 1
    found = [json.loads(row) for row in capsys.readouterr().out.splitlines()]
    errors = [row for row in found if CATALOG[row["code"]].severity == "error"]
    assert [row["code"] for row in errors] == [code], found
    error = errors[0]
    assert error["file"] == "pair.yaml"
    assert (error["span"]["startLine"], error["span"]["startColumn"]) == (line, column)
    assert name in error["message"] + "".join(label["text"] for label in error["labels"])
    said = "".join(error["help"])
    assert (f"did you mean `{meant}`" in said) if meant else ("did you mean" not in said)
    assert not (folder / "plan").exists()


def test_refusing_needs_no_torch(folder: Path) -> None:
    arguments = compile_with(VALID.replace("[codec]", "[codex]"))
    code = (
        "import sys\n"
        "from mstarc.cli.main import run_command\n"
        f"status = run_command({arguments!r})\n"
        "assert 'torch' not in sys.modules\n"
        "sys.exit(status)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, check=False)
    assert done.returncode == 1
