"""Turn the same findings into each output format. One file a format; none computes anything.

Each is a function from a `Report` to the whole text. Choosing a format and writing the text is
`mstarc.cli`'s. A new format is one file here, one row in `FORMATS` and one golden.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from mstarc.diagnostics.render.concise import render_concise
from mstarc.diagnostics.render.github import render_github
from mstarc.diagnostics.render.human import render_human
from mstarc.diagnostics.render.jsonl import render_jsonl
from mstarc.diagnostics.render.sarif import render_sarif
from mstarc.diagnostics.report import Report

FORMATS: Mapping[str, Callable[[Report], str]] = MappingProxyType(
    {
        "human": render_human,
        "concise": render_concise,
        "jsonl": render_jsonl,
        "github": render_github,
        "sarif": render_sarif,
    }
)

__all__ = ["FORMATS", "Report"]
