"""Servers that several tests ask: each is started once, when it is first wanted."""

from collections.abc import Iterator

import pytest

from tests.support.serving import HELLO, Server, compiled, serving


@pytest.fixture(scope="session")
def hello(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("hello")
    plan = compiled(folder, *HELLO, "2xcpu")
    with serving(plan, "--placement", "2xcpu", "--max-body-mb", "1") as server:
        yield server


@pytest.fixture(scope="session")
def hearing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`voice_chat`: a sound in, a transcript, a reply and speech out."""
    folder = tmp_path_factory.mktemp("voice")
    plan = compiled(folder, "specs/voice_chat.mstar", "specs/tiny/voice_chat.yaml", "cpu")
    with serving(plan) as server:
        yield server


@pytest.fixture(scope="session")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Qwen3-Omni: parts of every kind in."""
    folder = tmp_path_factory.mktemp("omni")
    plan = compiled(folder, "specs/qwen3_omni.mstar", "specs/tiny/qwen3_omni.yaml", "cpu")
    with serving(plan, "--one-process") as server:
        yield server


@pytest.fixture(scope="session")
def drawing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """BAGEL: texts and pictures in, a picture out."""
    folder = tmp_path_factory.mktemp("bagel")
    plan = compiled(folder, "specs/bagel.mstar", "specs/tiny/bagel.yaml", "cpu")
    with serving(plan, "--one-process") as server:
        yield server
