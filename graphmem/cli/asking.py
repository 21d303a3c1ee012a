"""Commands that only read: strategies, evidence, stats, query."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.context import Context, cell, plain, print_json, print_table

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


@click.command()
@click.option("--task", help="The key or the wording of a task; default: over all tasks.")
@click.option("--task-type", help="Only tasks of this type.")
@click.option("--agent", help="Only what this agent did.")
@click.option("--limit", type=click.IntRange(1), default=10, show_default=True)
@click.pass_obj
def strategies(
    context: Context, task: str | None, task_type: str | None, agent: str | None, limit: int
) -> None:
    """Show what works, best lower bound of the success rate first.

    \b
    Example:
      graphmem --url ./airline.graph strategies --task 12
    """
    rows = context.memory().strategies(task, task_type=task_type, agent=agent, limit=limit)

    def table() -> None:
        if rows:
            print_table(None, STRATEGY_COLUMNS, map(strategy_cells, rows))
        else:
            click.echo("nothing is known of this yet")

    context.show(rows, table)


@click.command()
@click.argument("strategy")
@click.option("--limit", type=click.IntRange(1), default=5, show_default=True)
@click.pass_obj
def evidence(context: Context, strategy: str, limit: int) -> None:
    """Show the latest episodes in which STRATEGY (its text or id) was applied.

    \b
    Example:
      graphmem --url ./airline.graph evidence cancel_reservation
    """
    rows = context.memory().evidence(strategy, limit=limit)

    def table() -> None:
        if not rows:
            click.echo("no episode applied this strategy")
            return
        print_table(
            None,
            [("episode", "left"), ("worked", "left"), ("agent", "left"), ("task", "left")],
            [(row.id, row.success, row.agent, cell(row.task, 70)) for row in rows],
        )

    context.show(rows, table)


@click.command()
@click.pass_obj
def stats(context: Context) -> None:
    """Count what the namespace holds, and say what holds it.

    \b
    Example:
      graphmem --url neo4j://localhost:7687 --namespace airline --json stats
    """
    found = context.memory().stats()
    rows = [(name.replace("_", " "), value) for name, value in found]
    context.show(
        found,
        lambda: print_table(
            None, [("what", "left"), ("value", "left")], [row for row in rows if row[1] is not None]
        ),
    )


@click.command()
@click.argument("name", required=False)
@click.option("-e", "--execute", "text", metavar="CYPHER", help="Cypher that only reads.")
@click.option(
    "--file", "file", type=click.Path(dir_okay=False), metavar="FILE", help="A file of Cypher."
)
@click.option("-p", "--param", "given", multiple=True, metavar="NAME=VALUE", help="A parameter.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.pass_obj
def query(
    context: Context,
    name: str | None,
    text: str | None,
    file: str | None,
    given: tuple[str, ...],
    as_csv: bool,
) -> None:
    """Run a query that only reads: NAME from `graphmem procedures list`, a text, or a file.

    Parameters are JSON where they parse as JSON, else text; $ns is the namespace.

    \b
    Examples:
      graphmem --url ./airline.graph query what_works
      graphmem --url ./airline.graph query -e "MATCH (s:Strategy) RETURN s.text AS text LIMIT 5"
    """
    if sum(part is not None for part in (name, text, file)) != 1:
        raise click.UsageError("give one of NAME, --execute TEXT and --file FILE")
    cypher = text or ""
    if name is not None:
        cypher = _named(name)
    elif file is not None:
        cypher = _read(file)
    rows = context.memory().query(cypher, _parameters(given))
    columns = list(rows[0]) if rows else []
    if as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_csv(row[column]) for column in columns] for row in rows)
    elif context.as_json:
        print_json(rows)
    elif rows:
        print_table(
            None,
            [(column, _side(rows[0][column])) for column in columns],
            ([row[column] for column in columns] for row in rows),
        )
    else:
        click.echo("no rows")
    context.note_snapshot()


def _named(name: str) -> str:
    from graphmem.errors import NotFoundError
    from graphmem.store.queries import catalog

    for candidate in (name, f"analysis.{name}"):
        if candidate in catalog():
            return candidate
    known = ", ".join(
        query.name.removeprefix("analysis.") for query in catalog().subject("analysis")
    )
    raise NotFoundError(f"no query {name!r}; there are {known}; for Cypher use --execute")


def _read(file: str) -> str:
    if file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"cannot read {file}: {error}") from error


def _parameters(given: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name.isidentifier():
            raise click.UsageError(f"--param {item!r}: give NAME=VALUE")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def _side(value: Any) -> str:
    return "right" if isinstance(value, int | float) and not isinstance(value, bool) else "left"


def _csv(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return json.dumps(plain(value), ensure_ascii=False)
