"""Source files, spans, and the way from an offset to a line and a column.

Turns a path and its text into a `SourceFile`; every later stage points into it with a `Span`
of code-point offsets. It reads no file (`mstarc.resources` does) and knows no syntax.
Start reading at `SourceFile`.
"""

from mstarc.source.file import Position, SourceFile
from mstarc.source.span import Span

__all__ = ["Position", "SourceFile", "Span"]
