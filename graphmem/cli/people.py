"""The commands of memory.people: prefer, preferences, know, knowledge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.options import Group, Options, at_most, moment
from graphmem.cli.printing import cell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmem.models import Knowledge, KnowledgeRef, Preference

PREFERENCE_COLUMNS = (
    ("category", "left"),
    ("preference", "left"),
    ("source", "left"),
    ("confidence", "right"),
    ("said", "left"),
    ("in force", "left"),
)
KNOWLEDGE_COLUMNS = (
    ("id", "left"),
    ("domain", "left"),
    ("fact", "left"),
    ("confidence", "right"),
    ("stated by", "left"),
    ("against it", "left"),
)


@click.group(cls=Group)
def people() -> None:
    """Keep preferences of users, and knowledge of the world."""


@people.command()
@click.argument("user")
@click.argument("category")
@click.argument("text")
@click.option(
    "--source",
    type=click.Choice(["explicit_instruction", "correction", "inferred"]),
    default="explicit_instruction",
    show_default=True,
    help="The source of the preference.",
)
@click.option("--at", callback=moment, help="When it was said: ISO 8601 with time zone.")
@click.pass_obj
def prefer(options: Options, /, user: str, category: str, text: str, **said: Any) -> None:
    """Store that USER wants TEXT in a CATEGORY. It supersedes the earlier preference.

    \b
    Examples:
      graphmem --url ./airline.graph people prefer ann seat "on the aisle"
      graphmem --url ./airline.graph people prefer ann language German --source inferred
    """
    made = options.memory(must_exist=False).people.prefer(user, category, text, **said)

    def line() -> None:
        done = "stored" if made.created else "known already"
        late = "" if made.in_force else "; a later one is in force"
        click.echo(f"{done}: {cell(made.user, 40)} wants {cell(made.text, 60)}{late}")

    options.show(made, line)


@people.command()
@click.argument("user")
@click.option("--category", help="Only this one.")
@click.option("--history", is_flag=True, help="Include superseded ones.")
@click.pass_obj
def preferences(options: Options, user: str, category: str | None, history: bool) -> None:
    """Show the preferences of USER.

    \b
    Example:
      graphmem --url ./airline.graph people preferences ann --history
    """
    rows = options.memory().people.preferences(user, category, history=history)

    options.show_rows(rows, PREFERENCE_COLUMNS, _preference, "no such preferences")


def _preference(row: Preference) -> tuple[Any, ...]:
    said = row.at or row.recorded_at
    return row.category, row.text, row.source, row.confidence, said, row.in_force


@people.command()
@click.argument("domain")
@click.argument("fact")
@click.option(
    "--source",
    type=click.Choice(["user_stated", "documented", "observed", "inferred"]),
    default="user_stated",
    show_default=True,
    help="The source of the fact.",
)
@click.option("--user", help="Who stated it.")
@click.option(
    "--contradicts",
    multiple=True,
    metavar="ID",
    help="A known fact that it contradicts; can be repeated.",
)
@click.option("--at", callback=moment, help="When it was stated: ISO 8601 with time zone.")
@click.pass_obj
def know(
    options: Options, /, domain: str, fact: str, contradicts: tuple[str, ...], **said: Any
) -> None:
    """Store a FACT of a DOMAIN.

    \b
    Examples:
      graphmem --url ./airline.graph people know refunds "they take five days" --user ann
      graphmem --url ./airline.graph people know refunds "three days" --source documented \\
          --contradicts 3d6c9d1f5d6d8a8f6f2b4d3a1c0e7b52
    """
    memory = options.memory(must_exist=False)
    made = memory.people.know(domain, fact, contradicts=contradicts or None, **said)

    def line() -> None:
        done = "stored" if made.created else "known already:"
        click.echo(f"{done} knowledge {made.id}, confidence {made.confidence:.3f}")

    options.show(made, line)


@people.command()
@click.option("--domain", help="Only this one.")
@at_most(20)
@click.pass_obj
def knowledge(options: Options, domain: str | None, limit: int) -> None:
    """Show known facts, and what contradicts them. The highest confidence comes first.

    \b
    Example:
      graphmem --url ./airline.graph people knowledge --domain refunds
    """
    rows = options.memory().people.knowledge(domain, limit=limit)

    options.show_rows(rows, KNOWLEDGE_COLUMNS, _knowledge, "nothing is known yet")


def _knowledge(row: Knowledge) -> tuple[Any, ...]:
    sources = dict.fromkeys(said.user or said.source for said in row.statements)
    against: Sequence[KnowledgeRef] = (*row.contradicts, *row.contradicted_by)
    facts = dict.fromkeys(cell(other.fact, 25) for other in against)
    # Short, so that the id, which people copy, stays on a line.
    return (
        row.id,
        cell(row.domain, 15),
        cell(row.fact, 25),
        row.confidence,
        cell(", ".join(sources), 15),
        "; ".join(facts),
    )
