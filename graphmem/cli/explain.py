"""The command explain: why something is believed, and what anything with an id holds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.options import Options, moment
from graphmem.cli.printing import cell, print_facts, print_rows
from graphmem.kinds import ITEM_KINDS

if TYPE_CHECKING:
    from graphmem.models.reports import Item

_ID = re.compile("[0-9a-f]{6,32}")


@click.command()
@click.argument("item")
@click.option(
    "--kind", type=click.Choice(ITEM_KINDS), help="Kind of ITEM, if a text matches several."
)
@click.option("--agent", help="Use only episodes that this agent may read.")
@click.option("--task", help="Say also what is expected of the strategy on this task, and why.")
@moment("--as-of", "From what was recorded by this time")
@click.option("--cypher", is_flag=True, help="Print a query that Neo4j Browser shows as a graph.")
@click.pass_obj
def explain(options: Options, /, item: str, cypher: bool, **how: Any) -> None:
    """Explain ITEM: the evidence for and against it, what is near it, what would change it.

    ITEM is an id that graphmem printed, or its first six letters, or the text of a strategy,
    anti-pattern or rule. Of an episode, a task and others it shows the fields and links.

    \b
    Examples:
      graphmem --url ./airline.graph explain "check the fare rules"
      graphmem --url ./airline.graph explain 8005dd1d95cd
      graphmem --url ./airline.graph explain refund --kind anti-pattern --agent ada
      graphmem --url neo4j://localhost:7687 explain refund --cypher
    """
    from graphmem.errors import NotFoundError

    memory = options.memory()
    found, missing = None, None
    if _ID.fullmatch(item):
        try:
            found = memory.show(item)
        except NotFoundError as error:  # it can be a text
            missing = error
    if found is not None and found.kind not in ITEM_KINDS:
        if cypher or any(how.values()):
            raise click.UsageError(
                f"--kind, --agent, --task, --as-of and --cypher are not for a {found.kind}, which "
                "has no verdict"
            )
        options.show(found, _print_item)
        return
    try:
        explanation = memory.explain(item if found is None else found.id, **how)
    except NotFoundError as error:
        raise missing or error from None
    if cypher:
        options.show({"cypher": explanation.cypher}, lambda _: click.echo(f"{explanation.cypher};"))
    else:
        options.show(explanation, lambda _: click.echo(str(explanation)))


def _print_item(item: Item) -> None:
    click.echo(f"{item.kind} {item.id}")
    print_facts(item.fields)
    for link in item.links:
        of = "" if link.id is None else f" ({link.id})"
        click.echo(f"{link.relation:<15}{link.kind} {cell(link.text, 80)}{of}")
    if item.steps:
        print_rows(item.steps, "step=index action_type action observation error")
