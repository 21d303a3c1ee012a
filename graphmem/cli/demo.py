"""The command demo."""

from __future__ import annotations

import click

from graphmem.cli.options import Options


@click.command()
@click.pass_obj
def demo(options: Options) -> None:
    """Learn the logs that come with graphmem and show what works, with the evidence.

    Uses a temporary memory without disk, unless --url names one.

    \b
    Example:
      graphmem demo
    """
    from graphmem.cli.demonstration import run

    if options.url is None:
        options.url = "memory:"
    run(options)
