"""The commands of memory.levels: what agents hold now, for an hour, or for good."""

from __future__ import annotations

from typing import Any

import click

from graphmem.cli.asking import open_for_search
from graphmem.cli.main import Group, Options, as_agent, example, moment, several, with_yes
from graphmem.cli.policies import parse_json
from graphmem.cli.printing import print_answer, print_facts, span
from graphmem.printable import counted
from graphmem.text.cells import cell


@click.group(cls=Group)
def levels() -> None:
    """Keep what agents hold now, for an hour, or for good.

    `graphmem list levels` shows their names, `graphmem explain ID` an entry. Other levels, lenses,
    and what pulls from what are made in Python: memory.levels.
    """


@levels.command()
@example("--url ./ops.graph levels default --agent ada")
@click.option("--agent", required=True, help="Whose levels they are.")
def default(options: Options, agent: str) -> None:
    """Make the six usual levels of an agent, as far as they are missing.

    It also lets them pull from each other.
    """
    rows = options.memory(must_exist=False).levels.default(agent)
    columns = "level=name holds stays at_most=capacity purpose"
    options.show_rows(rows, columns, "", stays=lambda row: span(row.ttl))


@levels.command()
@example('--url ./ops.graph levels add agent:ada:sensory "order 17 is late" --tag kind:fact')
@example("--url ./ops.graph levels add agent:ada:working '{\"step\": 2}' --parse --key plan")
@click.argument("name")
@click.argument("content")
@click.option("--parse", is_flag=True, help="CONTENT is JSON; default: a text.")
@several("--tag", "tags", metavar="TAG", help="What it is found by.")
@click.option("--key", help="What it is about; a level has one entry under a key.")
@click.option("--ttl", type=float, metavar="SECONDS", help="How long the entry stays.")
@moment("--at", "When it happened [now]")
@as_agent
def add(options: Options, /, name: str, content: str, parse: bool, **given: Any) -> None:
    """Add an entry with CONTENT to the level NAME."""
    value = parse_json(content) if parse else content
    added = options.memory().levels.add(name, value, **given)
    done = "replaced" if added.replaced else "added" if added.created else "there already:"
    options.show(added, f"{done} entry {added.id} in {added.level}")


@levels.command()
@example("--url ./ops.graph levels close task:deploy:shared --yes")
@example("--url ./ops.graph levels close capability:search --yes")
@click.argument("name")
@with_yes
@as_agent
def close(options: Options, name: str, yes: bool, agent: str | None) -> None:
    """End the level NAME, or all of capability:WHO or task:WHICH: erase it with its entries."""
    options.confirm(lambda: f"Erase {cell(name)} and its entries for good?", yes=yes)
    removed = options.memory().levels.close(name, agent=agent)
    options.show(
        {"name": name, "removed": removed}, f"closed {cell(name)} with {counted(removed, 'entry')}"
    )


@levels.command()
@example('--url ./ops.graph levels recall "late orders" --tag kind:fact --tag kind:plan')
@example('--url ./ops.graph levels recall --level agent:ada:working --key "order/*"')
@example('--url ./ops.graph levels recall "what next" --lens planning --agent ada')
@click.argument("text", required=False)
@several("--level", "names", metavar="NAME", help="Only this level.")
@click.option("--lens", metavar="NAME", help="What this lens shows: planning ...")
@several("--tag", "any_of", metavar="TAG", help="At least one of these tags.")
@several("--none-of", metavar="TAG", help="None of these tags.")
@click.option("--key", metavar="PATTERN", help="Keys like this: * is any text, ? any character.")
@moment("--since", "From this time on")
@click.option("--max-age", type=float, metavar="SECONDS", help="Not older than this.")
@click.option("--limit", type=click.IntRange(1), help="Most entries [10; that of the lens].")
@as_agent
def recall(options: Options, /, text: str | None, names: tuple[str, ...], **how: Any) -> None:
    """Show the entries that match, the nearest to TEXT first.

    Without a text, the most relevant come first.
    """
    from graphmem.models.levels import Tags

    tags = Tags(any_of=how.pop("any_of"), none_of=how.pop("none_of"))
    memory = options.memory() if text is None else open_for_search(options)
    found = memory.levels.recall(text, levels=names or None, tags=tags, **how)
    options.show_rows(found, "level key content tags relevance similarity", "no entries fit")


@levels.command()
@example("--url ./ops.graph levels tick --agent ada")
@click.option("--agent", help="Only the levels of this agent pull; default: all.")
def tick(options: Options, agent: str | None) -> None:
    """Let levels pull what is pending, in the order of the dataflow, and maintain them."""
    report = options.memory().levels.tick(agent)
    done = report.subscriptions or report.maintained
    options.show(report, print_answer if done else "nothing was pending")
    if failed := [one for one in report.subscriptions if one.error is not None]:
        raise click.ClickException(
            "; ".join(f"{one.target} cannot pull from {one.source}" for one in failed)
        )


@levels.command()
@example("--url ./ops.graph levels info agent:ada:working")
@example("--url ./ops.graph levels info")
@click.argument("name", required=False)
@as_agent
def info(options: Options, name: str | None, agent: str | None) -> None:
    """Show the level NAME, its settings, contents and tags; without NAME the totals of all."""
    found = options.memory().levels
    if name is None:
        options.show(found.statistics(agent))
        return
    shown = found.info(name, agent=agent)
    named = ", ".join(f"{tag} ({count:,})" for tag, count in shown.tags.items())
    options.show(shown, lambda _: print_facts({**dict(shown), "tags": named}))


@levels.command("map")
@example("--url ./ops.graph levels map --agent ada")
@as_agent
def map_(options: Options, agent: str | None) -> None:
    """Show the levels as a tree. Under each level are those that pull from it."""
    options.show(options.memory().levels.map(agent), click.echo)
