"""The command maintain, and how its results are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from graphmem.cli.options import Options, as_agent, moment
from graphmem.cli.printing import cell, print_table, progress

if TYPE_CHECKING:
    from datetime import datetime

    from graphmem.models.flow import LevelMaintained

COLUMNS = (
    ("level", "left"),
    ("expired", "right"),
    ("pruned", "right"),
    ("merged", "right"),
    ("over capacity", "right"),
    ("embedded", "right"),
)


@click.command()
@click.argument("name", required=False)
@click.option("--at", callback=moment, help="The instant: ISO 8601 with time zone [now].")
@as_agent
@click.pass_obj
def maintain(options: Options, /, name: str | None, at: datetime | None, agent: str | None) -> None:
    """Maintain all levels, those of an agent, or the level NAME.

    It removes what expired or is hardly relevant, merges entries that say the same, keeps levels to
    their capacity, and embeds texts without vectors. A repeated call for the same instant changes
    nothing.

    \b
    Examples:
      graphmem --url ./ops.graph maintain
      graphmem --url ./ops.graph maintain agent:ada:working --at 2026-11-22T18:00:00Z
    """
    memory = options.memory()
    with progress("maintaining", options) as advance:
        report = memory.levels.maintain(name, agent=agent, at=at, on_progress=advance)

    def lines() -> None:
        if not report.levels:
            click.echo("nothing was to do")
        show(report.levels)

    options.show(report, lines)


def show(levels: tuple[LevelMaintained, ...]) -> None:
    """Print what maintenance did in levels, as a table."""
    if not levels:
        return
    rows = [
        (each.level, each.expired, each.pruned, each.merged, each.over_capacity, each.reindexed)
        for each in levels
    ]
    print_table(None, COLUMNS, rows)
    for each in levels:
        if each.error is not None:
            click.echo(f"{each.level}: {cell(each.error)}")
