"""The command episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.options import Options, at_most, moment
from graphmem.cli.printing import cell

if TYPE_CHECKING:
    from graphmem.models.looking import EpisodeRow

COLUMNS = tuple(
    (name, "left") for name in ("episode", "time", "agent", "task", "strategy", "worked")
)
TEXT = 60
"""Characters of a text in a table; --json has all of it."""


@click.command()
@click.option("--task", help="Only those on this task: its key, id or wording.")
@click.option("--task-type", help="Only those on this type of task.")
@click.option("--agent", help="Only those that this agent may read.")
@click.option("--strategy", help="Only those with this strategy: its text or id.")
@click.option("--success/--failure", default=None, help="Only those that worked, or did not.")
@click.option("--since", callback=moment, help="Since this time: ISO 8601 with time zone.")
@at_most(20)
@click.pass_obj
def episodes(options: Options, /, **asked: Any) -> None:
    """Show episodes, the latest first.

    `graphmem show ID` shows all of one, with its steps.

    \b
    Examples:
      graphmem --url ./airline.graph episodes --failure --limit 5
      graphmem --url ./airline.graph episodes --strategy cancel_reservation --agent gpt-4o
    """
    rows = options.memory().episodes(**asked)

    options.show_rows(rows, COLUMNS, _cells, "no episode fits")


def _cells(row: EpisodeRow) -> tuple[Any, ...]:
    task, strategies = cell(row.task, TEXT), cell(", ".join(row.strategies), TEXT)
    return row.id, row.at, row.agent, task, strategies, row.success
