"""The command strategies, and its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.options import Options, at_most

if TYPE_CHECKING:
    from graphmem.models import StrategyRow


STRATEGY_COLUMNS = (
    ("strategy", "left"),
    ("worked", "right"),
    ("mean", "right"),
    ("95 % bounds", "right"),
    ("status", "left"),
    ("tasks", "right"),
    ("last used", "left"),
)
NOTHING = "nothing is known of this yet: no episode used a strategy there"
NO_TASK = (
    "nothing is known of this task: --task takes a key or the whole wording, as `graphmem tasks` "
    "lists them; `graphmem recall` finds tasks that are like a text"
)


@click.command()
@click.option("--task", help="The key or the wording of a task; default: over all tasks.")
@click.option("--task-type", help="Only tasks of this type.")
@click.option("--agent", help="Only outcomes of this agent.")
@at_most(10)
@click.pass_obj
def strategies(
    options: Options, task: str | None, task_type: str | None, agent: str | None, limit: int
) -> None:
    """Show strategies, best lower bound of the success rate first.

    \b
    Example:
      graphmem --url ./airline.graph strategies --task 12
    """
    rows = options.memory().strategies(task, task_type=task_type, agent=agent, limit=limit)

    options.show_rows(rows, STRATEGY_COLUMNS, strategy_cells, NOTHING if task is None else NO_TASK)


def strategy_cells(row: StrategyRow) -> tuple[Any, ...]:
    """Return the cells of a strategy."""
    return (
        row.text,
        f"{row.successes} of {row.trials}",
        row.mean,
        f"{row.lower:.2f} to {row.upper:.2f}",
        row.status,
        row.tasks,
        row.last_used_at.strftime("%Y-%m-%d") if row.last_used_at else "",
    )
