"""The text of a YAML file to nodes with their places."""

from typing import Any

from mstarc.diagnostics import DiagnosticSink
from mstarc.source import SourceFile


def read_root(file: SourceFile, code: str, sink: DiagnosticSink) -> tuple[Any] | None:
    """The root node, none for an empty text; None after a report (`code`) that it is no YAML."""
    # Loaded here: most commands read no YAML, and the import takes 20 ms.
    import yaml

    try:
        return (compose(file.text),)
    except (yaml.MarkedYAMLError, yaml.reader.ReaderError) as error:
        report_malformed(file, error, code, sink)
        return None


def report_malformed(file: SourceFile, error: Any, code: str, sink: DiagnosticSink) -> None:
    """Report an error of the library in our words."""
    from mstarc.deployment.malformed import explain  # loaded here: most files are right

    sink.report(explain(file, error, code))


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
