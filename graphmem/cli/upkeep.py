"""The commands of memory.upkeep: check, repair, remove, export, import."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from graphmem.cli.levels import print_maintained
from graphmem.cli.options import MOMENT, Group, Options, as_agent, several, with_yes
from graphmem.cli.printing import cell, print_rows, progress
from graphmem.errors import ValidationError
from graphmem.kinds import (
    EXPORT_FORMATS,
    FILE_FORMATS,
    NODE_KINDS,
    ExportFormat,
    FileFormat,
)
from graphmem.printable import counted, listed

if TYPE_CHECKING:
    from graphmem.models import BackupReport, EraseReport, VerifyReport
    from graphmem.models.reports import ExportReport, ImportReport

BACKUP = "backup"
SHOWN = 50
"""Differences in the table of verify."""


@click.group(cls=Group)
def upkeep() -> None:
    """Check and repair derived data, remove episodes, export and import."""


@upkeep.command()
@click.pass_obj
def verify(options: Options) -> None:
    """Derive every number from the facts again, and compare. It exits with 1 on a difference.

    \b
    Example:
      graphmem --url ./airline.graph upkeep verify
    """
    with progress("verifying", options, "facts") as advance:
        report = options.memory().verify(on_progress=advance)
    if report.ok:
        counts = listed(report.checked) or "there are none"
        options.show(report, f"all numbers follow from the facts ({counts})")
    else:
        options.show(report, lambda: _print_differences(report))
        sys.exit(1)


def _print_differences(report: VerifyReport) -> None:
    count = len(report.differences) + report.more
    click.echo(
        f"{counted(count, 'difference')} ({listed(report.differing)}); `graphmem upkeep rebuild` "
        "derives all anew"
    )
    print_rows(report.differences[:SHOWN], "kind key field stored expected")
    if count > SHOWN:
        click.echo(f"and {count - SHOWN:,} more")


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
        f"{counted(report.strategies, 'strategy')}, "
        f"{counted(report.outcomes, 'result of a strategy on a task')}, "
        f"{counted(report.co_occurrences, 'pair of strategies used together')}, "
        f"{counted(report.tasks, 'task')} and {counted(report.agents, 'agent')} "
        f"derived anew; {report.removed:,} without evidence removed",
    )


@upkeep.command()
@click.argument("episode_ids", nargs=-1, metavar="[EPISODE]...")
@click.option("--agent", help="Everything of this agent instead.")
@click.option("--user", help="Everything of this user instead.")
@with_yes
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
    options.confirm(lambda: f"Erase {what} for good?", yes=yes)
    memory = options.memory()
    if episode_ids:
        last = episode_ids[-1]
        reports = [
            memory.upkeep.erase(episode_id, compact=episode_id == last)
            for episode_id in episode_ids
        ]
    else:
        reports = [memory.upkeep.erase(agent=agent, user=user)]

    def text() -> None:
        for report in reports:
            click.echo(_describe_erased(report))
        _print_what_is_left(reports[-1].compacted, reports[-1].read_by)

    options.show(reports, text)


def _describe_erased(report: EraseReport) -> str:
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


def _print_what_is_left(compacted: bool, read_by: tuple[str, ...]) -> None:
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
@with_yes
@click.pass_obj
def forget(options: Options, /, dry_run: bool, yes: bool, **which: Any) -> None:
    """Erase episodes that are old, or of weak strategies, or both.

    Give --older-than, --below-confidence, or both. An episode must meet all that you give.

    \b
    Examples:
      graphmem --url ./airline.graph upkeep forget --older-than 30 --dry-run
      graphmem --url ./airline.graph upkeep forget --older-than 90 --below-confidence 0.3 --yes
    """
    upkeep = options.memory().upkeep
    if not dry_run:

        def question() -> str:
            count = upkeep.forget(**which, dry_run=True).episodes
            return f"Forget {counted(count, 'episode')} for good?"

        options.confirm(question, yes=yes)
    report = upkeep.forget(**which, dry_run=dry_run)

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
            _print_what_is_left(report.compacted, report.read_by)

    options.show(report, table)


@upkeep.command()
@click.option(
    "--embedder",
    metavar="NAME",
    help="Embed all texts anew with this one from now on; `graphmem doctor embedders` lists them.",
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
        f"{report.embedded:,} of {report.strategies + report.tasks:,} texts embedded with "
        f"{report.embedder} ({report.dimensions} dimensions); {report.links:,} edges between "
        f"{counted(report.strategies, 'strategy')} and between {counted(report.tasks, 'task')}",
    )


@upkeep.command()
@click.argument("name", required=False)
@click.option("--at", type=MOMENT, help="The instant: ISO 8601 with time zone [now].")
@as_agent
@click.pass_obj
def maintain(options: Options, /, name: str | None, **which: Any) -> None:
    """Maintain all levels, those of an agent, or the level NAME.

    It removes what expired or is hardly relevant, merges entries that say the same, keeps levels to
    their capacity, and embeds texts without vectors. A repeated call for the same instant changes
    nothing.

    \b
    Examples:
      graphmem --url ./ops.graph upkeep maintain
      graphmem --url ./ops.graph upkeep maintain agent:ada:working --at 2026-11-22T18:00:00Z
    """
    memory = options.memory()
    with progress("maintaining", options) as advance:
        report = memory.levels.maintain(name, on_progress=advance, **which)
    if report.levels:
        options.show(report, lambda: print_maintained(report.levels))
    else:
        options.show(report, "nothing was to do")


@upkeep.command()
@click.argument("file", metavar="FILE")
@click.option(
    "--format",
    "format_name",
    type=click.Choice([BACKUP, *EXPORT_FORMATS]),
    default=BACKUP,
    show_default=True,
    help="backup: the whole memory as a new folder, which every command can read; jsonl: "
    "graphmem's own JSON lines; sentinel: a Sentinel memory; graphml: the graph, for programs such "
    "as Gephi; mermaid: a chart of it; neo4j: a folder of tables for neo4j-admin.",
)
@click.option(
    "--document",
    metavar="NAME",
    help="sentinel: only the imported file of this name [default: all episodes].",
)
@several("--around", metavar="ITEM", help="graphml, mermaid: only what is around this id or text.")
@click.option(
    "--hops",
    type=click.IntRange(0, 6),
    default=1,
    show_default=True,
    help="With --around: how many steps.",
)
@several(
    "--kind",
    "kinds",
    type=click.Choice(NODE_KINDS),
    help="graphml, mermaid: nodes of this kind [default: what was learned].",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    help="graphml, mermaid: most nodes [default: any number; of a chart 200].",
)
@click.pass_obj
def export(options: Options, /, file: str, format_name: str, hops: int, **which: Any) -> None:
    """Write the memory to FILE. Others may write meanwhile.

    It replaces FILE, but not the folder of a backup.

    \b
    Examples:
      graphmem --url ./runs.graph upkeep export ./backups/monday
      graphmem --url ./runs.graph upkeep export --format jsonl runs.jsonl
      graphmem --url ./runs.graph upkeep export --format neo4j tables
      graphmem --url ./runs.graph upkeep export --format mermaid chart.mmd --around "refund"
    """
    if file == "-":
        raise click.UsageError("FILE cannot be standard output; give the name of a file")
    given = {name: value for name, value in which.items() if value}
    upkeep = options.memory().upkeep
    if format_name == BACKUP:
        if given:
            raise click.UsageError(f"a backup is of the whole memory: leave out --{min(given)}")
        copy = upkeep.backup(file)
        options.show(copy, f"{_describe_copy(copy)} written to {cell(copy.path)}")
        return
    try:
        report = upkeep.export(file, cast("ExportFormat", format_name), hops=hops, **given)
    except ValidationError as error:
        if error.field != "limit":
            raise
        less = "fewer --hops, " if given.get("around") else "--around ITEM (an id or a text), "
        less = "" if given.get("around") and hops < 2 else less
        remedy = f"take a part with {less}--kind KIND or --limit NUMBER"
        raise ValidationError("graph", None, error.problem, remedy) from None
    options.show(report, lambda: _print_exported(report, file))


def _describe_copy(report: BackupReport) -> str:
    return f"{counted(report.nodes, 'node')} ({counted(report.bytes, 'byte')})"


def _print_exported(report: ExportReport, file: str) -> None:
    if report.format in ("graphml", "mermaid", "neo4j"):
        edges = counted(report.edges, "edge")
        click.echo(f"{counted(report.nodes, 'node')} and {edges} written to {file}")
        if report.format == "neo4j":
            click.echo("then, in that folder: neo4j-admin database import full neo4j @import.args")
            if (Path(file) / "after.cypher").exists():
                click.echo("and once the server runs: cypher-shell --file after.cypher")
        return
    click.echo(f"{counted(report.episodes, 'episode')} written to {file}")
    if report.abandoned:
        click.echo(f"{counted(report.abandoned, 'attempt')} without an outcome written to it")
    if report.levels:
        entries = counted(report.entries, "entry")
        click.echo(f"{counted(report.levels, 'level')} with {entries} written to it")
    if report.derived:
        click.echo(f"derived from them: {', '.join(report.derived)}")
    if report.kept:
        click.echo(f"as they were imported: {', '.join(report.kept)}")


@upkeep.command("import")
@click.argument("file", metavar="FILE")
@click.option(
    "--format",
    "format_name",
    type=click.Choice([BACKUP, *FILE_FORMATS]),
    default=BACKUP,
    show_default=True,
    help="backup: a folder of `upkeep export`, into a new memory; jsonl: graphmem's own JSON "
    "lines; sentinel: a Sentinel memory.",
)
@click.option(
    "--document",
    metavar="NAME",
    help="sentinel: what the file is known by [default: its name without endings].",
)
@click.pass_obj
def import_(options: Options, file: str, format_name: str, document: str | None) -> None:
    """Fill a new memory from a backup, or learn all episodes of FILE, or none if it is damaged.

    \b
    Examples:
      graphmem --url ./restored.graph upkeep import ./backups/monday
      graphmem --url ./runs.graph upkeep import --format sentinel agent_memory.json
    """
    upkeep = options.memory(must_exist=False).upkeep
    if format_name == BACKUP:
        if document is not None:
            raise click.UsageError("--document goes with --format sentinel")
        copy = upkeep.restore(file)
        options.show(copy, f"{_describe_copy(copy)} restored to {cell(copy.path)}")
        return
    report = upkeep.import_(file, cast("FileFormat", format_name), document=document)
    options.show(report, lambda: _print_imported(report))
    if report.refused:
        sys.exit(1)


def _print_imported(report: ImportReport) -> None:
    click.echo(f"{counted(report.created, 'episode')} learned, {report.skipped:,} known already")
    if report.abandoned:
        click.echo(f"{counted(report.abandoned, 'attempt')} without an outcome stored")
    if report.levels or report.entries:
        entries = counted(report.entries, "entry")
        click.echo(f"{counted(report.levels, 'level')} made, {entries} stored")
    if report.kept:
        click.echo(f"kept as they are, not learned: {', '.join(report.kept)}")
    if report.refused:
        click.echo(f"{len(report.refused):,} refused")
        print_rows(report.refused[:20], "source_key field reason")
