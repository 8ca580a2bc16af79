"""What is shipped for containers and services is well formed, and asks for what the server has."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from mstarc_runtime.server.app import GETS
from mstarc_runtime.server.arguments import parse_serve
from tests.support.golden import ROOT

DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
UNIT = (DEPLOY / "systemd" / "mstarc.service").read_text(encoding="utf-8")
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
ROUTES = {path for path, _ in GETS}
# systemd's own sum of what a service may do, from 0 (nothing) to 10.
MOST_EXPOSED = 3.0


def manifest(kind: str) -> dict[str, Any]:
    found = [
        document
        for path in MANIFESTS
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if document["kind"] == kind
    ]
    assert len(found) == 1
    return dict(found[0])


def drain_s(words: list[str]) -> int:
    return int(parse_serve(words).drain_timeout)


def test_the_image_runs_the_server_with_words_that_it_knows() -> None:
    (entry,) = re.findall(r"^ENTRYPOINT (\[.*\])$", DOCKERFILE, re.MULTILINE)
    (command,) = re.findall(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    assert yaml.safe_load(entry) == ["mstarc", "serve"]
    options = parse_serve(yaml.safe_load(command))
    assert re.findall(r"^EXPOSE (\d+)$", DOCKERFILE, re.MULTILINE) == [str(options.port)]
    assert f"127.0.0.1:{options.port}/live" in DOCKERFILE and "/live" in ROUTES
    assert re.search(r"^USER 10001:10001$", DOCKERFILE, re.MULTILINE), "not root"
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = {
        word
        for line in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
        for word in line.split()
    }
    assert ignored[0] == "*" and {f"!{name}" for name in copied} <= set(ignored)
    assert all((ROOT / name).exists() for name in copied)


def test_the_pod_runs_the_server_and_asks_its_routes() -> None:
    pod = manifest("Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    options = parse_serve(container["args"])
    (port,) = container["ports"]
    assert (port["containerPort"], port["name"]) == (options.port, "http")
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["port"] == "http" and asked["path"] in ROUTES
    assert container["readinessProbe"]["httpGet"]["path"] == "/ready"
    assert container["livenessProbe"]["httpGet"]["path"] == "/live"
    assert pod["terminationGracePeriodSeconds"] > drain_s(container["args"])
    assert container["resources"]["limits"]["nvidia.com/gpu"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    secured = container["securityContext"]
    assert secured["readOnlyRootFilesystem"] and not secured["allowPrivilegeEscalation"]
    assert secured["capabilities"] == {"drop": ["ALL"]}
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}
    writable = {m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")}
    assert {"/cache", "/tmp"} <= writable
    service = manifest("Service")["spec"]
    labels = manifest("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()
    assert service["ports"][0]["targetPort"] == "http"
    (rule,) = manifest("NetworkPolicy")["spec"]["ingress"]
    assert rule["ports"][0]["port"] == options.port


def test_the_unit_runs_the_server_with_words_that_it_knows() -> None:
    (line,) = re.findall(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)
    program, command, *words = shlex.split(line)
    assert (Path(program).name, command) == ("mstarc", "serve")
    options = parse_serve(words)
    assert options.host == "127.0.0.1"
    (stop_s,) = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)
    assert int(stop_s) > drain_s(words)
    assert "Restart=on-failure" in UNIT


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "mstarc.service"
    # The server is not where the unit will find it; something is.
    unit.write_text(UNIT.replace("/opt/mstarc/bin/mstarc", "/bin/true"))
    words = ("systemd-analyze", "verify", "--man=no", str(unit))
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if "Failed to" in done.stderr and "mstarc" not in done.stderr:
        pytest.skip(done.stderr.strip())
    assert (done.returncode, done.stderr) == (0, "")
    words = ("systemd-analyze", "security", "--offline=true", str(unit))
    said = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    (exposed,) = re.findall(r"exposure level for \S+: ([\d.]+)", said)
    assert float(exposed) <= MOST_EXPOSED


def test_hadolint_finds_nothing_wrong_with_the_image() -> None:
    program = Path(sys.executable).with_name("hadolint")
    if not program.exists():
        pytest.skip("hadolint is not installed")
    words = (str(program), str(DEPLOY / "Dockerfile"))
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_are_what_kubernetes_knows(path: Path) -> None:
    validate = pytest.importorskip("kubernetes_validate")
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        validate.validate(document, validate.latest_version(), strict=True)
