"""The commands of lenses: read-only views of levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.options import Group, Options, as_agent, by_tags
from graphmem.cli.printing import cell, fact, print_table, span

if TYPE_CHECKING:
    from graphmem.models import LensInfo

COLUMNS = (
    ("lens", "left"),
    ("looks at", "left"),
    ("not older than", "left"),
    ("at most", "right"),
    ("purpose", "left"),
)


@click.group(cls=Group)
def lens() -> None:
    """Name read-only views of levels. `levels recall --lens NAME` looks through one.

    Every agent has planning, reflection and skill.
    """


@lens.command()
@click.argument("name")
@click.argument("levels", nargs=-1, required=True, metavar="LEVEL...")
@by_tags
@click.option("--max-age", type=float, metavar="SECONDS", help="Only entries not older than this.")
@click.option("--limit", type=int, default=10, show_default=True, help="Most entries to show.")
@click.option("--purpose", default="", help="What it is for.")
@as_agent
@click.pass_obj
def put(options: Options, /, name: str, levels: tuple[str, ...], **settings: Any) -> None:
    """Make the lens NAME on LEVELs, or replace its settings.

    \b
    Example:
      graphmem --url ./ops.graph levels lens put agent:ada:orders \\
          agent:ada:working task:deploy:shared --tag kind:order --max-age 600
    """
    made = options.memory().levels.put_lens(name, levels, **settings)
    options.show(made, lambda: _lenses([made]))


@lens.command("list")
@click.option("--owner", help="Only the lenses of this agent, capability, task or collective.")
@as_agent
@click.pass_obj
def list_(options: Options, owner: str | None, agent: str | None) -> None:
    """Show the lenses that somebody put.

    \b
    Example:
      graphmem --url ./ops.graph levels lens list --owner ada
    """
    rows = options.memory().levels.lenses(owner, agent=agent)

    def table() -> None:
        if rows:
            _lenses(rows)
        else:
            click.echo("nobody put a lens")

    options.show(rows, table)


@lens.command()
@click.argument("name")
@as_agent
@click.pass_obj
def info(options: Options, name: str, agent: str | None) -> None:
    """Show what the lens NAME looks at.

    \b
    Example:
      graphmem --url ./ops.graph levels lens info planning --agent ada
    """
    found = options.memory().levels.lens(name, agent=agent).info

    def lines() -> None:
        tags = None if found.tags is None else found.tags.model_dump_json(exclude_defaults=True)
        fact("lens", found.name)
        fact("purpose", found.purpose)
        fact("looks at", ", ".join(found.levels))
        fact("tags", tags)
        fact("not older than", span(found.max_age))
        fact("at most", found.limit)
        fact("made", found.created_at)

    options.show(found, lines)


@lens.command()
@click.argument("name")
@as_agent
@click.pass_obj
def remove(options: Options, name: str, agent: str | None) -> None:
    """Remove the lens NAME; its levels stay.

    \b
    Example:
      graphmem --url ./ops.graph levels lens remove agent:ada:orders
    """
    options.memory().levels.remove_lens(name, agent=agent)
    options.show([{"name": name}], lambda: click.echo(f"removed the lens {cell(name)}"))


def _lenses(rows: list[LensInfo]) -> None:
    print_table(None, COLUMNS, map(_lens, rows))


def _lens(row: LensInfo) -> tuple[Any, ...]:
    levels = cell(", ".join(row.levels), 120)
    return row.name, levels, span(row.max_age, "any age"), row.limit, cell(row.purpose, 60)
