"""The command ui."""

from __future__ import annotations

import webbrowser

import click

from graphmem.cli.options import Options


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Where it listens.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    metavar="N",
    help="Port; default: a free one.",
)
@click.option("--no-open", is_flag=True, help="Only print the address; open no browser.")
@click.option("--write", is_flag=True, help="Also offer what changes the memory.")
@click.option("--anyone", is_flag=True, help="Allow a HOST that other machines can reach.")
@click.pass_obj
def ui(options: Options, host: str, port: int, no_open: bool, write: bool, anyone: bool) -> None:
    """Show the memory on a page in a browser.

    The page shows what works, why, and what is around it. It is for this machine alone; its
    address has a token that is new each time. It runs until Ctrl-C.

    \b
    Examples:
      graphmem --url ./airline.graph ui
      graphmem --url ./airline.graph ui --port 8766 --no-open
    """
    try:
        from graphmem.view.server import serve
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("graphmem"):
            raise
        raise click.ClickException(
            f"the page needs {error.name}, which is not installed; "
            "in a clone of graphmem: pip install -e '.[ui]'"
        ) from error

    def tell(address: str) -> None:
        click.echo(f"the page is at {address}")
        click.echo("Ctrl-C ends it", err=True)
        if not no_open:
            webbrowser.open(address)

    serve(options.memory(), host, port, tell, write=write, anyone=anyone)
