"""`mstarc explain --devices [kinds.yaml]`: the device kinds, and where their numbers are from."""

import json
import sys
from pathlib import Path

from mstarc.cli.inputs import read_source
from mstarc.cli.output import combined_report, print_report
from mstarc.deployment import CATALOG, DeviceKind
from mstarc.deployment.kinds import read_kinds
from mstarc.deployment.kinds_table import kinds_data, kinds_table
from mstarc.diagnostics import DiagnosticSink
from mstarc.source import SourceFile


def explain_devices(file: Path | None, page_format: str) -> int:
    """Print the catalogue, with what `file` changes in it; the exit code."""
    sink = DiagnosticSink()
    texts: list[SourceFile] = []
    kinds: tuple[DeviceKind, ...] | None = CATALOG
    if file is not None:
        source = read_source(file, sink)
        kinds = None if source is None else read_kinds(source, sink)
        texts = [] if source is None else [source]
    if kinds is None:
        return print_report(combined_report(sink, [], "explain devices", texts), None)
    if page_format == "json":
        sys.stdout.write(json.dumps(kinds_data(kinds), indent=2) + "\n")
    else:
        sys.stdout.write(kinds_table(kinds))
    return 0
