"""Ask the memory before acting: recall."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from graphmem.cli.options import Options, at_most
from graphmem.cli.printing import cell, print_lines, print_rows
from graphmem.cli.searching import open_for_search
from graphmem.printable import percent

if TYPE_CHECKING:
    from graphmem.models.recall import Kind, Recall, RecallItem


@click.command()
@click.argument("text")
@at_most(5)
@click.option("--agent", help="Use only outcomes that this agent may read.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="KIND",
    help="Show only this: strategy, rule, heuristic or policy; can be repeated.",
)
@click.pass_obj
def recall(
    options: Options,
    text: str,
    limit: int,
    agent: str | None,
    kinds: tuple[Kind, ...],
) -> None:
    """Show strategies that worked on tasks like TEXT.

    It also shows other items that fit, and what to avoid.

    At most --limit strategies come first, then at most 3 rules, 3 heuristics and 3 policies. A
    score orders them: how similar the tasks are, times the lower bound of the expected success
    rate, times how recent the trials are.

    \b
    Examples:
      graphmem --url ./airline.graph recall "customer wants a refund for a cancelled flight"
      graphmem --url ./airline.graph --json recall "change a seat" --limit 3 --agent ada
      graphmem --url ./airline.graph recall "change a seat" --kind rule --kind policy
    """
    memory = open_for_search(options)
    recalled = memory.recall(text, limit, agent, kinds=kinds or None)
    options.show(recalled, lambda: _print(recalled))


def _print(recalled: Recall) -> None:
    if not recalled.items and not recalled.warnings:
        print_lines(_nothing(recalled), 0)
        return
    if recalled.embedder == "hashing":
        click.echo("compared by words alone: the embedder `hashing` is not a model")
    by_kind: dict[str, list[RecallItem]] = {}
    for item in recalled.items:
        by_kind.setdefault(item.kind, []).append(item)
    for kind, items in by_kind.items():
        if kind == "strategy":
            columns = "score strategy=text expected worked=said found_by"
            print_rows(items, columns, expected=lambda row: percent(row.mean), found_by=_found_by)
        else:
            columns = f"score {kind}=text what_speaks_for_it=said found_by"
            print_rows(items, columns, found_by=lambda row: row.path[1])
    if recalled.warnings:
        print_rows(
            recalled.warnings,
            "avoid=strategy it_fails_with=error_class failed expected_here instead",
            failed=lambda row: f"{row.occurrences} of {row.occurrences + row.successes}",
            expected_here=lambda row: None if row.expected is None else percent(row.expected),
            instead=lambda row: row.better_alternative and row.better_alternative.strategy,
        )


def _found_by(row: RecallItem) -> str:
    return row.path[-3] if len(row.path) > 2 else "its text"


def _nothing(recalled: Recall) -> str:
    near, floor = recalled.nearest, recalled.floor
    if near is None or floor is None or recalled.tasks:
        return "nothing is known of such tasks; `graphmem list tasks` lists what is known"
    return (
        f"nothing known is like this: the nearest task is {cell(near.text, 60)!r} at "
        f"{near.similarity:.2f}, under the floor {floor:.2f}; try other words, or see "
        "`graphmem list tasks`"
    )
