"""The parts of the comparison with another server that need neither it nor a GPU."""

import json
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from snac import SNAC
from tokenizers import Tokenizer

from mstarc_runtime.models.orpheus import LanguageModel, SnacDecoder
from mstarc_runtime.weights.load import load, read_config
from tests.support.fake_server import fake_server
from tests.support.golden import ROOT

CPU = torch.device("cpu")
TINY = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
}
TINY_CODEC = {"encoder_dim": 8, "decoder_dim": 64, "codebook_size": 64}


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The script, as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "peers"))
    import orpheus

    yield orpheus
    for name in ("orpheus", "orpheus_checkpoint", "beside", "serving", "vox"):
        sys.modules.pop(name, None)


def test_our_decoder_reads_what_is_written_and_a_seed_writes_it_again(
    peers: ModuleType, tmp_path: Path
) -> None:
    from orpheus_checkpoint import LM

    config: dict[str, Any] = {**LM, **TINY}
    for name in ("a", "b"):
        peers.write_lm(tmp_path / name, config, seed=3)
    module = LanguageModel.build(read_config(tmp_path / "a"), dtype=torch.float32, device=CPU)
    load(module, tmp_path / "a", device=CPU)
    assert all(bool(p.isfinite().all()) for p in module.parameters())
    index = json.loads((tmp_path / "a" / "model.safetensors.index.json").read_text())
    files = sorted(set(index["weight_map"].values()))
    assert len(index["weight_map"]) == 2 + 9 * 2 + 1
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_text_has_as_many_tokens_as_bytes(peers: ModuleType, tmp_path: Path) -> None:
    from orpheus_checkpoint import write_tokenizer

    write_tokenizer(tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in ("tara: a word, and another.", "naïve — 猫"):
        ids = tokenizer.encode(text).ids
        assert len(ids) == len(text.encode())
        assert tokenizer.decode(ids) == text


def test_the_public_codec_and_ours_read_the_same_tensors(peers: ModuleType, tmp_path: Path) -> None:
    from orpheus_checkpoint import CODEC

    peers.write_codec(tmp_path, SNAC, {**CODEC, **TINY_CODEC})
    public = SNAC(**json.loads((tmp_path / "config.json").read_text())).eval()
    public.load_state_dict(torch.load(tmp_path / "pytorch_model.bin", weights_only=True))
    config = {**read_config(tmp_path), "first_code_id": 0}
    ours = SnacDecoder.build(config, dtype=torch.float32, device=CPU)
    load(ours, tmp_path, device=CPU)
    for own, name in ours.weight_map().items():
        held = ours.get_parameter(own)
        assert torch.equal(held.reshape(-1), public.state_dict()[name].reshape(-1)), name


def fake_site(folder: Path) -> Path:
    """The places of the peer that are changed, and nothing else of it."""
    engine, model = folder / "mstar" / "engine", folder / "mstar" / "model" / "orpheus"
    engine.mkdir(parents=True)
    model.mkdir(parents=True)
    (engine / "cuda_graph_runner.py").write_text(
        "DEFAULT_CAPTURE_BATCH_SIZES = [1, 2, 4, 8, 16, 32, 64]\n"
        'compile(mode="max-autotune-no-cudagraphs")\ncompile(mode="max-autotune-no-cudagraphs")\n'
    )
    (model / "submodules.py").write_text(
        "PREFILL_CAPTURE_BATCH_SIZES = [1, 2, 4, 8, 16]\ncapture_batch_sizes=[1, 2, 4, 8, 16]\n"
    )
    return folder


def test_the_peer_is_changed_in_a_copy_and_every_change_is_said(
    peers: ModuleType, tmp_path: Path
) -> None:
    site = fake_site(tmp_path / "site")
    said = peers.patched_peer(site, tmp_path / "copy", [1, 16])
    runner = (tmp_path / "copy/mstar/engine/cuda_graph_runner.py").read_text()
    assert runner.count('mode="default"') == 2
    assert "DEFAULT_CAPTURE_BATCH_SIZES = [1, 16]" in runner
    assert len(said) == 4
    assert "max-autotune" in (site / "mstar/engine/cuda_graph_runner.py").read_text()


def test_another_version_of_the_peer_is_refused(peers: ModuleType, tmp_path: Path) -> None:
    site = fake_site(tmp_path / "site")
    (site / "mstar/model/orpheus/submodules.py").write_text("something else\n")
    with pytest.raises(ValueError, match=r"this is not mstar-ai 0\.2\.1"):
        peers.patched_peer(site, tmp_path / "copy", [1])


def test_repositories_are_folders_for_the_peer(peers: ModuleType, tmp_path: Path) -> None:
    hub = ModuleType("huggingface_hub")
    before = sys.modules.get("huggingface_hub")
    sys.modules["huggingface_hub"] = hub
    try:
        exec(peers.site_text(tmp_path), {})
    finally:
        if before is not None:
            sys.modules["huggingface_hub"] = before
        else:
            del sys.modules["huggingface_hub"]
    found = hub.snapshot_download("hubertsiuzdak/snac_24khz", cache_dir=None)  # type: ignore[attr-defined]
    assert found == str(tmp_path / "codec")


def test_a_server_is_waited_for_and_ended(peers: ModuleType, tmp_path: Path) -> None:
    from serving import is_ready

    port = peers.free_port()
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    url = f"http://127.0.0.1:{port}/"
    with peers.server(command, environment={}, ready_url=url, log=tmp_path / "log") as ready_s:
        assert ready_s > 0
        assert is_ready(url)
    assert not is_ready(url)


def test_a_server_that_ends_is_said_with_the_end_of_its_log(
    peers: ModuleType, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", "print('no such device'); raise SystemExit(3)"]
    with (
        pytest.raises(RuntimeError, match="no such device"),
        peers.server(
            command, environment={}, ready_url="http://127.0.0.1:9/", log=tmp_path / "log"
        ),
    ):
        pass


def test_both_are_measured_by_the_same_client_and_set_against_each_other(
    peers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'runtime'}")
    asked = peers.parse(["--peer-site", "s", "--batches", "2", "--seconds", "0.01"])
    results = []
    for name, tokens in (("peer", 4), ("ours", 8)):
        with fake_server() as server:
            target = {"name": name, "url": server.url, "model": "orpheus"}
            content = peers.job(target, {"max_tokens": tokens}, asked, tmp_path / f"{name}.json")
            results.append(peers.bench(content))
            assert server.asked[0][1]["voice"] == "tara"
    found = peers.together(results, ["a change"])
    assert found["changed"] == ["a change"]
    (entry,) = found["ratios"]
    assert (entry["target"], entry["against"], entry["load"]) == ("ours", "peer", "2 at once")
    records = [target["loads"][0]["records"][0] for target in found["targets"]]
    sounds = [sum(length for _, length in record["sounds"]) for record in records]
    assert sounds[1] == pytest.approx(2 * sounds[0])


def test_our_plan_ends_at_no_token(peers: ModuleType, tmp_path: Path) -> None:
    text = peers.sizes_text(tmp_path)
    assert "eos: -1" in text
    assert f"{{source: {tmp_path / 'codec'}}}" in text


def test_a_door_asks_the_other_server_in_its_own_way(peers: ModuleType) -> None:
    asked: list[tuple[str, dict[str, list[str]]]] = []

    class Other(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            asked.append((self.path, urllib.parse.parse_qs(body)))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"sound")

        def log_message(self, *words: Any) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Other) as other:
        thread = threading.Thread(target=other.serve_forever, daemon=True)
        thread.start()
        with peers.vox.door(f"http://127.0.0.1:{other.server_address[1]}") as url:
            peers.ask_for_speech(url, whole=True)
        other.shutdown()
        thread.join()
    form = {"text": ["a word and another one"], "streaming": ["true"]}
    assert asked == [("/generate", form)]


def test_a_hub_has_folders_for_repositories(peers: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "lm"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    for _ in range(2):
        peers.vox.write_hub(tmp_path / "home", {"a/b": folder})
    snapshots = tmp_path / "home" / "hub" / "models--a--b" / "snapshots"
    (found,) = snapshots.iterdir()
    assert found.name == (snapshots.parent / "refs" / "main").read_text()
    assert (found / "config.json").read_text() == "{}"


def test_modules_that_are_not_installed_are_empty_ones(peers: ModuleType) -> None:
    program = peers.vox.SITE.format(names=("no_such", "no_such.part", "json"))
    program += "import json, no_such.part\nfrom no_such.part import Anything\nprint(json.dumps(1))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.strip() == b"1"
