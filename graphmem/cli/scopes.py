"""The commands of scopes: what agents may learn, and whose lessons they read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.context import Context, print_json, print_table

if TYPE_CHECKING:
    from graphmem.models import Scope

COLUMNS = (
    ("agent", "left"),
    ("can learn", "left"),
    ("cannot learn", "left"),
    ("shares with", "left"),
    ("inherits from", "left"),
    ("occurrences", "right"),
)


@click.group()
def scope() -> None:
    """What agents may learn, and whose lessons they read."""


@scope.command("set")
@click.argument("agent")
@click.option(
    "--can-learn",
    multiple=True,
    metavar="TYPE",
    help="A type of tasks that it may learn, * for any text; repeat it [all].",
)
@click.option(
    "--cannot-learn",
    multiple=True,
    metavar="TYPE",
    help="A type of tasks that it may not learn, in any case; repeat it.",
)
@click.option(
    "--share-with",
    multiple=True,
    metavar="AGENT",
    help="An agent that may read its lessons, * for all; repeat it.",
)
@click.option(
    "--inherit-from",
    multiple=True,
    metavar="AGENT",
    help="An agent whose lessons it reads where that one shares them; repeat it.",
)
@click.option(
    "--min-occurrences",
    type=click.IntRange(1),
    metavar="N",
    help="Occurrences that a lesson needs before it reads it.",
)
@click.pass_obj
def set_(context: Context, /, agent: str, can_learn: tuple[str, ...], **given: Any) -> None:
    """Set the scope of AGENT, in place of the one that it has.

    \b
    Example:
      graphmem --url ./airline.graph scope set grace --can-learn 'sql_*' \\
          --cannot-learn sql_admin --inherit-from ada
    """
    made = context.memory(must_exist=False).scopes.set(agent, can_learn=can_learn or None, **given)
    context.show(made, lambda: click.echo(f"set the scope of {made.agent}"))


@scope.command()
@click.argument("agent")
@click.pass_obj
def show(context: Context, agent: str) -> None:
    """Show the scope of AGENT.

    \b
    Example:
      graphmem --url ./airline.graph scope show grace
    """
    from graphmem.errors import NotFoundError

    found = context.memory().scopes.get(agent)
    if found is None:
        raise NotFoundError(
            f"agent {agent!r} has no scope: it learns everything, and reads its own lessons"
        )
    context.show(found, lambda: print_table(None, COLUMNS, [_cells(found)]))


@scope.command("list")
@click.pass_obj
def list_(context: Context) -> None:
    """Show all scopes.

    \b
    Example:
      graphmem --url ./airline.graph scope list
    """
    rows = context.memory().scopes.list()

    def table() -> None:
        if rows:
            print_table(None, COLUMNS, map(_cells, rows))
        else:
            click.echo("no agent has a scope")

    context.show(rows, table)


@scope.command()
@click.argument("agent")
@click.pass_obj
def unset(context: Context, agent: str) -> None:
    """Remove the scope of AGENT: it then learns everything, and reads its own lessons.

    \b
    Example:
      graphmem --url ./airline.graph scope unset grace
    """
    removed = context.memory().scopes.remove(agent)
    if context.as_json:
        print_json({"removed": removed})
    else:
        click.echo(f"removed the scope of {agent}" if removed else f"{agent} had no scope")


def _cells(row: Scope) -> tuple[Any, ...]:
    can_learn = "everything" if row.can_learn is None else ", ".join(row.can_learn) or "nothing"
    return (
        row.agent,
        can_learn,
        ", ".join(row.cannot_learn),
        ", ".join(row.share_with),
        ", ".join(row.inherit_from),
        row.min_occurrences,
    )
