"""`mstarc explain --setting KEY [DEPLOYMENT]`: every source of a setting, and which one counts."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from mstarc.cli.find_spec import find_spec
from mstarc.cli.inputs import read_source
from mstarc.cli.output import combined_report, print_report
from mstarc.deployment import Deployment, read_deployment
from mstarc.deployment.settings import (
    DEVICES_VARIABLE,
    KWARGS,
    SETTINGS,
    GivenSetting,
    from_command_line,
    from_environment,
    setting_of,
    variable_of,
)
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label, did_you_mean
from mstarc.given import config_item
from mstarc.options import DEFAULT_PLACEMENT, DEPLOYED_KIND
from mstarc.records import dataclass
from mstarc.source import SourceFile, Span
from mstarc.syntax import ast
from mstarc.syntax.parser import parse

DEVICES = "devices"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One source, lowest first. `value` is none where it says nothing."""

    source: str
    value: str | None
    where: str


def explain_setting(
    key: str, path: Path | None, given: Sequence[str], placements: Sequence[str]
) -> int:
    """Print the sources of a setting; the exit code."""
    sink = DiagnosticSink()
    sources: list[SourceFile] = []
    settings = [*from_environment(os.environ, sink), *from_command_line(given, sink)]
    sources += [setting.file for setting in settings]
    file = read_source(path, sink) if path is not None else None
    deployment = None
    if file is not None and path is not None:
        sources.append(file)
        deployment = read_deployment(file, sink)
    found = None if sink.has_errors else _rows(key, file, path, deployment, settings, sink)
    if found is None and not sink.has_errors and key == DEVICES:
        found = ("where nodes run", _device_rows(file, deployment, placements))
    if found is None:
        if not sink.has_errors:
            sink.report(_unknown(key))
        attempt = f"explain the setting `{key}`"
        shown = [*sources, SourceFile(path="--setting", text=key)]
        return print_report(combined_report(sink, [], attempt, shown), None)
    meaning, rows = found
    sys.stdout.write(_table(key, meaning, rows))
    return 0


def _rows(
    key: str,
    file: SourceFile | None,
    path: Path | None,
    deployment: Deployment | None,
    settings: Sequence[GivenSetting],
    sink: DiagnosticSink,
) -> tuple[str, list[Row]] | None:
    setting = setting_of(key)
    if setting is not None:
        number = getattr(deployment, setting.field) if deployment is not None else None
        value = str(number.value) if number is not None else None
        where = _place(file, number.span) if number is not None else _path(file)
        rows = [
            Row(source="default", value=setting.default, where=""),
            Row(source="file", value=value, where=where),
        ]
        return setting.meaning, rows + _outside(setting.key, settings)
    if file is None or path is None or deployment is None or key == DEVICES:
        return None
    spec = find_spec(file, path, sink)
    tree = parse(spec, DiagnosticSink()) if spec is not None else None
    item = config_item(key.removeprefix(KWARGS), tree) if tree is not None else None
    if spec is None or tree is None or item is None:
        return None
    return f"config of `{tree.model.name.text}`", _config_rows(
        item, tree, spec, file, deployment, settings
    )


def _config_rows(
    item: ast.ConfigItem,
    tree: ast.Spec,
    spec: SourceFile,
    file: SourceFile,
    deployment: Deployment,
    settings: Sequence[GivenSetting],
) -> list[Row]:
    names = {item.name.text, *(alias.value for alias in item.aliases)}
    default = spec.slice(item.default.span) if item.default is not None else None
    rows = [Row(source="spec", value=default, where=_place(spec, item.name.span))]
    for variant in tree.all_of(ast.VariantDecl):
        if variant.name.value != deployment.model.value:
            continue
        own = [s for s in variant.settings if s.name.text == item.name.text]
        value = spec.slice(own[0].value.span) if own else None
        place = own[0].value.span if own else variant.span
        rows.append(Row(source="variant", value=value, where=_place(spec, place)))
    if item.source is not None:
        where = f"`{item.source.value}`, with --sizes or --checkpoint"
        rows.append(Row(source="checkpoint", value=None, where=where))
    kwargs = [kwarg for kwarg in deployment.kwargs if kwarg.name.value in names]
    value = file.slice(kwargs[-1].span) if kwargs else None
    where = _place(file, kwargs[-1].span) if kwargs else file.path
    rows.append(Row(source="file", value=value, where=where))
    known = [
        key
        for name in sorted(names)
        if any(setting.key == (key := KWARGS + name) for setting in settings)
    ]
    return rows + _outside(known[0] if known else KWARGS + item.name.text, settings)


def _device_rows(
    file: SourceFile | None, deployment: Deployment | None, placements: Sequence[str]
) -> list[Row]:
    usual = DEFAULT_PLACEMENT
    if deployment is not None:
        usual = f"{deployment.rank_count}x{DEPLOYED_KIND}"
    named = deployment.devices.name if deployment is not None and deployment.devices else None
    span = deployment.devices_span if deployment is not None else None
    given = ", ".join(placements) or None
    return [
        Row(source="default", value=usual, where=""),
        Row(source="file", value=named, where=_place(file, span) if span else _path(file)),
        Row(
            source="environment",
            value=os.environ.get(DEVICES_VARIABLE) or None,
            where=f"${DEVICES_VARIABLE}",
        ),
        Row(source="command line", value=given, where="--placement"),
    ]


def _outside(key: str, settings: Sequence[GivenSetting]) -> list[Row]:
    rows = []
    for origin, where in (
        ("environment", f"${variable_of(key)}"),
        ("command line", f"--set {key}=…"),
    ):
        values = [s.value for s in settings if s.origin == origin and s.key == key]
        rows.append(Row(source=origin, value=values[-1] if values else None, where=where))
    return rows


def _table(key: str, meaning: str, rows: Sequence[Row]) -> str:
    counts = max(index for index, row in enumerate(rows) if row.value is not None)
    names = max(len(row.source) for row in rows)
    values = max(len(row.value or "-") for row in rows if row.where)
    lines = [f"{key}: {meaning}", ""]
    for index, row in enumerate(rows):
        mark = ">" if index == counts else " "
        value = row.value or "-"
        lines.append(f"  {mark} {row.source:<{names}}  {value:<{values}}  {row.where}".rstrip())
    return "\n".join(lines) + "\n"


def _place(file: SourceFile | None, span: Span) -> str:
    assert file is not None
    position = file.position(span.start)
    return f"{file.path}:{position.line}:{position.column}"


def _path(file: SourceFile | None) -> str:
    return file.path if file is not None else "no deployment file given"


def _unknown(key: str) -> Diagnostic:
    known = [*(setting.key for setting in SETTINGS), DEVICES]
    near = did_you_mean(key, known)
    span = Span(path="--setting", start=0, end=len(key))
    found = Diagnostic(
        code="MS0633",
        message=f"there is no setting `{key}`",
        primary=Label(span=span, text="nothing reads it"),
    )
    if near:
        return found.help(f"did you mean {' or '.join(f'`{name}`' for name in near)}?")
    listed = ", ".join(f"`{name}`" for name in known)
    return found.help(f"there are {listed}; with a deployment also its model's config values")
