"""Orpheus served by `mstar-ai` 0.2.1 and by us: one run, one device, the same weights and requests.

Random weights are written once, in the layout of the public checkpoints, and both read them. Each
server is started, timed until it is ready, put under the same closed waves by `mstarc bench`, and
ended before the other begins; then the ratios are printed. With `--vox` so is `vox-serve` 0.1.0, if
it starts. README.md beside this says what is changed in the peers and why.

    python benchmarks/peers/orpheus.py --peer-site SITE --work build/peers \\
        [--batches 1 4 16] [--tokens 420] [--seconds 15] [--serve] [--vox] [--as-shipped]
        [--out FILE]
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import vox
from beside import PEER, TUNED, UNTUNED, Change, bench, bench_job, changed_copy, together
from orpheus_checkpoint import write_codec, write_lm
from serving import ask_for_speech, end_of, end_on_signals, free_port, server

ROOT = Path(__file__).parents[2]
PAGES = 1024  # of 128 tokens each

# Python runs this in every process of the peer: repositories are folders of ours.
SITE = """import os
try:
    import huggingface_hub
except ImportError:
    pass
else:
    _folders = {repositories!r}
    def _local(repo_id, *args, **kwargs):
        return _folders[repo_id]
    huggingface_hub.snapshot_download = _local
