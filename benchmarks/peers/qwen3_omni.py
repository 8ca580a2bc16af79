"""Qwen3-Omni, speech from text, served by `mstar-ai` 0.2.1 and by us: one run, the same two GPUs.

Both have random weights of the full size, drawn on the devices, and are asked over HTTP by `mstarc
bench`: closed waves of texts, answered by as many tokens of text as frames of speech. Neither ends
early. Each server is started, timed until it is ready, measured, and ended before the other begins.
README.md beside this says what is changed in the peer and why.

    python benchmarks/peers/qwen3_omni.py --peer-site SITE --work build/peers \\
        [--batches 1 4 8] [--tokens 256] [--seconds 4] [--ready-limit 600] [--only ours]
        [--out FILE]
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from beside import PEER, TUNED, UNTUNED, Change, bench, bench_job, changed_copy, together
from orpheus_checkpoint import write_tokenizer
from serving import end_group, end_of, end_on_signals, free_port, server

ROOT = Path(__file__).parents[2]
INSIDE = Path(__file__).with_name("qwen3_omni_inside.py")
MODEL = "qwen3_omni"
# As many words as make about 90 letters: a token each.
WORDS = 12
PROMPTS = (128, 512)
# The marks of a conversation, by the names of their ids in config.json. A role is a word of a
# tokenizer's; here it is a mark, as texts have a token a letter.
MARKS = {
    "<|im_start|>": "im_start_token_id",
    "<|im_end|>": "im_end_token_id",
    "<|system|>": "system_token_id",
    "<|user|>": "user_token_id",
    "<|assistant|>": "assistant_token_id",
}
# Of what the peer puts before it, its own system prompt is left out: we have none.
TEMPLATE = (
    "{% for turn in messages %}{% if turn.role != 'system' %}<|im_start|><|{{ turn.role }}|>\n"
    "{% for part in turn.content %}{{ part.text }}{% endfor %}<|im_end|>\n{% endif %}{% endfor %}"
    "<|im_start|><|assistant|>{{ '\n' }}"
)
# What the ends of its files import of `qwen3_omni_inside.py`, by what has to be in them.
ADDED = {
    "model/loader/iterators.py": (
        "def iter_safetensors_shards(",
        ["from {inside} import random_embedding as iter_safetensors_shards"],
    ),
    "model/loader/base.py": (
        "def load_hf_weights(",
        ["from {inside} import random_weights as load_hf_weights"],
    ),
    "model/utils.py": (
        "def load_weights_from_hf_shards(",
        ["from {inside} import random_modules as load_weights_from_hf_shards"],
    ),
    "utils/fused_moe/align.py": (
        "def _cuda_op_available(",
        [
            "from {inside} import built_before",
            "_cuda_op_available = built_before(_cuda_op_available)",
        ],
    ),
    "model/qwen3_omni/qwen3_omni_model.py": (
        "def _resolve_local_hf_snapshot(",
        [
            "from {inside} import local_folder as _resolve_local_hf_snapshot",
            "from {inside} import speech_from_text",
            "speech_from_text(Qwen3OmniModel)",
        ],
    ),
    "model/qwen3_omni/submodules.py": (
        "def get_cuda_graph_configs(",
        [
            "from {inside} import fewer_captures, never_ending",
            "fewer_captures(ThinkerSubmodule, TalkerSubmodule, Code2WavSubmodule)",
            "never_ending(TalkerSubmodule)",
        ],
    ),
}
SAID = [
    "weights are drawn on the devices: no checkpoint is read",
    "its encoders of pictures and sound, which want flash_attn, are empty",
    "the tokenizer's template lays out prompts, without its own system prompt",
    "the Talker never draws the end of speech",
    "tensors go from rank to rank by SHM: RDMA wants mooncake-transfer-engine",
]


def changed_peer(site: Path, target: Path, batches: Sequence[int]) -> list[str]:
    """A copy of the peer that needs no checkpoint and starts sooner; what was changed in it.

    Raises ValueError where a place to change is not there: then it is another version.
    """
    said = changed_copy(site, target, [Change("engine/cuda_graph_runner.py", TUNED, UNTUNED)])
    for name, (expected, lines) in ADDED.items():
        path = target / "mstar" / name
        text = path.read_text(encoding="utf-8")
        if expected not in text:
            raise ValueError(f"mstar/{name} has no `{expected}`: this is not {PEER}")
        added = "\n".join(line.format(inside=INSIDE.stem) for line in lines)
        path.write_text(f"{text}\n\n{added}\n", encoding="utf-8")
    (target / INSIDE.name).write_text(INSIDE.read_text(encoding="utf-8"), encoding="utf-8")
    captured = f"graphs are captured at batches {list(batches)}, prompts of {list(PROMPTS)} tokens"
    return [*said, captured, *SAID]


def write_folder(folder: Path, config: Mapping[str, Any]) -> None:
    """What the peer reads of a checkpoint's folder but weights: config.json and a tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    write_tokenizer(folder)
    path = folder / "tokenizer.json"
    made = json.loads(path.read_text(encoding="utf-8"))
    for content, key in MARKS.items():
        made["model"]["vocab"][content] = config[key]
        made["added_tokens"].append(
            {
                "id": config[key],
                "content": content,
                "special": True,
                **dict.fromkeys(("normalized", "single_word", "lstrip", "rstrip"), False),
            }
        )
    path.write_text(json.dumps(made), encoding="utf-8")
    path = folder / "tokenizer_config.json"
    more = {**json.loads(path.read_text(encoding="utf-8")), "chat_template": TEMPLATE}
    path.write_text(json.dumps(more, indent=1) + "\n", encoding="utf-8")


