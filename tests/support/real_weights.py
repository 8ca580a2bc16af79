"""Real weights for tests that need them, or a skip that says why."""

from functools import cache
from pathlib import Path

import pytest

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.settings import read_settings
from mstarc_runtime.weights.fetch import fetch


@cache
def _fetched(name: str) -> Path | str:
    try:
        folder = fetch(name, read_settings().cache_dir)
    except RuntimeFailure as failure:
        return f"the weights `{name}` cannot be had: {failure.message}"
    assert folder is not None
    return folder


def real_weights(name: str) -> Path:
    """The folder of the weights `name`; skips the test where they cannot be had."""
    found = _fetched(name)
    if isinstance(found, str):
        pytest.skip(found)
    return found
