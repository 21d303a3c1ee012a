"""The commands of memory.upkeep: rebuild, erase, forget, relink, export, import."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.options import Group, Options
from graphmem.cli.printing import cell, print_table, progress
from graphmem.errors import ValidationError
from graphmem.kinds import (
    EXPORT_FORMATS,
    FILE_FORMATS,
    NODE_KINDS,
    ExportFormat,
    FileFormat,
    NodeKind,
)
from graphmem.printable import counted, listed

if TYPE_CHECKING:
    from graphmem.models import EraseReport

FORMAT = click.option(
    "--format",
    "format_name",
    type=click.Choice(FILE_FORMATS),
    required=True,
    help="sentinel: a Sentinel memory; jsonl: graphmem's own JSON lines.",
)


@click.group(cls=Group)
def upkeep() -> None:
    """Repair derived data, remove episodes, export and import."""


@upkeep.command()
@click.pass_obj
def rebuild(options: Options) -> None:
    """Derive every number anew, with the settings in force now.

    \b
    Example:
      graphmem --url ./airline.graph upkeep rebuild
    """
    with progress("rebuilding", options, "facts") as advance:
        report = options.memory().upkeep.rebuild(on_progress=advance)
    options.show(
        report,
        lambda: click.echo(
            f"{counted(report.strategies, 'strategy')}, "
            f"{counted(report.outcomes, 'result of a strategy on a task')}, "
            f"{counted(report.co_occurrences, 'pair of strategies used together')}, "
            f"{counted(report.tasks, 'task')} and {counted(report.agents, 'agent')} "
            f"derived anew; {report.removed:,} without evidence removed"
        ),
    )


@upkeep.command()
@click.argument("episode_ids", nargs=-1, metavar="[EPISODE]...")
@click.option("--agent", help="Everything of this agent instead.")
@click.option("--user", help="Everything of this user instead.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def erase(
    options: Options, episode_ids: tuple[str, ...], agent: str | None, user: str | None, yes: bool
) -> None:
    """Remove EPISODEs, an agent or a user, and all their traces.

    Every number loses its exact share. EPISODE is an id.

    \b
    Examples:
      graphmem --url ./airline.graph upkeep erase 8005dd1d95cda4a638a0a9011c2bd1d5 --yes
      graphmem --url ./airline.graph upkeep erase --user ann
    """
    if sum((bool(episode_ids), agent is not None, user is not None)) != 1:
        raise click.UsageError("give the ids of EPISODEs, --agent NAME or --user NAME")
    what = f"{counted(len(episode_ids), 'episode')}"
    if not episode_ids:
        what = f"all of agent {agent!r}" if user is None else f"all of user {user!r}"
    if not yes:
        _ask(options, "erasing", lambda: f"Erase {what} for good?")
    memory = options.memory()
    if episode_ids:
        last = episode_ids[-1]
        reports = [
            memory.upkeep.erase(episode_id, compact=episode_id == last)
            for episode_id in episode_ids
        ]
    else:
        reports = [memory.upkeep.erase(agent=agent, user=user)]

    def table() -> None:
        for report in reports:
            click.echo(_erased(report))
        _say_what_is_left(reports[-1].compacted, reports[-1].read_by)

    options.show(reports, table)


def _erased(report: EraseReport) -> str:
    if report.user is not None:
        return (
            f"erased user {cell(report.user, 60)} with "
            f"{counted(report.preferences, 'preference')} and "
            f"{counted(report.knowledge, 'fact')} that nobody else stated"
        )
    gone = f", and {counted(len(report.removed), 'node')} that nothing else supported"
    gone = gone if report.removed else ""
    if report.agent is None and report.abandoned:
        return f"erased {report.episode_id}, an attempt without an outcome"
    if report.agent is None:
        return f"erased {report.episode_id} with {counted(report.steps, 'step')}{gone}"
    if report.abandoned:
        gone += f", and {counted(report.abandoned, 'attempt')} without an outcome"
    if report.entries:
        gone += f", and {counted(report.entries, 'entry')} of its levels"
    return (
        f"erased agent {cell(report.agent, 60)} with {counted(report.episodes, 'episode')}, "
        f"{counted(report.steps, 'step')} and {counted(report.predictions, 'prediction')}{gone}"
    )


def _say_what_is_left(compacted: bool, read_by: tuple[str, ...]) -> None:
    """Tell whether anything is left on disk, or in other processes."""
    if compacted:
        click.echo("the files were written anew; nothing of it is left in them")
    else:
        click.echo(
            "files may keep removed records for a while: those of a server, and damaged ones that "
            "doctor --accept-loss kept"
        )
    if read_by:
        click.echo(f"an older snapshot is held, until it reads again, by {', '.join(read_by)}")


@upkeep.command()
@click.option(
    "--older-than",
    type=float,
    metavar="DAYS",
    help="Episodes that ended (else started, else were recorded) so long ago [default: any age].",
)
@click.option(
    "--below-confidence",
    type=float,
    metavar="NUMBER",
    help="All of their strategies have a lower confidence, from 0 to 1 [default: any].",
)
@click.option("--agent", help="Only episodes of this agent.")
@click.option("--dry-run", is_flag=True, help="Say what it would erase; change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def forget(options: Options, /, dry_run: bool, yes: bool, **asked: Any) -> None:
    """Erase episodes that are old, or of weak strategies, or both.

    Give --older-than, --below-confidence, or both. An episode must meet all that you give.

    \b
    Examples:
      graphmem --url ./airline.graph upkeep forget --older-than 30 --dry-run
      graphmem --url ./airline.graph upkeep forget --older-than 90 --below-confidence 0.3 --yes
    """
    upkeep = options.memory().upkeep
    if not dry_run and not yes:
        # Counted only if somebody reads it.
        _ask(
            options,
            "forgetting",
            lambda: (
                "Forget "
                f"{counted(upkeep.forget(**asked, dry_run=True).episodes, 'episode')} for good?"
            ),
        )
    report = upkeep.forget(**asked, dry_run=dry_run)

    def table() -> None:
        would = "would forget" if report.dry_run else "forgot"
        since = "" if report.before is None else f" from before {cell(report.before)} UTC"
        click.echo(
            f"{would} {counted(report.episodes, 'episode')} with "
            f"{counted(report.steps, 'step')}{since}"
        )
        if report.removed:
            click.echo(f"and what nothing else supported: {listed(report.removed)}")
        if report.abandoned:
            click.echo(f"and {counted(report.abandoned, 'attempt')} without an outcome")
        if not report.dry_run and (report.episodes or report.abandoned):
            _say_what_is_left(report.compacted, report.read_by)

    options.show(report, table)


def _ask(options: Options, what: str, question: Callable[[], str]) -> None:
    """Ask before what cannot be undone; if nobody can answer, --yes is needed."""
    if options.as_json or not sys.stdin.isatty():
        raise click.UsageError(f"{what} cannot be undone; confirm with --yes")
    click.confirm(question(), abort=True)


@upkeep.command()
@click.option(
    "--embedder",
    metavar="NAME",
    help="Embed all texts anew with this one from now on; `graphmem embedders` lists them.",
)
@click.pass_obj
def relink(options: Options, embedder: str | None) -> None:
    """Embed texts without vectors, and link similar ones anew.

    The next recall embeds new texts by itself. This command does it earlier, repairs damaged
    vectors, and can change the embedder.

    \b
    Examples:
      graphmem --url ./airline.graph upkeep relink
      graphmem --url ./airline.graph upkeep relink --embedder hashing
    """
    with progress("embedding and linking", options) as advance:
        report = options.memory().upkeep.relink(embedder, on_progress=advance)
    options.show(
        report,
        lambda: click.echo(
            f"{report.embedded:,} of {report.strategies + report.tasks:,} texts embedded with "
            f"{report.embedder} ({report.dimensions} dimensions); {report.links:,} edges between "
            f"{counted(report.strategies, 'strategy')} and between {counted(report.tasks, 'task')}"
        ),
    )


@upkeep.command()
@click.argument("file", metavar="FILE")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(EXPORT_FORMATS),
    required=True,
    help="sentinel: a Sentinel memory; jsonl: graphmem's own JSON lines; graphml: the graph, for "
    "programs such as Gephi; mermaid: a chart of it; neo4j: a folder of tables for neo4j-admin.",
)
@click.option(
    "--document",
    metavar="NAME",
    help="sentinel: only the imported file of this name [default: all episodes].",
)
@click.option(
    "--around",
    multiple=True,
    metavar="ITEM",
    help="graphml, mermaid: only what is around this id or text; can be repeated.",
)
@click.option(
    "--hops",
    type=click.IntRange(0, 6),
    default=1,
    show_default=True,
    help="With --around: how many steps.",
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(NODE_KINDS),
    help="graphml, mermaid: nodes of this kind; can be repeated [default: what was learned].",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    help="graphml, mermaid: most nodes [default: any number; of a chart 200].",
)
@click.pass_obj
def export(
    options: Options,
    file: str,
    format_name: ExportFormat,
    document: str | None,
    around: tuple[str, ...],
    hops: int,
    kinds: tuple[NodeKind, ...],
    limit: int | None,
) -> None:
    """Write all episodes, or the graph, to FILE, which it replaces.

    \b
    Examples:
      graphmem --url ./runs.graph upkeep export --format sentinel agent_memory.json
      graphmem --url ./runs.graph upkeep export --format graphml runs.graphml
      graphmem --url ./runs.graph upkeep export --format neo4j tables
      graphmem --url ./runs.graph upkeep export --format mermaid chart.mmd --around "refund"
    """
    if file == "-":
        raise click.UsageError("FILE cannot be standard output; give the name of a file")
    try:
        report = options.memory().upkeep.export(
            file,
            format_name,
            document=document,
            around=around or None,
            hops=hops,
            kinds=kinds or None,
            limit=limit,
        )
    except ValidationError as error:
        if error.field != "limit":
            raise
        less = "fewer --hops, " if around else "--around ITEM (an id or a text), "
        less = "" if around and hops < 2 else less
        raise ValidationError(
            "graph",
            None,
            error.problem,
            f"take a part with {less}--kind KIND or --limit NUMBER",
        ) from None

    def table() -> None:
        if report.format in ("graphml", "mermaid", "neo4j"):
            edges = counted(report.edges, "edge")
            click.echo(f"{counted(report.nodes, 'node')} and {edges} written to {file}")
            if report.format == "neo4j":
                click.echo(
                    "then, in that folder: neo4j-admin database import full neo4j @import.args"
                )
                if (Path(file) / "after.cypher").exists():
                    click.echo("and once the server runs: cypher-shell --file after.cypher")
            return
        click.echo(f"{counted(report.episodes, 'episode')} written to {file}")
        if report.abandoned:
            click.echo(f"{counted(report.abandoned, 'attempt')} without an outcome written to it")
        if report.levels:
            click.echo(
                f"{counted(report.levels, 'level')} with {counted(report.entries, 'entry')} "
                "written to it"
            )
        if report.derived:
            click.echo(f"derived from them: {', '.join(report.derived)}")
        if report.kept:
            click.echo(f"as they were imported: {', '.join(report.kept)}")

    options.show(report, table)


@upkeep.command("import")
@click.argument("file", metavar="FILE")
@FORMAT
@click.option(
    "--document",
    metavar="NAME",
    help="sentinel: what the file is known by [default: its name without endings].",
)
@click.pass_obj
def import_(options: Options, file: str, format_name: FileFormat, document: str | None) -> None:
    """Learn all episodes of FILE, or none if the file is damaged.

    \b
    Example:
      graphmem --url ./runs.graph upkeep import --format sentinel agent_memory.json
    """
    upkeep = options.memory(must_exist=False).upkeep
    report = upkeep.import_(file, format_name, document=document)

    def table() -> None:
        click.echo(
            f"{counted(report.created, 'episode')} learned, {report.skipped:,} known already"
        )
        if report.abandoned:
            click.echo(f"{counted(report.abandoned, 'attempt')} without an outcome stored")
        if report.levels or report.entries:
            click.echo(
                f"{counted(report.levels, 'level')} made, {counted(report.entries, 'entry')} stored"
            )
        if report.kept:
            click.echo(f"kept as they are, not learned: {', '.join(report.kept)}")
        if report.refused:
            rows: list[tuple[Any, ...]] = [
                (item.source_key, item.field, item.reason) for item in report.refused[:20]
            ]
            title = f"{len(report.refused):,} refused"
            print_table(title, [(x, "left") for x in ("source key", "field", "reason")], rows)

    options.show(report, table)
    if report.refused:
        sys.exit(1)