def endless(sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Sizes of our plan in which no token ends a text and no code a speech.

    The Talker may draw its end beside the codes, so its end is one of the codes instead.
    """
    content: dict[str, Any] = json.loads(json.dumps(sizes))
    content["config"] = {**content.get("config", {}), "im_end": -1, "codec_eos": -1}
    for weights in content["weights"].values():
        if "config" in weights:
            weights["config"]["talker_config"]["codec_eos_token_id"] = 0
    return content


def build_early(pythonpath: str, log: Path) -> "subprocess.Popen[bytes]":
    """Builds the peer's kernel that sorts rows by experts, while its servers begin."""
    program = "from mstar.utils.fused_moe.align import _cuda_op_available as built; print(built())"
    with log.open("wb") as out:
        return subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": pythonpath},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def measured(asked: argparse.Namespace, work: Path, target: dict[str, Any]) -> dict[str, Any]:
    """What a server made of the loads that it was asked for."""
    if target["name"] == PEER:
        options = {"max_output_tokens": asked.tokens, "talker_max_output_tokens": asked.tokens}
        options = {**options, "ignore_eos": True}
    else:
        options = {"max_tokens": asked.tokens, "talker_max_tokens": asked.tokens}
    out = work / f"{target['name'].split()[0]}.json"
    job = bench_job(
        {"model": MODEL, **target},
        {"voice": "ethan", **options},
        words=WORDS,
        batches=asked.batches,
        seconds=asked.seconds,
        out=out,
    )
    return bench(job, limit_s=asked.bench_limit)


def measure_peer(asked: argparse.Namespace, work: Path, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Raises RuntimeError where it does not start in time, or does not answer."""
    changed = changed_peer(asked.peer_site.absolute(), work / "peer", asked.batches)
    config = sizes["weights"]["frontend"]["config"]
    write_folder(work / "folder", config)
    text = config["thinker_config"]["text_config"]
    paths = [str(work / "peer"), str(asked.peer_site.absolute()), os.environ.get("PYTHONPATH", "")]
    environment = {
        "PYTHONPATH": os.pathsep.join(paths),
        "HF_HUB_OFFLINE": "1",
        "MSTARC_PEER_FOLDER": str(work / "folder"),
        "MSTARC_PEER_BATCHES": ",".join(map(str, asked.batches)),
        "MSTARC_PEER_PROMPTS": ",".join(map(str, PROMPTS)),
        "MSTARC_PEER_EMBEDDING": f"{text['vocab_size']},{text['hidden_size']}",
    }
    layout = asked.peer_site / "mstar" / "default_configs" / f"{asked.layout}.yaml"
    port = free_port()
    command = [sys.executable, "-m", "mstar.api_server.entrypoint", "--config", str(layout)]
    command += ["--tensor-comm-protocol", "SHM", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--socket-path-prefix", str(work / "mstar"), "--upload-dir", str(work / "uploads")]
    url = f"http://127.0.0.1:{port}"
    building = None
    if asked.peer_op is None:
        building = build_early(environment["PYTHONPATH"], work / "early.log")
    else:
        environment["MSTARC_PEER_OP"] = str(asked.peer_op.absolute())
    try:
        with server(
            command,
            environment=environment,
            ready_url=f"{url}/health",
            log=work / "peer.log",
            limit_s=asked.ready_limit,
        ) as ready_s:
            print(f"{PEER} is ready after {ready_s:.0f} s", flush=True)
            found = measured(asked, work, {"name": PEER, "url": url})
    finally:
        if building is not None:
            end_group(building)
    found["targets"][0]["facts"] |= {"ready_s": ready_s, "start_s": {}}
    return {**found, "changed": changed}


def measure_ours(asked: argparse.Namespace, work: Path, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Raises RuntimeError where it does not start, CalledProcessError where it is refused."""
    path, plan, port = work / "sizes.yaml", work / "plan", free_port()
    path.write_text(yaml.safe_dump(endless(sizes)), encoding="utf-8")
    command = [sys.executable, "-m", "mstarc", "compile", str(ROOT / "specs" / "qwen3_omni.mstar")]
    command += ["--sizes", str(path), "-o", str(plan)]
    layout = Path(asked.placement)
    command += ["--deployment" if layout.suffix == ".yaml" else "--placement", asked.placement]
    subprocess.run(command, check=True)
    command = [sys.executable, "-m", "mstarc", "serve", str(plan), "--port", str(port)]
    command += ["--placement", layout.stem, "--no-deterministic"]
    command += ["--buckets", ",".join(str(size) for size in asked.batches)]
    url = f"http://127.0.0.1:{port}"
    with server(
        command,
        environment={},
        ready_url=f"{url}/ready",
        log=work / "ours.log",
        limit_s=asked.ready_limit,
    ) as ready_s:
        print(f"ours is ready after {ready_s:.0f} s", flush=True)
        found = measured(asked, work, {"name": "mstarc over HTTP", "url": url})
    found["targets"][0]["facts"] |= {"ready_s": ready_s, "start_s": {}}
    return found


Measure = Callable[
    [argparse.Namespace, Path, Mapping[str, Any]],
    dict[str, Any],
]
SIDES: Mapping[str, tuple[Measure, str]] = {
    "peer": (measure_peer, "peer.log"),
    "ours": (measure_ours, "ours.log"),
}


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer-site", type=Path, default=Path(), help="its unpacked wheels")
    parser.add_argument("--peer-op", type=Path, help="a library with its kernel, built before")
    parser.add_argument("--work", type=Path, default=Path("build/peers"))
    parser.add_argument("--sizes", type=Path, default=ROOT / "specs" / "random" / f"{MODEL}.yaml")
    parser.add_argument("--placement", default=str(ROOT / "specs/deployments/qwen3omni_2gpu.yaml"))
    parser.add_argument("--layout", default="qwen3omni_2gpu", help="one of the peer's own")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--tokens", type=int, default=256, help="of text, and frames of speech")
    parser.add_argument("--seconds", type=float, default=4.0, help="in which waves begin")
    parser.add_argument("--ready-limit", type=float, default=1200.0, help="seconds, of each start")
    parser.add_argument("--bench-limit", type=float, help="seconds, of all loads of one")
    parser.add_argument("--only", choices=SIDES, help="measure one of the two")
    parser.add_argument("--out", type=Path)
    return parser.parse_args(arguments)


def main() -> int:
    end_on_signals()
    asked = parse()
    work = asked.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    sizes = yaml.safe_load(asked.sizes.read_text(encoding="utf-8"))
    results: list[dict[str, Any]] = []
    for name, (measure, log) in SIDES.items():
        if asked.only not in (None, name):
            continue
        try:
            results.append(measure(asked, work, sizes))
        except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
            print(f"{name} was not measured: {error}", flush=True)
            with suppress(OSError):
                print(end_of(work / log), flush=True)
    if not results:
        return 1
    found = together(results, results[0].get("changed", []))

    from mstarc_runtime.bench.table import print_table

    print_table(found, sys.stdout)
    if found["changed"]:
        print("changed in the peer:", *found["changed"], sep="\n  ")
    if asked.out is not None:
        asked.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
