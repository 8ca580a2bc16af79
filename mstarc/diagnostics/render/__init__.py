"""Turn the same findings into each output format. One file a format; none computes anything.

Each is a function from a `Report` to the whole text. Choosing a format and writing the text is
`mstarc.cli`'s. A new format is one file here, one name in `FORMATS` and one golden. A format is
loaded when it is used: most commands find nothing, and none uses two.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType

from mstarc.diagnostics.report import Report


def _renderer(name: str) -> Callable[[Report], str]:
    def render(report: Report) -> str:
        module = import_module(f"{__name__}.{name}")
        text: str = getattr(module, f"render_{name}")(report)
        return text

    return render


FORMATS: Mapping[str, Callable[[Report], str]] = MappingProxyType(
    {name: _renderer(name) for name in ("human", "concise", "jsonl", "github", "sarif")}
)

__all__ = ["FORMATS", "Report"]
