"""The command query."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import click

from graphmem.cli.options import Options
from graphmem.cli.printing import plain, print_json, print_table

_NAMES = "`graphmem procedures list --subject analysis` says what each name answers"


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
    options: Options,
    name: str | None,
    text: str | None,
    file: str | None,
    given: tuple[str, ...],
    as_csv: bool,
) -> None:
    """Run a query that only reads.

    It is a NAME from `graphmem procedures list`, a text, or a file. A parameter is JSON if it
    parses as JSON, else text; $ns is the namespace. Your own Cypher may only read the graph, for
    GRAPHMEM_QUERY_SECONDS (60). Rows after GRAPHMEM_QUERY_ROWS (10000) are cut.

    \b
    Examples:
      graphmem --url ./airline.graph query what_works
      graphmem --url ./airline.graph query -e "MATCH (s:Strategy) RETURN s.text AS text LIMIT 5"
    """
    if sum(part is not None for part in (name, text, file)) != 1:
        raise click.UsageError(f"give one of NAME, --execute CYPHER and --file FILE; {_NAMES}")
    cypher = text or ""
    if name is not None:
        cypher = _named(name)
    elif file is not None:
        cypher = _read(file)
    rows = options.memory().query(cypher, _parameters(given))
    columns = list(rows[0]) if rows else []
    if as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_csv(row[column]) for column in columns] for row in rows)
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


def _named(name: str) -> str:
    from graphmem.errors import NotFoundError
    from graphmem.store.queries import catalog

    for candidate in (name, f"analysis.{name}"):
        if candidate in catalog():
            return candidate
    known = sorted(query.name.removeprefix("analysis.") for query in catalog().subject("analysis"))
    raise NotFoundError(
        f"no query {name!r}; {catalog().meant(name)}there are {', '.join(known)}; {_NAMES}; for "
        "Cypher use --execute"
    )


def _read(file: str) -> str:
    if file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"cannot read {file}: {error}") from error


def _parameters(given: tuple[str, ...]) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name.isidentifier():
            raise click.UsageError(f"--param {item!r}: give NAME=VALUE")
        try:
            parameters[name] = json.loads(value)
        except ValueError:
            parameters[name] = value
    return parameters


def _csv(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return json.dumps(plain(value), ensure_ascii=False)
