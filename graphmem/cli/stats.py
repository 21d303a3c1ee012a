"""The command stats."""

from __future__ import annotations

import click

from graphmem.cli.options import Options
from graphmem.cli.printing import print_table


@click.command()
@click.pass_obj
def stats(options: Options) -> None:
    """Count what the namespace holds, and say what holds it.

    \b
    Example:
      graphmem --url neo4j://localhost:7687 --namespace airline --json stats
    """
    found = options.memory().stats()
    rows = [(name.replace("_", " "), value) for name, value in found]
    options.show(
        found,
        lambda: print_table(
            None, [("what", "left"), ("value", "left")], [row for row in rows if row[1] is not None]
        ),
    )
