"""OpenAI's client asks every route that a server has, whole and streamed: the script that does."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.golden import ROOT
from tests.support.serving import Server

pytest.importorskip("openai")
pytest.importorskip("websockets")


@pytest.mark.parametrize(
    ("name", "routes"),
    [
        pytest.param(
            "hello",
            {"/v1/chat/completions", "/v1/audio/speech"},
            marks=pytest.mark.xdist_group("hello"),
        ),
        pytest.param(
            "hearing",
            {"/v1/chat/completions", "/v1/audio/transcriptions", "/v1/realtime"},
            marks=pytest.mark.xdist_group("hearing"),
        ),
    ],
)
def test_every_route_answers_as_it_must(
    name: str, routes: set[str], request: pytest.FixtureRequest
) -> None:
    server: Server = request.getfixturevalue(name)
    before = server.held()
    script = ROOT / "benchmarks" / "openai_routes.py"
    done = subprocess.run(
        [sys.executable, str(script), server.address, "--json", "--max-tokens", "32"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert {row["route"] for row in rows} == {"/v1/models", *routes}
    assert server.held() == before
