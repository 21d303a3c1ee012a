"""The commands of memory.levels: what agents hold now, for an hour, or for good."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from graphmem.cli.asking import open_for_search
from graphmem.cli.main import Group, Options, as_agent, example, moment, several, with_yes
from graphmem.cli.policies import parse_json
from graphmem.cli.printing import cell, print_answer, print_facts, span
from graphmem.printable import counted

with_ttl = click.option("--ttl", type=float, metavar="SECONDS", help="How long an entry stays.")


def _with_tags(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command two options of tags; it gets them as ``tags``, a Tags or None."""

    @functools.wraps(command)
    def tagged(*args: Any, any_of: tuple[str, ...], none_of: tuple[str, ...], **named: Any) -> None:
        from graphmem.models.levels import Tags

        tags = Tags(any_of=any_of, none_of=none_of) if any_of or none_of else None
        command(*args, tags=tags, **named)

    tagged = several("--none-of", metavar="TAG", help="None of these tags.")(tagged)
    return several("--tag", "any_of", metavar="TAG", help="At least one of these tags.")(tagged)


@click.group(cls=Group)
def levels() -> None:
    """Keep what agents hold now, for an hour, or for good.

    `graphmem list levels` shows their names, `graphmem explain ID` an entry.
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
@example("--url ./ops.graph levels put task:deploy:shared --ttl 3600 --capacity 200")
@click.argument("name")
@with_ttl
@click.option("--capacity", type=int, metavar="NUMBER", help="Most entries that are left.")
@click.option("--purpose", default="", help="What it holds, and why.")
@several("--member", "members", metavar="AGENT", help="Who alone may write it, if collective.")
@as_agent
def put(options: Options, /, members: tuple[str, ...], **settings: Any) -> None:
    """Make the level NAME, or replace its settings."""
    found = options.memory(must_exist=False).levels
    options.show(found.put(members=members or None, **settings))


@levels.command()
@example('--url ./ops.graph levels add agent:ada:sensory "order 17 is late" --tag kind:fact')
@example("--url ./ops.graph levels add agent:ada:working '{\"step\": 2}' --parse --key plan")
@click.argument("name")
@click.argument("content")
@click.option("--parse", is_flag=True, help="CONTENT is JSON; default: a text.")
@several("--tag", "tags", metavar="TAG", help="What it is found by.")
@click.option("--key", help="What it is about; a level has one entry under a key.")
@with_ttl
@moment("--at", "When it happened [now]")
@as_agent
def add(options: Options, /, name: str, content: str, parse: bool, **given: Any) -> None:
    """Add an entry with CONTENT to the level NAME."""
    value = parse_json(content) if parse else content
    added = options.memory().levels.add(name, value, **given)
    done = "replaced" if added.replaced else "added" if added.created else "there already:"
    options.show(added, f"{done} entry {added.id} in {added.level}")


@levels.command()
@example("--url ./ops.graph levels remove task:deploy:shared order/17")
@click.argument("name")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@as_agent
def remove(options: Options, name: str, keys: tuple[str, ...], agent: str | None) -> None:
    """Remove entries of the level NAME by KEY."""
    removed = options.memory().levels.remove(name, keys, agent=agent)
    options.show({"removed": removed}, f"removed {removed} of {len(keys)}")


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
@_with_tags
@click.option("--key", metavar="PATTERN", help="Keys like this: * is any text, ? any character.")
@moment("--since", "From this time on")
@click.option("--max-age", type=float, metavar="SECONDS", help="Not older than this.")
@click.option("--limit", type=click.IntRange(1), help="Most entries [10; that of the lens].")
@as_agent
def recall(options: Options, /, text: str | None, names: tuple[str, ...], **how: Any) -> None:
    """Show the entries that match, the nearest to TEXT first.

    Without a text, the most relevant come first.
    """
    memory = options.memory() if text is None else open_for_search(options)
    found = memory.levels.recall(text, levels=names or None, **how)
    options.show_rows(found, "level key content tags relevance similarity", "no entries fit")


@levels.command()
@example("levels lens agent:ada:orders agent:ada:working task:deploy:shared --max-age 600")
@example("--url ./ops.graph levels lens agent:ada:orders --remove")
@click.argument("name")
@click.argument("levels", nargs=-1, metavar="[LEVEL...]")
@_with_tags
@click.option("--max-age", type=float, metavar="SECONDS", help="Only entries not older than this.")
@click.option("--limit", type=int, help="Most entries to show [10].")
@click.option("--purpose", help="What it is for.")
@click.option("--remove", is_flag=True, help="Remove the lens; its levels stay.")
@as_agent
def lens(
    options: Options, /, name: str, levels: tuple[str, ...], remove: bool, **settings: Any
) -> None:
    """Make the lens NAME, a read-only view of LEVELs, or replace its settings.

    `levels recall --lens NAME` looks through it. Every agent has planning, reflection and skill.
    """
    agent = settings.pop("agent")
    settings = {key: value for key, value in settings.items() if value is not None}
    if remove == bool(levels) or (remove and settings):
        raise click.UsageError("give LEVELs to look at, with settings, or --remove alone")
    found = options.memory().levels
    if remove:
        found.remove_lens(name, agent=agent)
        options.show({"name": name}, f"removed the lens {cell(name)}")
    else:
        options.show(found.put_lens(name, levels, **settings, agent=agent))


@levels.command()
@example("levels pull agent:ada:working agent:ada:sensory --transformer dedup --tag kind:fact")
@example("--url ./ops.graph levels pull agent:ada:working agent:ada:sensory --stop")
@click.argument("target")
@click.argument("source")
@click.option("--transformer", help="What makes the entries: dedup, count, summarise ...")
@_with_tags
@click.option("--stop", is_flag=True, help="Let it pull no longer.")
@as_agent
def pull(options: Options, /, target: str, source: str, stop: bool, **way: Any) -> None:
    """Let the level TARGET pull from the level SOURCE at each tick."""
    found, agent = options.memory().levels, way.pop("agent")
    if not stop:
        changed = found.pull(target, source, where=way.pop("tags"), agent=agent, **way)
        done = "pulls" if changed else "pulls already"
    elif any(value is not None for value in way.values()):
        raise click.UsageError("--stop stands alone")
    else:
        changed = found.unpull(target, source, agent=agent)
        done = "pulls no longer" if changed else "did not pull"
    answer = {"target": target, "source": source, "changed": changed}
    options.show(answer, f"{target} {done} from {source}")


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
