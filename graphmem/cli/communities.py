"""The command communities."""

from __future__ import annotations

import click

from graphmem.cli.options import Options, at_most
from graphmem.cli.printing import cell, print_table
from graphmem.cli.similar import TEXT

COLUMNS = (
    ("strategies", "left"),
    ("number", "right"),
    ("worked", "right"),
    ("together", "right"),
    ("alike", "right"),
)
SHOWN = 5
"""Strategies of a group that a table shows; --json has all."""


@click.command()
@at_most(20)
@click.option(
    "--resolution",
    type=float,
    default=1.0,
    show_default=True,
    help="Over 1 for smaller groups, under 1 for larger ones.",
)
@click.pass_obj
def communities(options: Options, limit: int, resolution: float) -> None:
    """Show groups of strategies that belong together.

    They were used in the same episodes, or their texts are alike. Needs networkx.

    \b
    Example:
      graphmem --url ./airline.graph communities --limit 5
    """
    groups = options.memory().communities(limit, resolution=resolution)

    def table() -> None:
        if not groups:
            click.echo("no strategies were used together, and none are linked as alike")
            return
        rows = []
        for group in groups:
            shown = [cell(text, TEXT) for text in group.strategies[:SHOWN]]
            if len(group.strategies) > SHOWN:
                shown.append(f"and {len(group.strategies) - SHOWN:,} more")
            worked = f"{group.successes} of {group.uses}"
            rows.append(
                ("; ".join(shown), len(group.strategies), worked, group.together, group.alike)
            )
        print_table(None, COLUMNS, rows)

    options.show(groups, table)
