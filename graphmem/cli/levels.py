"""The commands of memory.levels: what agents hold now, for an hour, or for good."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.lenses import lens
from graphmem.cli.maintain import show as show_maintained
from graphmem.cli.options import Group, Options, as_agent, by_tags, json_object, moment
from graphmem.cli.printing import cell, fact, print_table, span
from graphmem.cli.similar import searchable
from graphmem.printable import listed

if TYPE_CHECKING:
    from graphmem.models.flow import TickReport
    from graphmem.models.levels import Entry, Found, Level, LevelInfo

TEXT = 60
"""Characters of a text in a table; --json has all of it."""
LEVEL_COLUMNS = (
    ("level", "left"),
    ("holds", "left"),
    ("stays", "left"),
    ("at most", "right"),
    ("purpose", "left"),
)
ENTRY_COLUMNS = (
    ("level", "left"),
    ("key", "left"),
    ("content", "left"),
    ("tags", "left"),
    ("relevance", "right"),
)
FOUND_COLUMNS = (*ENTRY_COLUMNS, ("similarity", "right"))
TICK_COLUMNS = (
    ("level", "left"),
    ("pulled from", "left"),
    ("ingested", "right"),
    ("made", "right"),
    ("became", "right"),
    ("missed", "right"),
    ("left out", "right"),
    ("skipped", "right"),
)


@click.group(cls=Group)
def levels() -> None:
    """Keep what agents hold now, for an hour, or for good."""


levels.add_command(lens)


@levels.command()
@click.argument("name")
@click.option("--ttl", type=float, metavar="SECONDS", help="How long an entry stays.")
@click.option("--capacity", type=int, metavar="NUMBER", help="Most entries that are left.")
@click.option("--purpose", default="", help="What it holds, and why.")
@as_agent
@click.pass_obj
def put(options: Options, /, name: str, **settings: Any) -> None:
    """Make the level NAME, or replace its settings.

    \b
    Example:
      graphmem --url ./ops.graph levels put task:deploy:shared --ttl 3600 --capacity 200
    """
    made = options.memory(must_exist=False).levels.put(name, **settings)
    options.show(made, lambda: _levels([made]))


@levels.command()
@click.option("--agent", required=True, help="Whose levels they are.")
@click.pass_obj
def default(options: Options, agent: str) -> None:
    """Make the six usual levels of an agent, as far as they are missing.

    It also lets them pull from each other.

    \b
    Example:
      graphmem --url ./ops.graph levels default --agent ada
    """
    made = options.memory(must_exist=False).levels.default(agent)
    options.show(made, lambda: _levels(made))


@levels.command()
@click.argument("name")
@click.argument("content")
@click.option("--parse", is_flag=True, help="CONTENT is JSON; default: a text.")
@click.option("--tag", "tags", multiple=True, help="What it is found by; can be repeated.")
@click.option("--key", help="What it is about; a level has one entry under a key.")
@click.option("--metadata", callback=json_object, metavar="JSON", help="Other data: an object.")
@click.option("--ttl", type=float, metavar="SECONDS", help="How long it stays [the level's].")
@click.option("--at", callback=moment, help="When it happened: ISO 8601 with time zone [now].")
@click.option(
    "--relevance", type=float, default=1.0, show_default=True, help="How much it counts at first."
)
@as_agent
@click.pass_obj
def add(options: Options, /, name: str, content: str, parse: bool, **given: Any) -> None:
    """Add an entry with CONTENT to the level NAME.

    \b
    Examples:
      graphmem --url ./ops.graph levels add agent:ada:sensory "order 17 is late" --tag kind:fact
      graphmem --url ./ops.graph levels add agent:ada:working '{"step": 2}' --parse --key plan
    """
    value: Any = content
    if parse:
        try:
            value = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise click.BadParameter(f"{content!r:.100} is not JSON ({error})") from error
    added = options.memory().levels.add(name, value, **given)

    def line() -> None:
        done = "replaced" if added.replaced else "added" if added.created else "there already:"
        click.echo(f"{done} entry {added.id} in {added.level}")

    options.show(added, line)


@levels.command("list")
@click.option("--owner", help="Only the levels of this agent, capability, task or collective.")
@as_agent
@click.pass_obj
def list_(options: Options, owner: str | None, agent: str | None) -> None:
    """Print the names of the levels, one on a line.

    \b
    Example:
      graphmem --url ./ops.graph levels list --owner ada
    """
    names = options.memory().levels.names(owner, agent=agent)

    def lines() -> None:
        for name in names or ("there are no levels",):
            click.echo(cell(name, 1_000))

    options.show([{"name": name} for name in names], lines)


@levels.command()
@click.argument("name")
@as_agent
@click.pass_obj
def info(options: Options, name: str, agent: str | None) -> None:
    """Show the level NAME, its settings, and its contents now.

    \b
    Example:
      graphmem --url ./ops.graph levels info agent:ada:working
    """
    found = options.memory().levels.info(name, agent=agent)
    options.show(found, lambda: _info(found))


@levels.command("map")
@as_agent
@click.option("--mermaid", is_flag=True, help="Print a flow chart in Mermaid.")
@click.pass_obj
def map_(options: Options, agent: str | None, mermaid: bool) -> None:
    """Show the levels as a tree. Under each level are those that pull from it.

    It prints at most 300 tokens; --json shows all.

    \b
    Example:
      graphmem --url ./ops.graph levels map --agent ada
    """
    if mermaid and options.as_json:
        raise click.UsageError("give --json or --mermaid")
    shown = options.memory().levels.map(agent)
    options.show(shown, lambda: click.echo((shown.mermaid() if mermaid else str(shown)).rstrip()))


@levels.command()
@as_agent
@click.pass_obj
def statistics(options: Options, agent: str | None) -> None:
    """Show totals of the levels: entries, pending ones, missed ones.

    \b
    Example:
      graphmem --url ./ops.graph levels statistics
    """
    found = options.memory().levels.statistics(agent)

    def lines() -> None:
        for name, value in found:
            fact(name.replace("_", " "), listed(value) if name == "kinds" else value)

    options.show(found, lines)


@levels.command()
@click.argument("name")
@as_agent
@click.pass_obj
def tags(options: Options, name: str, agent: str | None) -> None:
    """Show the tags in the level NAME, with their numbers.

    \b
    Example:
      graphmem --url ./ops.graph levels tags agent:ada:working
    """
    found = options.memory().levels.tags(name, agent=agent)
    rows = [{"tag": tag, "entries": number} for tag, number in found.items()]

    def table() -> None:
        if rows:
            print_table(None, (("tag", "left"), ("entries", "right")), found.items())
        else:
            click.echo("no entry has a tag")

    options.show(rows, table)


@levels.command()
@click.argument("name")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@as_agent
@click.pass_obj
def remove(options: Options, name: str, keys: tuple[str, ...], agent: str | None) -> None:
    """Remove entries of the level NAME by KEY.

    \b
    Example:
      graphmem --url ./ops.graph levels remove task:deploy:shared order/17
    """
    removed = options.memory().levels.remove(name, keys, agent=agent)
    options.show([{"removed": removed}], lambda: click.echo(f"removed {removed} of {len(keys)}"))


@levels.command()
@click.argument("name")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@click.option("--ttl", type=float, metavar="SECONDS", required=True, help="How long from now on.")
@as_agent
@click.pass_obj
def prolong(options: Options, /, name: str, keys: tuple[str, ...], **how: Any) -> None:
    """Let entries of the level NAME stay longer, by KEY.

    \b
    Example:
      graphmem --url ./ops.graph levels prolong task:deploy:shared order/17 --ttl 3600
    """
    longer = options.memory().levels.prolong(name, keys, **how)
    options.show(
        [{"prolonged": longer}], lambda: click.echo(f"{longer} of {len(keys)} stay longer")
    )


@levels.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@as_agent
@click.pass_obj
def entries(options: Options, ids: tuple[str, ...], agent: str | None) -> None:
    """Show entries by ID, also expired ones.

    \b
    Example:
      graphmem --url ./ops.graph levels entries 3d6c9d1f5d6d8a8f6f2b4d3a1c0e7b52
    """
    rows = options.memory().levels.entries(ids, agent=agent)
    options.show(rows, lambda: print_table(None, ENTRY_COLUMNS, map(_entry, rows)))


@levels.command()
@click.argument("text", required=False)
@click.option("--level", "names", multiple=True, help="Only this level; can be repeated.")
@click.option("--lens", "through", metavar="NAME", help="What this lens shows: planning ...")
@by_tags
@click.option("--key", metavar="PATTERN", help="Keys like this: * is any text, ? any character.")
@click.option("--since", callback=moment, help="From this time on: ISO 8601 with time zone.")
@click.option("--until", callback=moment, help="Before this time: ISO 8601 with time zone.")
@click.option("--max-age", type=float, metavar="SECONDS", help="Not older than this.")
@click.option("--min-relevance", type=float, default=0.0, help="Relevance now, at least.")
@click.option("--include-expired", is_flag=True, help="Also what expired and is still there.")
@click.option(
    "--limit", type=click.IntRange(1), help="Most entries to show [10; that of the lens]."
)
@as_agent
@click.pass_obj
def recall(
    options: Options,
    /,
    text: str | None,
    names: tuple[str, ...],
    through: str | None,
    limit: int | None,
    agent: str | None,
    **asked: Any,
) -> None:
    """Show the entries that match, the nearest to TEXT first.

    Without a text, the most relevant come first.

    \b
    Examples:
      graphmem --url ./ops.graph levels recall "late orders" --tag kind:fact --tag kind:plan
      graphmem --url ./ops.graph levels recall --level agent:ada:working --key "order/*"
      graphmem --url ./ops.graph levels recall "what next" --lens planning --agent ada
    """
    if through is not None and names:
        raise click.UsageError("give --level or --lens")
    memory = options.memory() if text is None else searchable(options, for_text=True)
    if through is not None:
        found = memory.levels.lens(through, agent=agent).recall(text, limit=limit, **asked)
    else:
        limit = 10 if limit is None else limit
        found = memory.levels.recall(text, levels=names or None, limit=limit, agent=agent, **asked)

    options.show_rows(found, FOUND_COLUMNS, _found, "no entries fit")


@levels.command()
@click.argument("target")
@click.argument("source")
@click.option("--transformer", help="What makes the entries: dedup, count, summarise ...")
@click.option("--arguments", callback=json_object, metavar="JSON", help="Those of the transformer.")
@by_tags
@as_agent
@click.pass_obj
def pull(
    options: Options,
    /,
    target: str,
    source: str,
    tags: Any,
    **given: Any,
) -> None:
    """Let the level TARGET pull from the level SOURCE at each tick.

    \b
    Example:
      graphmem --url ./ops.graph levels pull agent:ada:working agent:ada:sensory \\
          --transformer dedup --tag kind:fact
    """
    made = options.memory().levels.pull(target, source, where=tags, **given)

    def line() -> None:
        way = "" if made.transformer is None else f" with {made.transformer}"
        click.echo(f"{made.target} pulls from {made.source}{way}")

    options.show(made, line)


@levels.command()
@click.argument("target")
@click.argument("source")
@as_agent
@click.pass_obj
def unpull(options: Options, /, target: str, source: str, agent: str | None) -> None:
    """Stop the level TARGET from pulling from the level SOURCE.

    \b
    Example:
      graphmem --url ./ops.graph levels unpull agent:ada:working agent:ada:sensory
    """
    ended = options.memory().levels.unpull(target, source, agent=agent)

    def line() -> None:
        said = "pulls no longer" if ended else "did not pull"
        click.echo(f"{target} {said} from {source}")

    options.show([{"target": target, "source": source, "ended": ended}], line)


@levels.command()
@click.option("--agent", help="Only the levels of this agent pull; default: all.")
@click.pass_obj
def tick(options: Options, agent: str | None) -> None:
    """Let levels pull what is pending, and maintain them. They do so in the order of the dataflow.

    \b
    Example:
      graphmem --url ./ops.graph levels tick --agent ada
    """
    report = options.memory().levels.tick(agent)
    options.show(report, lambda: _ticked(report))
    failed = [each for each in report.subscriptions if each.error is not None]
    if failed:
        raise click.ClickException(
            "; ".join(f"{each.target} cannot pull from {each.source}" for each in failed)
        )


@levels.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Needed: what is in it cannot be brought back.")
@as_agent
@click.pass_obj
def close(options: Options, name: str, yes: bool, agent: str | None) -> None:
    """End the level NAME: erase it with its entries.

    \b
    Example:
      graphmem --url ./ops.graph levels close task:deploy:shared --yes
    """
    if not yes:
        raise click.UsageError(f"this erases {name} and its entries for good; add --yes")
    removed = options.memory().levels.close(name, agent=agent)

    def line() -> None:
        click.echo(f"closed {cell(name)}; entries that it had: {removed:,}")

    options.show([{"name": name, "removed": removed}], line)


def _levels(rows: list[Level]) -> None:
    print_table(None, LEVEL_COLUMNS, map(_level, rows))


def _level(row: Level) -> tuple[Any, ...]:
    return row.name, row.holds, span(row.ttl), row.capacity, cell(row.purpose, TEXT)


def _entry(row: Entry) -> tuple[Any, ...]:
    content, tags = cell(row.content, TEXT), cell(", ".join(row.tags), TEXT)
    return row.level, row.key, content, tags, row.relevance


def _found(row: Found) -> tuple[Any, ...]:
    return *_entry(row), row.similarity


def _info(row: LevelInfo) -> None:
    facts: dict[str, Any] = {
        "level": row.name,
        "purpose": row.purpose,
        "holds": row.holds,
        "stays": span(row.ttl),
        "at most": row.capacity,
        "entries": row.entries,
        "expired": row.expired,
        "missed": row.missed,
        "failed": row.failed,
        "pending": row.pending,
        "pulls from": ", ".join(row.subscribed_to),
        "tags": ", ".join(row.tags),
        "oldest": row.oldest_at,
        "newest": row.newest_at,
    }
    for name, value in facts.items():
        fact(name, value)


def _ticked(report: TickReport) -> None:
    if not report.subscriptions:
        click.echo("nothing was pending")
        show_maintained(report.maintained)
        return
    rows = [
        (
            each.target,
            each.source,
            each.ingested,
            each.made,
            each.became,
            each.missed,
            each.left_out,
            each.skipped,
        )
        for each in report.subscriptions
    ]
    print_table(None, TICK_COLUMNS, rows)
    for each in report.subscriptions:
        for reason in (*each.reasons, each.error):
            if reason is not None:
                click.echo(f"{each.target} from {each.source}: {cell(reason)}")
    show_maintained(report.maintained)
