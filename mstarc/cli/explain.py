"""`mstarc explain MS0405` or `mstarc explain chunk-skips-items`."""

import sys

import click

from mstarc import __version__
from mstarc.cli.failures import NOWHERE
from mstarc.cli.output import is_coloured, print_report
from mstarc.diagnostics import Diagnostic
from mstarc.diagnostics.explain import Explanation, explain
from mstarc.diagnostics.render import Report


@click.command("explain")
@click.argument("code")
@click.option(
    "--format", "page_format", type=click.Choice(["markdown", "json"]), default="markdown"
)
def command(code: str, page_format: str) -> int:
    """Print the page of CODE, which may be a code (MS0405) or its name."""
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
    return print_report(report, None)
