"""The command evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.options import Options, at_most
from graphmem.cli.printing import cell

if TYPE_CHECKING:
    from graphmem.models import Evidence

COLUMNS = (("episode", "left"), ("worked", "left"), ("agent", "left"), ("task", "left"))

NONE = "no episode applied this strategy; `graphmem strategies` lists those that were applied"


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

    options.show_rows(rows, COLUMNS, _cells, NONE)


def _cells(row: Evidence) -> tuple[Any, ...]:
    return row.id, row.success, row.agent, cell(row.task, 70)
