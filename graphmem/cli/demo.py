"""The command demo."""

from __future__ import annotations

import click

from graphmem.cli import plotting
from graphmem.cli.options import Options


@click.command()
@click.option(
    "--questions",
    type=click.IntRange(1, 10_000),
    default=300,
    show_default=True,
    help="Questions that the agent at the end meets.",
)
@plotting.option("the agent's learning curve")
@click.pass_obj
def demo(options: Options, /, questions: int, plot: str | None) -> None:
    """Learn the logs that come with graphmem, and show what works.

    At the end an agent answers questions to a database, and learns while it acts. Without --url the
    logs go into a temporary memory without disk. The agent always has a memory of its own.

    \b
    Examples:
      graphmem demo
      graphmem demo --plot learning-curve.png
    """
    from graphmem.cli.demonstration import run

    if options.url is None:
        options.url = "memory:"
    run(options, questions, plot)
