"""Run Cypher that only reads, and see and install the procedures: query, procedures."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.main import Command, Group, Options, example
from graphmem.cli.policies import parse_value
from graphmem.cli.printing import print_json, print_table, to_plain
from graphmem.errors import NotFoundError, shown
from graphmem.text.cells import CELL

if TYPE_CHECKING:
    from graphmem.store.installing import Installed

_NAMES = "`graphmem procedures list --subject analysis` says what each name answers"


@click.command(cls=Command)
@example("--url ./airline.graph query what_works")
@example('--url ./airline.graph query -e "MATCH (s:Strategy) RETURN s.text AS text LIMIT 5"')
@click.argument("name", required=False)
@click.option("-e", "--execute", "text", metavar="CYPHER", help="Cypher that only reads.")
@click.option("-p", "--param", "given", multiple=True, metavar="NAME=VALUE", help="A parameter.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
def query(
    options: Options, name: str | None, text: str | None, given: tuple[str, ...], as_csv: bool
) -> None:
    """Run a query that only reads.

    It is a NAME from `graphmem procedures list`, or a text. A parameter is JSON if it parses as
    JSON, else text; $ns is the namespace. Your own Cypher may only read the graph, for
    GRAPHMEM_QUERY_SECONDS (60). Rows after GRAPHMEM_QUERY_ROWS (10000) are cut.
    """
    if (name is None) is (text is None):
        raise click.UsageError(f"give NAME or --execute CYPHER; {_NAMES}")
    parameters: dict[str, Any] = {}
    for item in given:
        parameter, equals, value = item.partition("=")
        if not equals or not parameter.isidentifier():
            raise click.UsageError(f"--param {item!r}: give NAME=VALUE")
        parameters[parameter] = parse_value(value)
    cypher = text or "" if name is None else _find_query(name)
    rows = options.memory().query(cypher, parameters)
    columns = list(rows[0]) if rows else []
    if as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_write_value(row[column]) for column in columns] for row in rows)
    elif options.as_json:
        print_json({"rows": list(rows), "truncated": rows.truncated})
    elif rows:
        print_table(columns, ([row[column] for column in columns] for row in rows))
    else:
        click.echo("no rows")
    if rows.truncated:
        click.echo(
            f"(the first {len(rows):,} rows, there are more; GRAPHMEM_QUERY_ROWS says how many)",
            err=True,
        )
    options.note_snapshot()


def _find_query(name: str) -> str:
    from graphmem.store.queries import catalog

    for candidate in (name, f"analysis.{name}"):
        if candidate in catalog():
            return candidate
    known = sorted(query.name.removeprefix("analysis.") for query in catalog().subject("analysis"))
    raise NotFoundError(
        f"no query {name!r}; there are {', '.join(known)}; {_NAMES}; for Cypher use --execute"
    )


def _write_value(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return json.dumps(to_plain(value), ensure_ascii=False)


@click.group(cls=Group)
def procedures() -> None:
    """See and install the Cypher procedures."""


@procedures.command("list")
@example("procedures list --subject analysis")
@example("procedures list learning.best")
@click.argument("name", required=False)
@click.option("--subject", help="Only those whose names begin with this.")
def list_(options: Options, name: str | None, subject: str | None) -> None:
    """List the procedures, or print the procedure NAME as Cypher for Neo4j Browser.

    The column custom.graphmem. has their names on a server. Optional lines have marks.
    """
    if name is not None:
        if subject is not None:
            raise click.UsageError("give NAME or --subject")
        _print_text(options, name)
        return
    from graphmem.store.installing import CALLED, PREFIX, called
    from graphmem.store.queries import catalog

    rows: list[dict[str, Any]] = [
        {
            "name": query.name,
            "mode": query.mode,
            "parameters": {name: param.type for name, param in query.params.items()},
            "returns": dict(query.returns),
            "install": called(query),
            "doc": query.doc,
        }
        for query in (catalog().subject(subject) if subject else catalog())
    ]
    options.show_rows(
        rows,
        f"procedure=name mode parameters {CALLED}{PREFIX}=install what=doc",
        f"no procedure begins with {subject!r}",
        CELL,
        parameters=lambda row: [*row["parameters"]],
        install=lambda row: (row["install"] or "").rpartition(".")[2],
    )


def _print_text(options: Options, name: str) -> None:
    from graphmem.store.queries import procedure

    query = procedure(name)
    if options.as_json:
        print_json({"name": query.name, "mode": query.mode, "doc": query.doc, "text": query.text})
        return
    click.echo(f"// {query.name} ({query.mode}): {query.doc}")
    for param in query.params.values():
        default = "" if param.default is ... else f" = {shown(param.default)}"
        click.echo(f"// ${param.name}: {param.type}{default}")
    for option, what in query.options.items():
        click.echo(f"// option {option}: {what}")
    click.echo(f"{query.text};")


@procedures.command()
@example("--url neo4j://localhost:7687 procedures install")
def install(options: Options) -> None:
    """Install procedures into a Neo4j server, for Cypher users.

    The server needs APOC Extended, and the user the right to administer it. Each procedure becomes
    custom.graphmem.NAME; see `graphmem procedures list`. Run it again after you upgrade graphmem:
    it replaces what changed, and leaves the rest alone.
    """
    from graphmem.store import installing

    _show_change(options, installing.install(options.memory(must_exist=False).store))


@procedures.command()
@example("--url neo4j://localhost:7687 procedures uninstall")
def uninstall(options: Options) -> None:
    """Drop the procedures that graphmem installed on a server."""
    from graphmem.store import installing

    _show_change(options, installing.uninstall(options.memory(must_exist=False).store))


def _show_change(options: Options, report: Sequence[Installed]) -> None:
    options.show_rows(
        report,
        "procedure=name done signature",
        "none were installed",
        signature=lambda item: item.short.removeprefix(item.name),
    )
