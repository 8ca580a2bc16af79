"""Reading a checkpoint's config.json with failures that name the key."""

from collections.abc import Mapping
from typing import Any

from mstarc_runtime.errors import RuntimeFailure


def bad_config(key: str, value: object, accepted: str) -> RuntimeFailure:
    """The failure for a value that this runtime can't serve."""
    return RuntimeFailure(
        "MS9109",
        f"`{key}` is `{value}` in the checkpoint's config.json",
        notes=[f"accepted: {accepted}"],
        helps=["use a checkpoint of the kind that the spec's `impl` names"],
    )


def required(config: Mapping[str, Any], key: str) -> Any:
    """The value of `key`. Fails with MS9109 if there is none."""
    if key not in config:
        raise RuntimeFailure(
            "MS9109",
            f"`{key}` is missing in the checkpoint's config.json",
            notes=[f"it has: {', '.join(sorted(config))}"],
            helps=["use a checkpoint of the kind that the spec's `impl` names"],
        )
    return config[key]


def require_value(config: Mapping[str, Any], key: str, default: Any, accepted: Any) -> None:
    """Fails with MS9109 unless `key` (or its default) is `accepted`."""
    value = config.get(key, default)
    if value != accepted:
        raise bad_config(key, value, f"`{accepted}`")
