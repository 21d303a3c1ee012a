"""Commands on the procedures: list and show them."""

from __future__ import annotations

import click

from graphmem.cli.context import Context, print_json, print_table


@click.group()
def procedures() -> None:
    """The Cypher that does the computing."""


@procedures.command("list")
@click.option("--subject", help="Only those whose names begin with this.")
@click.pass_obj
def list_(context: Context, subject: str | None) -> None:
    """List the procedures.

    \b
    Example:
      graphmem procedures list --subject analysis
    """
    from graphmem.queries import catalog

    rows = [
        {
            "name": query.name,
            "mode": query.mode,
            "parameters": {name: param.type for name, param in query.params.items()},
            "returns": dict(query.returns),
            "doc": query.doc,
        }
        for query in (catalog().subject(subject) if subject else catalog())
    ]
    if context.as_json:
        print_json(rows)
        return
    print_table(
        None,
        [("procedure", "left"), ("mode", "left"), ("parameters", "left"), ("what", "left")],
        [(row["name"], row["mode"], ", ".join(row["parameters"]), row["doc"]) for row in rows],
    )


@procedures.command()
@click.argument("name")
@click.pass_obj
def show(context: Context, name: str) -> None:
    """Print a procedure as Cypher that can be pasted into Neo4j Browser.

    \b
    Example:
      graphmem procedures show learning.best
    """
    from graphmem.queries import procedure

    query = procedure(name)
    if context.as_json:
        print_json({"name": query.name, "mode": query.mode, "doc": query.doc, "text": query.text})
        return
    click.echo(f"// {query.name} ({query.mode}): {query.doc}")
    for param in query.params.values():
        default = "" if param.default is ... else f" = {param.default!r}"
        click.echo(f"// ${param.name}: {param.type}{default}")
    click.echo(f"{query.text};")
