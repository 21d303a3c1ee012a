"""Serve the memory to browsers and to agents: ui, mcp."""

from __future__ import annotations

import logging
import webbrowser
from pathlib import Path
from typing import Any

import click

from graphmem.cli.options import Options, example, refuse_missing


@click.command()
@example("--url ./airline.graph ui")
@example("--url ./airline.graph ui --port 8766 --no-open")
@click.option("--host", default="127.0.0.1", help="Where it listens.")
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
    """
    try:
        from graphmem.view.page import serve
    except ModuleNotFoundError as error:
        refuse_missing(error, "the page", "ui")

    def announce(address: str) -> None:
        click.echo(f"the page is at {address}")
        click.echo("Ctrl-C ends it", err=True)
        if not no_open:
            webbrowser.open(address)

    serve(options.memory(), host, port, announce, write=write, anyone=anyone)


@click.command()
@example("--url ./runs.graph mcp")
@example("--url ./runs.graph mcp --agent ada --read-only")
@example("--url ./runs.graph mcp --http 127.0.0.1:8765 --token-file token.txt")
@click.option(
    "--http",
    metavar="HOST:PORT",
    help="Serve over HTTP, at http://HOST:PORT/mcp; default: over standard input and output.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Over HTTP: each request must bring the token in this file.",
)
@click.option("--agent", help="Speak for this agent alone, with its access rights.")
@click.option("--read-only", is_flag=True, help="Offer no tool that writes.")
@click.option("--admin", is_flag=True, help="Also offer the tool that erases.")
@click.option("--levels", is_flag=True, help="Also offer tools for levels.")
@click.pass_obj
def mcp(options: Options, /, http: str | None, token_file: Path | None, **access: Any) -> None:
    """Serve the memory to agents by the Model Context Protocol.

    An agent starts this command itself; docs/how-to/mcp.md shows its settings. The first tool that
    needs the memory opens it.
    """
    if token_file is not None and http is None:
        raise click.UsageError("--token-file is for --http; standard input needs no token")
    try:
        from graphmem.integrations.mcp import Access, build
        from graphmem.integrations.mcp.server import over_http, over_stdio
    except ModuleNotFoundError as error:
        refuse_missing(error, "the server", "mcp")
    from graphmem.memory import Memory

    # What fails is said in a line, and its traceback where that was asked for.
    log = logging.StreamHandler()
    log.setFormatter(logging.Formatter("graphmem mcp: %(message)s"))
    if not options.debug:
        log.addFilter(_shorten)
    logging.basicConfig(level=logging.WARNING, handlers=[log])
    settings = options.settings()
    server = build(
        lambda: Memory.open(settings.url, namespace=settings.namespace, settings=settings),
        Access(**access),
    )
    if http is None:
        over_stdio(server)
    else:
        over_http(server, http, token_file, lambda url: click.echo(f"serving at {url}", err=True))


def _shorten(record: logging.LogRecord) -> bool:
    """Say an error in its line, instead of the traceback below."""
    if record.exc_info and (error := record.exc_info[1]):
        record.msg, record.args = f"{record.getMessage()} ({type(error).__name__}: {error})", ()
    record.exc_info = record.exc_text = None
    return True
