"""A server that says what it does: ids, logs, traces, metrics, and the live feed."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.serving import HELLO, Server, compiled, serving

pytest.importorskip("opentelemetry.sdk")

ASKED = {"inputs": {"prompt": "hello"}, "options": {"max_tokens": 40}, "seed": 3}
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("seen")


@pytest.fixture(scope="module")
def logging(folder: Path) -> Iterator[Server]:
    plan = compiled(folder, *HELLO, "2xcpu")
    traces = str(folder / "spans.jsonl")
    options = ("--placement", "2xcpu", "--log-format", "json", "--traces", traces)
    with serving(plan, *options) as server:
        yield server


def lines(server: Server) -> list[dict[str, Any]]:
    return [json.loads(line) for line in server.lines]


def test_every_answer_has_its_id_and_a_clients_own_is_kept(logging: Server) -> None:
    assert re.fullmatch("[0-9a-f]{32}", logging.http.get("/health").headers["x-request-id"])
    for given, kept in (("mine-1", True), ("a b", False), ("x" * 129, False)):
        answer = logging.http.get("/v1/models", headers={"x-request-id": given})
        assert (answer.headers["x-request-id"] == given) is kept
    refused = logging.http.post("/generate", json={}, headers={"x-request-id": "mine-2"})
    assert refused.headers["x-request-id"] == "mine-2"
    nowhere = logging.http.get("/nowhere")
    assert nowhere.headers["x-request-id"]
    assert (nowhere.status_code, nowhere.json()["error"]["code"]) == (404, "MS9223")
    other = logging.http.get("/generate")
    assert (other.status_code, other.json()["error"]["helps"]) == (405, ["ask it with POST"])


def test_a_log_of_json_says_what_became_of_each_request(logging: Server) -> None:
    logging.http.post("/generate", json=ASKED, headers={"x-request-id": "logged-1"})
    bad = {"inputs": {"prompt": "hello"}, "options": {"max_tokens": -1}}
    logging.http.post("/generate", json=bad, headers={"x-request-id": "logged-2"})
    logging.wait_for('"logged-2"')
    said = {line["id"]: line for line in lines(logging) if line["event"] == "request"}
    good, refused = said["logged-1"], said["logged-2"]
    assert (good["status"], good["tokens"], good["level"]) == (200, 40, "info")
    assert good["sound_s"] > 0 and 0 < good["first_output_s"] <= good["seconds"]
    assert (refused["status"], refused["path"]) == (400, "/generate")
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT.*Z", line["time"]) for line in lines(logging))
    assert {"listening", "ready"} <= {line["event"] for line in lines(logging)}
    assert not [line for line in lines(logging) if line.get("path") == "/health"]


def test_metrics_are_complete_by_node_and_walk(logging: Server) -> None:
    logging.post("/generate", **ASKED)
    text = logging.http.get("/metrics").text
    where = 'node="lm",process="0",step="speak.write.pass",walk="speak.write.pass"'
    for name in (
        f"mstarc_host_seconds_total{{{where}}}",
        f"mstarc_host_microseconds_per_step{{{where}}}",
        f"mstarc_step_requests_total{{{where}}}",
        f"mstarc_batch_size_count{{{where}}}",
        'mstarc_host_op_seconds_total{node="reader"',
        'mstarc_kv_pages_free{node="lm",process="0"}',
        'mstarc_kv_preemptions_total{process="0"}',
        'mstarc_kv_evictions_total{process="0"}',
        'mstarc_audio_underruns_total{output="song",route="/generate"}',
        'mstarc_audio_real_time_factor_sum{route="/generate"}',
        'mstarc_queue_seconds_count{route="/generate"}',
        'mstarc_requests_total{outcome="finished",route="/generate"}',
        "mstarc_requests_waiting",
        "mstarc_worker_restarts_total",
        "mstarc_python_blocks",
        "mstarc_eager_fallbacks_total{",
    ):
        assert f"\n{name}" in text, name
    buckets = [line for line in text.splitlines() if line.startswith("mstarc_batch_size_bucket")]
    (one,) = [line for line in buckets if f'le="1",{where}' in line or f'{where},le="1"' in line]
    assert float(one.split()[-1]) >= 40


def test_the_feed_follows_a_request_from_rank_to_rank(logging: Server) -> None:
    asked = {**ASKED, "options": {"max_tokens": 400}, "stream": True}
    seen: set[str] = set()
    with logging.http.stream(
        "POST", "/generate", json=asked, headers={"x-request-id": "followed"}
    ) as answer:
        answer.iter_raw()
        with httpx.Client(base_url=logging.address, timeout=60) as other:
            headers = {"accept": "text/event-stream"}
            with other.stream("GET", "/debug/live", headers=headers) as feed:
                for line in feed.iter_lines():
                    if not line.startswith("data: "):
                        continue
                    frame = json.loads(line.removeprefix("data: "))
                    (request,) = frame["requests"]
                    assert (request["id"], request["route"]) == ("followed", "/generate")
                    for worker in frame["workers"]:
                        rows = worker["rows"].items()
                        seen |= {step for step, places in rows for _ in places.values()}
                    if {"speak.write.pass", "voice.listen.sing"} <= seen:
                        break
    once = logging.http.get("/debug/live").json()
    assert once["slots"] == 8 and [worker["answers"] for worker in once["workers"]] == [True, True]
    logging.held()


def test_spans_tell_the_path_and_hang_below_the_clients(logging: Server, folder: Path) -> None:
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "traced"}
    logging.http.post("/generate", json=ASKED, headers=headers)
    assert logging.end() == 0  # and so all spans are written
    spans = [json.loads(line) for line in (folder / "spans.jsonl").read_text().splitlines()]
    mine = {s["name"]: s for s in spans if s["context"]["trace_id"] == f"0x{TRACE}"}
    root = mine["POST /generate"]
    assert root["parent_id"] == f"0x{PARENT}"
    assert root["attributes"]["mstarc.request_id"] == "traced"
    assert root["attributes"]["http.response.status_code"] == 200
    parents = {
        "request": "POST /generate",
        "queue": "request",
        "speak.begin": "request",
        "speak.begin.encode": "speak.begin",
        "speak.write.pass": "speak.write",
        "voice.listen.sing": "voice.listen",
        "letters.said": "request",
    }
    for name, parent in parents.items():
        assert name in mine, sorted(mine)
        assert mine[name]["parent_id"] == mine[parent]["context"]["span_id"], name
    assert mine["voice.listen.sing"]["attributes"]["mstarc.visits"] > 1
    assert mine["request"]["attributes"]["mstarc.tokens"] == 40
    assert mine["request"]["events"][0]["name"] == "first output"
    assert mine["speak.write.pass"]["end_time"] <= mine["voice.listen.sing"]["end_time"]
    for span in mine.values():
        assert root["start_time"] <= span["start_time"] <= span["end_time"]


def test_spans_without_their_packages_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from mstarc_runtime.errors import RuntimeFailure
    from mstarc_runtime.server import tracing

    monkeypatch.setattr(tracing, "_PACKAGES", ("opentelemetry.nowhere",))
    with pytest.raises(RuntimeFailure) as refused:
        tracing.tracing_to(str(tmp_path / "spans.jsonl"), "hello")
    assert refused.value.code == "MS9018"
