"""The command stats."""

from __future__ import annotations

import click

from graphmem.cli.options import Options
from graphmem.cli.printing import print_table

_SAID = {
    "outcomes": "results on tasks",
    "co_occurrences": "pairs used together",
    "abandoned": "without an outcome",
    "first_at": "first episode",
    "last_at": "latest episode",
}
"""What is counted, in the words of who asks; else the name of the field says it."""


@click.command()
@click.pass_obj
def stats(options: Options) -> None:
    """Show the counts of the namespace, and its engine.

    \b
    Example:
      graphmem --url neo4j://localhost:7687 --namespace airline --json stats
    """
    counts = options.memory().stats()
    rows = [(_SAID.get(name) or name.replace("_", " "), value) for name, value in counts]
    options.show(
        counts,
        lambda: print_table(
            None, [("what", "left"), ("value", "left")], [row for row in rows if row[1] is not None]
        ),
    )
