"""The command explain: why something is believed, and what anything with an id holds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from graphmem.cli.options import Options
from graphmem.cli.printing import cell, print_json, print_lines, print_rows
from graphmem.kinds import ITEM_KINDS

if TYPE_CHECKING:
    from graphmem.models.reports import Item, StepRow

MORE = {
    "task": "list episodes --task {id}",
    "prediction": "list predictions",
    "cycle": "policies cycles {subject}",
    "level": "levels recall --level {name}",
    "lens": "levels recall --lens {name}",
    "knowledge": "list knowledge",
    "preference": "list preferences --user {user}",
    "scope": "list scopes",
    "mistake": "list mistakes",
    "event": "explain {subject}",
}
"""The command that tells more of each kind; fields are in braces."""
WIDTH = 17
_ID = re.compile("[0-9a-f]{6,32}")


@click.command()
@click.argument("item")
@click.option(
    "--kind", type=click.Choice(ITEM_KINDS), help="Kind of ITEM, if a text matches several."
)
@click.option("--agent", help="Use only episodes that this agent may read.")
@click.option("--task", help="Say also what is expected of the strategy on this task, and why.")
@click.option("--cypher", is_flag=True, help="Print a query that Neo4j Browser shows as a graph.")
@click.pass_obj
def explain(
    options: Options,
    item: str,
    kind: str | None,
    agent: str | None,
    task: str | None,
    cypher: bool,
) -> None:
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
    of_beliefs = {"--kind": kind, "--agent": agent, "--task": task, "--cypher": cypher}
    found, missing = None, None
    if _ID.fullmatch(item):
        try:
            found = memory.show(item)
        except NotFoundError as error:  # it can be a text
            missing = error
    if found is not None and found.kind not in ITEM_KINDS:
        for name, value in of_beliefs.items():
            if value:
                raise click.UsageError(f"{name} is not for a {found.kind}, which has no verdict")
        options.show(found, lambda: _print_item(found))
        return
    try:
        explanation = memory.explain(
            item if found is None else found.id, kind=kind, agent=agent, task=task
        )
    except NotFoundError as error:
        raise missing or error from None
    if cypher and options.as_json:
        print_json({"cypher": explanation.cypher})
    elif cypher:
        click.echo(f"{explanation.cypher};")
    else:
        options.show(explanation, lambda: print_lines(str(explanation)))


def _print_item(item: Item) -> None:
    click.echo(f"{item.kind} {item.id}")
    for name, value in item.fields.items():
        print_lines(f"  {name.replace('_', ' '):<{WIDTH}}{cell(value)}", WIDTH)
    for link in item.links:
        of = "" if link.id is None else f" ({link.id})"
        text = f"{link.kind} {cell(link.text, 80)}{of}"
        print_lines(f"  {link.relation:<{WIDTH}}{text}", WIDTH)
    if item.steps:
        print_rows(item.steps, "step=index action observation error", action=_action)
    if (more := MORE.get(item.kind)) is not None:
        click.echo(f"more: graphmem {more.format_map({'id': item.id, **item.fields})}")


def _action(step: StepRow) -> str:
    return " ".join(filter(None, (step.action_type, step.action)))
