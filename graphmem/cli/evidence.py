"""The command evidence."""

from __future__ import annotations

import click

from graphmem.cli.options import Options, at_most
from graphmem.cli.printing import cell, print_table


@click.command()
@click.argument("strategy")
@at_most(5)
@click.option("--agent", help="Only episodes that this agent may read.")
@click.pass_obj
def evidence(options: Options, strategy: str, limit: int, agent: str | None) -> None:
    """Show the latest episodes in which STRATEGY was applied. STRATEGY is its text or id.

    \b
    Example:
      graphmem --url ./airline.graph evidence cancel_reservation
    """
    rows = options.memory().evidence(strategy, limit=limit, agent=agent)

    def table() -> None:
        if not rows:
            click.echo("no episode applied this strategy")
            return
        print_table(
            None,
            [("episode", "left"), ("worked", "left"), ("agent", "left"), ("task", "left")],
            [(row.id, row.success, row.agent, cell(row.task, 70)) for row in rows],
        )

    options.show(rows, table)
