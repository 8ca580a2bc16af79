"""The text of a YAML file to nodes with their places."""

from typing import Any


def compose(text: str) -> Any:
    """The root node, or none for an empty text.

    Raises `yaml.MarkedYAMLError` or `yaml.reader.ReaderError`, with a place in the text.
    """
    # Loaded here: most commands read no YAML, and the import takes 20 ms.
    import yaml

    fast = getattr(yaml, "CSafeLoader", None)
    if fast is not None:
        try:
            return yaml.compose(text, Loader=fast)
        except yaml.YAMLError:
            pass  # the other loader finds the same, in the same words on every machine
    return yaml.compose(text, Loader=yaml.SafeLoader)
