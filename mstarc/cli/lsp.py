"""`mstarc lsp`: the language server, which an editor starts and talks to."""

from importlib.util import find_spec

import click

from mstarc.cli.output import EXIT_OK


@click.command("lsp")
@click.option("--stdio", is_flag=True, help="What editors may say; there is no other way.")
def command(stdio: bool) -> int:
    """Answer an editor over stdin and stdout."""
    del stdio
    if find_spec("pygls") is None:
        raise click.UsageError(
            "the language server needs a package that is not installed: "
            '`pip install "mstarc[lsp]"` installs it'
        )
    from mstarc.lsp.server import serve

    serve()
    return EXIT_OK
