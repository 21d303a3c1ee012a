"""Ask the memory before acting: recall."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.options import Options
from graphmem.cli.printing import cell, print_table
from graphmem.cli.similar import searchable

if TYPE_CHECKING:
    from graphmem.models.lessons import AntiPattern
    from graphmem.models.recall import Recall, RecallItem

ITEM_COLUMNS = (
    ("score", "right"),
    ("strategy", "left"),
    ("expected", "right"),
    ("worked", "left"),
    ("found by", "left"),
)
WARNING_COLUMNS = (
    ("avoid", "left"),
    ("it fails with", "left"),
    ("failed", "right"),
    ("instead", "left"),
)
TEXT = 60
"""Characters of a text in a table; --json has all of it."""


@click.command()
@click.argument("text")
@click.option("--limit", type=click.IntRange(1), default=5, show_default=True)
@click.option("--agent", help="Use only outcomes that this agent may read.")
@click.option(
    "--max-hops",
    type=int,
    default=2,
    show_default=True,
    metavar="NUMBER",
    help="0: only strategies whose own text matches; 1: also strategies tried on similar tasks; "
    "2 to 4: also their neighbours, where these are few.",
)
@click.pass_obj
def recall(options: Options, text: str, limit: int, agent: str | None, max_hops: int) -> None:
    """Show strategies that worked on tasks like TEXT, and strategies to avoid.

    \b
    Examples:
      graphmem --url ./airline.graph recall "customer wants a refund for a cancelled flight"
      graphmem --url ./airline.graph --json recall "change a seat" --limit 3 --agent ada
    """
    recalled = searchable(options, for_text=True).recall(text, limit, agent, max_hops)
    options.show(recalled, lambda: _print(recalled))


def _print(recalled: Recall) -> None:
    if not recalled.items and not recalled.warnings:
        click.echo(_nothing(recalled))
        return
    if recalled.embedder == "hashing":
        click.echo("compared by words alone: the embedder `hashing` is not a model")
    print_table(None, ITEM_COLUMNS, map(_item, recalled.items))
    if recalled.warnings:
        print_table(None, WARNING_COLUMNS, map(_warning, recalled.warnings))


def _nothing(recalled: Recall) -> str:
    near, floor = recalled.nearest, recalled.floor
    if near is None or floor is None or recalled.tasks:
        return "nothing is known of such tasks"
    return (
        f"nothing known is like this: the nearest task is {cell(near.text, TEXT)!r} at "
        f"{near.similarity:.2f}, under the floor {floor:.2f}"
    )


def _item(row: RecallItem) -> tuple[Any, ...]:
    return (
        row.score,
        cell(row.text, TEXT),
        f"{row.mean:.0%}",
        row.said,
        cell(row.path[-3] if len(row.path) > 2 else "its text", TEXT),
    )


def _warning(row: AntiPattern) -> tuple[Any, ...]:
    better = row.better_alternative
    return (
        cell(row.strategy, TEXT),
        cell(row.error_class, TEXT),
        f"{row.occurrences} of {row.occurrences + row.successes}",
        "" if better is None else cell(better.strategy, TEXT),
    )
