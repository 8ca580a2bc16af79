"""Names of layers in Meta's checkpoint."""

_PARTS = {
    "norm1": "norm1",
    "qkv": "attn.qkv",
    "proj": "attn.proj",
    "norm2": "norm2",
    "fc1": "mlp.fc1",
    "fc2": "mlp.fc2",
}


def block_names(name: str, blocks: str) -> str:
    """The checkpoint's name of `layer.3.qkv.weight` and its like; its layers are `blocks.3`."""
    _, number, part, kind = name.split(".")
    return f"{blocks}.{number}.{_PARTS[part]}.{kind}"
