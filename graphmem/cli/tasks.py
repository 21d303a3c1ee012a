"""The command tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.options import Options, at_most
from graphmem.cli.printing import cell

if TYPE_CHECKING:
    from graphmem.models.looking import TaskRow

COLUMNS = (
    ("task", "left"),
    ("type", "left"),
    ("worked", "right"),
    ("95 % bounds", "right"),
    ("tried", "right"),
    ("best strategy", "left"),
    ("worked there", "right"),
)
TEXT = 60
"""Characters of a text in a table; --json has all of it."""


@click.command()
@click.option("--task-type", help="Only tasks of this type.")
@click.option("--agent", help="Count only episodes that this agent may read.")
@click.option(
    "--sort",
    type=click.Choice(("trials", "best", "worst", "latest")),
    default="trials",
    show_default=True,
    help="What comes first: most episodes, the best or worst bound, the latest episode.",
)
@at_most(20)
@click.pass_obj
def tasks(options: Options, /, **asked: Any) -> None:
    """Show tasks, and the best strategy on each.

    \b
    Examples:
      graphmem --url ./airline.graph tasks --sort worst --limit 5
      graphmem --url ./airline.graph tasks --task-type refund
    """
    rows = options.memory().tasks(**asked)

    options.show_rows(rows, COLUMNS, _cells, "no task fits")


def _cells(row: TaskRow) -> tuple[Any, ...]:
    return (
        cell(row.text, TEXT),
        row.task_type,
        f"{row.successes} of {row.trials}",
        f"{row.lower:.2f} to {row.upper:.2f}",
        row.strategies,
        "none worked" if row.best is None else cell(row.best, TEXT),
        f"{row.best_successes} of {row.best_trials}" if row.best else "",
    )
