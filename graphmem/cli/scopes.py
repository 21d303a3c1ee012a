"""The commands of memory.scopes: what agents may learn, and whose lessons they read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.options import Group, Options
from graphmem.cli.printing import print_json, print_table

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


@click.group(cls=Group)
def scopes() -> None:
    """Say what agents may learn, and whose lessons they read."""


@scopes.command("set")
@click.argument("agent")
@click.option(
    "--can-learn",
    multiple=True,
    metavar="TYPE",
    help="A type of tasks that it may learn, * for any text; can be repeated [all].",
)
@click.option(
    "--cannot-learn",
    multiple=True,
    metavar="TYPE",
    help="A type of tasks that it may not learn, overriding the others; can be repeated.",
)
@click.option(
    "--share-with",
    multiple=True,
    metavar="AGENT",
    help="An agent that may read its lessons, * for all; can be repeated.",
)
@click.option(
    "--inherit-from",
    multiple=True,
    metavar="AGENT",
    help="An agent whose lessons it reads if that one shares them; can be repeated.",
)
@click.option(
    "--min-occurrences",
    type=click.IntRange(1),
    metavar="N",
    help="Occurrences that a lesson needs before it reads it.",
)
@click.pass_obj
def set_(options: Options, /, agent: str, can_learn: tuple[str, ...], **given: Any) -> None:
    """Set or replace the scope of AGENT.

    \b
    Example:
      graphmem --url ./airline.graph scopes set grace --can-learn 'sql_*' \\
          --cannot-learn sql_admin --inherit-from ada
    """
    made = options.memory(must_exist=False).scopes.set(agent, can_learn=can_learn or None, **given)
    options.show(made, lambda: click.echo(f"set the scope of {made.agent}"))


@scopes.command()
@click.argument("agent")
@click.pass_obj
def get(options: Options, agent: str) -> None:
    """Show the scope of AGENT.

    \b
    Example:
      graphmem --url ./airline.graph scopes get grace
    """
    from graphmem.errors import NotFoundError

    scope = options.memory().scopes.get(agent)
    if scope is None:
        raise NotFoundError(
            f"agent {agent!r} has no scope: it learns everything, and reads its own lessons"
        )
    options.show(scope, lambda: print_table(None, COLUMNS, [_cells(scope)]))


@scopes.command("list")
@click.pass_obj
def list_(options: Options) -> None:
    """Show all scopes.

    \b
    Example:
      graphmem --url ./airline.graph scopes list
    """
    rows = options.memory().scopes.list()

    options.show_rows(rows, COLUMNS, _cells, "no agent has a scope")


@scopes.command()
@click.argument("agent")
@click.pass_obj
def remove(options: Options, agent: str) -> None:
    """Remove the scope of AGENT. It then learns everything, and reads its own lessons.

    \b
    Example:
      graphmem --url ./airline.graph scopes remove grace
    """
    removed = options.memory().scopes.remove(agent)
    if options.as_json:
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
