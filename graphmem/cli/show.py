"""The command show: anything that has an id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from graphmem.cli.options import Options
from graphmem.cli.printing import cell, print_lines, print_table

if TYPE_CHECKING:
    from graphmem.models.looking import Item, StepRow

MORE = {
    "task": "episodes --task {id}",
    "strategy": "explain {id}",
    "heuristic": "explain {id}",
    "anti-pattern": "explain {id}",
    "rule": "explain {id}",
    "policy": "explain {id}",
    "prediction": "predictions list",
    "cycle": "cycles {subject}",
    "level": "levels recall --level {name}",
    "entry": "levels list",
    "lens": "levels recall --lens {name}",
    "knowledge": "people knowledge",
    "preference": "people preferences {user}",
    "scope": "scopes list",
    "mistake": "lessons mistakes",
    "event": "show {subject}",
}
"""The command that tells more of each kind; fields are in braces."""
WIDTH = 17


@click.command()
@click.argument("identity", metavar="ID")
@click.pass_obj
def show(options: Options, identity: str) -> None:
    """Show anything that has an ID: its kind, fields and links.

    ID is one that graphmem printed, of an episode, task, strategy, policy or anything else, or at
    least its first six letters. For an episode it also shows the steps.

    \b
    Example:
      graphmem --url ./airline.graph show 8005dd1d95cd
    """
    item = options.memory().show(identity)
    options.show(item, lambda: _print(item))


def _print(item: Item) -> None:
    click.echo(f"{item.kind} {item.id}")
    for name, value in item.fields.items():
        print_lines(f"  {name.replace('_', ' '):<{WIDTH}}{cell(value)}", WIDTH)
    for link in item.links:
        what = f"{link.kind} {cell(link.text, 80)}"
        of = "" if link.id is None else f" ({link.id})"
        print_lines(f"  {link.relation:<{WIDTH}}{what}{of}", WIDTH)
    if item.steps:
        print_table(
            None,
            [("step", "right"), ("action", "left"), ("observation", "left"), ("error", "left")],
            [
                (step.index, _action(step), cell(step.observation, 200), step.error)
                for step in item.steps
            ],
        )
    known = {"id": item.id, **item.fields}
    more = MORE.get(item.kind)
    if more is not None:
        click.echo(f"more: graphmem {more.format_map(known)}")


def _action(step: StepRow) -> str:
    """Return the kind of an action, and the action."""
    return cell(" ".join(filter(None, (step.action_type, step.action))), 200)
