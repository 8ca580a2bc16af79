"""`mstarc explain MS0405`, by its name too, or `mstarc explain --setting max_seq_len`."""

import sys
from pathlib import Path

import click

from mstarc import __version__
from mstarc.cli.failures import NOWHERE
from mstarc.cli.output import is_coloured, print_report
from mstarc.cli.settings import placement_option, refuse_specs, settings_option
from mstarc.diagnostics import Diagnostic
from mstarc.diagnostics.explain import Explanation, explain
from mstarc.diagnostics.render import Report


@click.command("explain")
@click.argument("code", required=False, metavar="[CODE|DEPLOYMENT]")
@click.option(
    "--devices", is_flag=True, help="Show the device kinds, with those of a file instead of CODE."
)
@click.option("--setting", metavar="KEY", help="Show where a setting of deployments comes from.")
@placement_option
@settings_option
@click.option(
    "--format",
    "page_format",
    type=click.Choice(["markdown", "json"]),
    default="markdown",
    help="How to show the page. [default: markdown]",
)
def command(
    code: str | None,
    devices: bool,
    setting: str | None,
    placements: tuple[str, ...],
    settings: tuple[str, ...],
    page_format: str,
) -> int:
    """Print the page of CODE, which may be a code (MS0405) or its name.

    With --setting: what each source gives a setting (max_seq_len, kv_cache.page_size, devices, a
    config value of DEPLOYMENT's model), and which of them counts.
    """
    if setting is not None:
        from mstarc.cli.explain_setting import explain_setting  # loaded here: pages need no parser

        deployment = Path(code) if code is not None else None
        refuse_specs((deployment,) if deployment is not None else ())
        return explain_setting(setting, deployment, settings, placements)
    if devices:
        from mstarc.cli.explain_devices import explain_devices  # loaded here: pages need no kinds

        return explain_devices(None if code is None else Path(code), page_format)
    if code is None:
        raise click.UsageError("a code or --setting is needed, such as `mstarc explain MS0405`")
    found = explain(code)
    if isinstance(found, Explanation):
        sys.stdout.write(found.as_json() if page_format == "json" else found.page)
        return 0
    helps = tuple(f"did you mean `{name}`?" for name in found[:1])
    unknown = Diagnostic(
        code="MS0007",
        message=f"there is no code `{code}`",
        primary=NOWHERE,
        helps=helps or ("docs/errors has a page for every code",),
    )
    report = Report(
        diagnostics=(unknown,),
        sources={},
        attempt=f"explain `{code}`",
        version=__version__,
        colour=is_coloured(),
    )
    return print_report(report, "human")