"""


# The peer


def peer_config(batches: Sequence[int]) -> str:
    """Its YAML: everything on one device, with pages for all requests."""
    assert batches
    return (
        'model: "orpheus"\n'
        "max_seq_len: 8192\n"
        "resources:\n"
        f"  kv_cache: {{max_num_pages: {PAGES}}}\n"
        "node_groups:\n"
        "  - node_names: [LLM]\n"
        "    ranks: [0]\n"
        "    graph_walks: [prefill, decode]\n"
        "  - node_names: [snac_decoder]\n"
        "    ranks: [0]\n"
        "    graph_walks: [snac_chunk]\n"
    )


def site_text(work: Path) -> str:
    """Its `sitecustomize.py`."""
    lm, codec = str(work / "lm"), str(work / "codec")
    names = ("canopylabs/orpheus-3b-0.1-ft", "canopylabs/orpheus-3b-0.1-pretrained")
    return SITE.format(repositories={**dict.fromkeys(names, lm), "hubertsiuzdak/snac_24khz": codec})


def patched_peer(site: Path, target: Path, batches: Sequence[int]) -> list[str]:
    """A copy of the peer that starts in minutes; what was changed in it, one line a change.

    Raises ValueError where a place to change is not there: then it is another version.
    """
    runner, model = "engine/cuda_graph_runner.py", "model/orpheus/submodules.py"
    sizes = list(batches)
    changes = [
        Change(runner, TUNED, UNTUNED),
        Change(
            runner,
            "DEFAULT_CAPTURE_BATCH_SIZES = [1, 2, 4, 8, 16, 32, 64]",
            f"DEFAULT_CAPTURE_BATCH_SIZES = {sizes}",
        ),
        Change(
            model,
            "PREFILL_CAPTURE_BATCH_SIZES = [1, 2, 4, 8, 16]",
            f"PREFILL_CAPTURE_BATCH_SIZES = {sizes}",
        ),
        Change(model, "capture_batch_sizes=[1, 2, 4, 8, 16]", f"capture_batch_sizes={sizes}"),
    ]
    return changed_copy(site, target, changes)


def snac_class(site: Path) -> Any:
    """The peer's SNAC, whose strict reader says which tensors a checkpoint has."""
    path = site / "mstar" / "model" / "orpheus" / "components" / "snac.py"
    spec = importlib.util.spec_from_file_location("peer_snac", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.SNAC


# Measuring


def job(
    target: Mapping[str, Any], options: Mapping[str, Any], asked: argparse.Namespace, out: Path
) -> dict[str, Any]:
    """What `mstarc bench` is to do with one of the two."""
    return bench_job(
        target,
        {"voice": "tara", **options},
        words=16,
        batches=asked.batches,
        seconds=asked.seconds,
        out=out,
    )


def sizes_text(work: Path) -> str:
    """The sizes of our plan: the weights are the folders, and no token ends a request."""
    return (
        "config:\n  eos: -1\n"
        f"weights:\n  frontend: {{source: {work / 'lm'}}}\n"
        f"  lm: {{source: {work / 'lm'}}}\n"
        f"  codec: {{source: {work / 'codec'}}}\n"
    )


def compile_plan(work: Path, placement: str) -> Path:
    """Our plan of the same model. Raises CalledProcessError."""
    sizes, plan = work / "sizes.yaml", work / "plan"
    sizes.write_text(sizes_text(work), encoding="utf-8")
    command = [sys.executable, "-m", "mstarc", "compile", str(ROOT / "specs" / "orpheus.mstar")]
    command += ["--sizes", str(sizes), "--placement", placement, "-o", str(plan)]
    subprocess.run(command, check=True)
    return plan


def write_checkpoints(work: Path, site: Path) -> None:
    """Both folders, unless they are there."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if not (work / "lm" / "tokenizer_config.json").exists():
        write_lm(work / "lm", device=device)
    if not (work / "codec" / "config.json").exists():
        write_codec(work / "codec", snac_class(site))


def measure_peer(
    asked: argparse.Namespace, work: Path, pythonpath: str, config: Path
) -> dict[str, Any]:
    port = free_port()
    command = [sys.executable, "-m", "mstar.api_server.entrypoint", "--config", str(config)]
    command += ["--tensor-comm-protocol", "SHM", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--socket-path-prefix", str(work / "mstar"), "--upload-dir", str(work / "uploads")]
    url = f"http://127.0.0.1:{port}"
    environment = {"PYTHONPATH": pythonpath}
    with server(
        command, environment=environment, ready_url=f"{url}/health", log=work / "peer.log"
    ) as ready_s:
        target = {"name": PEER, "url": url, "model": "orpheus"}
        options = {"max_output_tokens": asked.tokens, "ignore_eos": True, "temperature": 0.6}
        found = bench(job(target, options, asked, work / "peer.json"))
    found["targets"][0]["facts"] |= {"ready_s": ready_s, "start_s": {}}
    return found


def measure_vox(asked: argparse.Namespace, work: Path) -> dict[str, Any] | None:
    """What it made of the loads; nothing where it did not start, and then it is said why."""
    site, home, port = work / "vox_site", work / "hub", free_port()
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(vox.site_text(), encoding="utf-8")
    vox.write_hub(home, {vox.MODEL: work / "lm", "hubertsiuzdak/snac_24khz": work / "codec"})
    paths = [str(site), str(asked.peer_site.absolute()), os.environ.get("PYTHONPATH", "")]
    environment = {
        "PYTHONPATH": os.pathsep.join(paths),
        "HF_HOME": str(home),
        "HF_HUB_OFFLINE": "1",
    }
    url = f"http://127.0.0.1:{port}"
    try:
        with (
            server(
                vox.command(sys.executable, port, asked.batches, asked.tokens),
                environment=environment,
                ready_url=f"{url}/health",
                log=work / "vox.log",
            ) as ready_s,
            vox.door(url) as door,
        ):
            # It says that it is healthy before it has read its weights.
            begun = time.monotonic()
            ask_for_speech(door, whole=True)
            ready_s += time.monotonic() - begun
            target = {"name": vox.NAME, "url": door, "model": vox.MODEL}
            found = bench(job(target, {}, asked, work / "vox.json"))
    except (OSError, RuntimeError) as error:
        print(f"{vox.NAME} does not serve here: {error}\n{end_of(work / 'vox.log')}")
        return None
    found["targets"][0]["facts"] |= {"ready_s": ready_s, "start_s": {}}
    return found


def measure_ours(asked: argparse.Namespace, work: Path) -> dict[str, Any]:
    plan = compile_plan(work, asked.placement)
    options = {"max_tokens": asked.tokens, "temperature": 0.6}
    if not asked.serve:
        target = {"name": "mstarc", "plan": str(plan), "placement": asked.placement}
        return bench(job(target, options, asked, work / "ours.json"))
    port = free_port()
    command = [sys.executable, "-m", "mstarc", "serve", str(plan), "--port", str(port)]
    command += ["--placement", asked.placement, "--no-deterministic"]
    command += ["--buckets", ",".join(str(size) for size in asked.batches)]
    url = f"http://127.0.0.1:{port}"
    with server(
        command, environment={}, ready_url=f"{url}/ready", log=work / "ours.log"
    ) as ready_s:
        target = {"name": "mstarc over HTTP", "url": url, "model": "orpheus"}
        found = bench(job(target, options, asked, work / "ours.json"))
    found["targets"][0]["facts"] |= {"ready_s": ready_s, "start_s": {}}
    return found


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer-site", type=Path, required=True, help="its unpacked wheels")
    parser.add_argument("--work", type=Path, default=Path("build/peers"))
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--tokens", type=int, default=420)
    parser.add_argument("--seconds", type=float, default=15.0, help="in which waves begin")
    parser.add_argument("--placement", default="1xH200")
    parser.add_argument("--serve", action="store_true", help="ours over HTTP as well")
    parser.add_argument("--vox", action="store_true", help="vox-serve 0.1.0 as well")
    parser.add_argument("--as-shipped", action="store_true", help="change nothing in the peer")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--svg", type=Path)
    return parser.parse_args(arguments)


def main() -> int:
    end_on_signals()
    asked = parse()
    work = asked.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    write_checkpoints(work, asked.peer_site)
    config = work / "peer.yaml"
    config.write_text(peer_config(asked.batches), encoding="utf-8")
    (work / "site").mkdir(exist_ok=True)
    (work / "site" / "sitecustomize.py").write_text(site_text(work), encoding="utf-8")
    changed: list[str] = ["huggingface_hub.snapshot_download -> local folders"]
    paths = [str(work / "site"), str(asked.peer_site.absolute())]
    if not asked.as_shipped:
        changed += patched_peer(asked.peer_site, work / "peer", asked.batches)
        paths.insert(1, str(work / "peer"))
    pythonpath = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])
    results = [measure_peer(asked, work, pythonpath, config), measure_ours(asked, work)]
    if asked.vox and (other := measure_vox(asked, work)) is not None:
        results.append(other)
        changed += vox.CHANGES
    found = together(results, changed)

    from mstarc_runtime.bench.picture import picture_of
    from mstarc_runtime.bench.table import print_table

    print_table(found, sys.stdout)
    print("changed in the peer:", *changed, sep="\n  ")
    if asked.out is not None:
        asked.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if asked.svg is not None:
        asked.svg.write_text(picture_of(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
