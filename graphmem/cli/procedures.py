"""Commands on the procedures: list, show and install them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.options import Group, Options, several
from graphmem.cli.printing import print_json, print_table
from graphmem.errors import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmem.store.installing import Installed


@click.group(cls=Group)
def procedures() -> None:
    """See and install the Cypher procedures."""


@procedures.command("list")
@click.argument("name", required=False)
@click.option("--subject", help="Only those whose names begin with this.")
@several("--with", "wanted", metavar="OPTION", help="With NAME: with the lines for this option.")
@click.pass_obj
def list_(options: Options, name: str | None, subject: str | None, wanted: tuple[str, ...]) -> None:
    """List the procedures, or print the procedure NAME as Cypher for Neo4j Browser.

    The column custom.graphmem. has their names on a server; names in brackets are those of their
    parameters there. Some have optional lines; without --with, all lines are shown, with marks.

    \b
    Examples:
      graphmem procedures list --subject analysis
      graphmem procedures list learning.best
    """
    if name is not None:
        if subject is not None:
            raise click.UsageError("give NAME or --subject")
        _print_text(options, name, wanted)
        return
    from graphmem.store.installing import CALLED, PREFIX, called, renames
    from graphmem.store.queries import catalog

    rows: list[dict[str, Any]] = [
        {
            "name": query.name,
            "mode": query.mode,
            "parameters": {name: param.type for name, param in query.params.items()},
            "returns": dict(query.returns),
            "install": called(query),
            "renamed": renames(query) if query.install else {},
            "doc": query.doc,
        }
        for query in (catalog().subject(subject) if subject else catalog())
    ]
    if options.as_json:
        print_json(rows)
        return
    print_table(
        ("procedure", "mode", "parameters", CALLED + PREFIX, "what"),
        [
            (
                row["name"],
                row["mode"],
                ", ".join(_renamed(name, row["renamed"]) for name in row["parameters"]),
                (row["install"] or "").rpartition(".")[2],
                row["doc"],
            )
            for row in rows
        ],
    )


def _renamed(name: str, others: dict[str, str]) -> str:
    return f"{name} ({others[name]})" if name in others else name


def _print_text(options: Options, name: str, wanted: tuple[str, ...]) -> None:
    from graphmem.store.queries import procedure

    query = procedure(name)
    if wanted:
        query = query.wanting(*wanted)
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
@click.option("--print", "print_", is_flag=True, help="Print the Cypher that does it; do nothing.")
@click.pass_obj
def install(options: Options, print_: bool) -> None:
    """Install procedures into a Neo4j server, for Cypher users.

    The server needs APOC Extended, and the user the right to administer it. Each procedure becomes
    custom.graphmem.NAME; see `graphmem procedures list`. Run it again after you upgrade graphmem:
    it replaces what changed, and leaves the rest alone.

    \b
    Example:
      graphmem --url neo4j://localhost:7687 procedures install
    """
    from graphmem.store import installing

    if print_:
        text = installing.script(options.settings().database or "neo4j")
        if options.as_json:
            print_json({"text": text})
        else:
            click.echo(text, nl=False)
        return
    _print_report(options, installing.install(options.memory(must_exist=False).store))


@procedures.command()
@click.pass_obj
def uninstall(options: Options) -> None:
    """Drop the procedures that graphmem installed on a server.

    \b
    Example:
      graphmem --url neo4j://localhost:7687 procedures uninstall
    """
    from graphmem.store import installing

    _print_report(options, installing.uninstall(options.memory(must_exist=False).store))


def _print_report(options: Options, report: Sequence[Installed]) -> None:
    options.show_rows(
        report,
        "procedure=name done signature",
        "none were installed",
        signature=lambda item: item.short.removeprefix(item.name),
    )
