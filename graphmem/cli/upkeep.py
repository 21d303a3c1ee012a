"""The commands of memory.upkeep: check, repair, remove, export, import."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from graphmem.cli.options import Group, Options, as_agent, example, moment, several, with_yes
from graphmem.cli.printing import print_answer, progress
from graphmem.kinds import EXPORT_FORMATS, FILE_FORMATS, NODE_KINDS, ExportFormat, FileFormat
from graphmem.printable import counted, listed

if TYPE_CHECKING:
    from graphmem.models.reports import VerifyReport

BACKUP = "backup"


@click.group(cls=Group)
def upkeep() -> None:
    """Check and repair derived data, remove episodes, export and import."""


@upkeep.command()
@example("--url ./airline.graph upkeep verify")
def verify(options: Options) -> None:
    """Derive every number from the facts again, and compare. It exits with 1 on a difference."""
    with progress("verifying", options) as advance:
        report = options.memory().verify(on_progress=advance)
    counts = listed(report.checked) or "there are none"
    good = f"all numbers follow from the facts ({counts})"
    options.show(report, good if report.ok else _print_differences)
    if not report.ok:
        sys.exit(1)


def _print_differences(report: VerifyReport) -> None:
    count = len(report.differences) + report.more
    click.echo(f"{counted(count, 'difference')}; `graphmem upkeep rebuild` derives all anew")
    print_answer(report)


@upkeep.command()
@example("--url ./airline.graph upkeep rebuild")
def rebuild(options: Options) -> None:
    """Derive every number anew, with the settings in force now."""
    with progress("rebuilding", options) as advance:
        report = options.memory().upkeep.rebuild(on_progress=advance)
    options.show(report)


@upkeep.command()
@example("--url ./airline.graph upkeep erase 8005dd1d95cda4a638a0a9011c2bd1d5 --yes")
@example("--url ./airline.graph upkeep erase --user ann")
@example("--url ./airline.graph upkeep erase --source team-playbook --yes")
@click.argument("episode_ids", nargs=-1, metavar="[EPISODE]...")
@click.option("--agent", help="Everything of this agent instead.")
@click.option("--user", help="Everything of this user instead.")
@click.option("--source", help="What imported skills of this source say instead.")
@with_yes
def erase(options: Options, /, episode_ids: tuple[str, ...], yes: bool, **whose: Any) -> None:
    """Remove EPISODEs, or all of an agent, a user or a source, and all their traces.

    Every number loses its exact share. EPISODE is an id.
    """
    named = {kind: name for kind, name in whose.items() if name is not None}
    if len(named) + bool(episode_ids) != 1:
        raise click.UsageError(
            "give the ids of EPISODEs, --source NAME, --agent NAME or --user NAME"
        )
    what = counted(len(episode_ids), "episode")
    for kind, name in named.items():
        what = f"all of {kind} {name!r}"
    options.confirm(lambda: f"Erase {what} for good?", yes=yes)
    upkeep = options.memory().upkeep
    if episode_ids:
        reports = [upkeep.erase(one, compact=one == episode_ids[-1]) for one in episode_ids]
    else:
        reports = [upkeep.erase(**named)]
    options.show(reports, lambda _: [*map(print_answer, reports)])


@upkeep.command()
@example("--url ./airline.graph upkeep forget --older-than 30 --dry-run")
@example("--url ./airline.graph upkeep forget --older-than 90 --below-confidence 0.3 --yes")
@click.option("--older-than", type=float, metavar="DAYS", help="Episodes that ended so long ago.")
@click.option("--below-confidence", type=float, help="Episodes whose strategies all have less.")
@click.option("--agent", help="Only episodes of this agent.")
@click.option("--any", is_flag=True, help="Age or confidence is enough [both].")
@click.option("--dry-run", is_flag=True, help="Say what it would erase; change nothing.")
@with_yes
def forget(options: Options, /, dry_run: bool, yes: bool, **which: Any) -> None:
    """Erase episodes that are old, or of weak strategies, or both.

    Give --older-than, --below-confidence, or both. An episode must meet all that you give, or with
    --any one of them. Without both: what the setting keep (GRAPHMEM_KEEP) does not keep.
    """
    upkeep = options.memory().upkeep

    def ask() -> str:
        count = upkeep.forget(**which, dry_run=True).episodes
        return f"Forget {counted(count, 'episode')} for good?"

    options.confirm(ask, yes=yes or dry_run)
    options.show(upkeep.forget(**which, dry_run=dry_run))


@upkeep.command()
@example("--url ./airline.graph upkeep relink")
@example("--url ./airline.graph upkeep relink --embedder hashing")
@click.option(
    "--embedder", metavar="NAME", help="Embed anew with this one of `graphmem doctor embedders`."
)
def relink(options: Options, embedder: str | None) -> None:
    """Embed texts without vectors, and link similar ones anew.

    The next recall embeds new texts by itself. This command does it earlier, repairs damaged
    vectors, and can change the embedder.
    """
    with progress("embedding and linking", options) as advance:
        report = options.memory().upkeep.relink(embedder, on_progress=advance)
    options.show(report)


@upkeep.command()
@example("--url ./ops.graph upkeep maintain")
@example("--url ./ops.graph upkeep maintain agent:ada:working --at 2026-11-22T18:00:00Z")
@click.argument("name", required=False)
@moment("--at", "The instant [now]")
@as_agent
def maintain(options: Options, /, name: str | None, **which: Any) -> None:
    """Maintain all levels, those of an agent, or the level NAME.

    It removes what expired or is hardly relevant, merges entries that say the same, keeps levels to
    their capacity, and embeds texts without vectors. A repeated call for the same instant changes
    nothing.
    """
    memory = options.memory()
    report = memory.levels.maintain(name, **which)
    options.show(report, print_answer if report.levels else "nothing was to do")


@upkeep.command()
@example("--url ./runs.graph upkeep export ./backups/monday")
@example("--url ./runs.graph upkeep export --format jsonl runs.jsonl")
@example("--url ./runs.graph upkeep export --format neo4j tables")
@example("--url ./runs.graph upkeep export --format graphml --kind strategy ways.graphml")
@click.argument("file", metavar="FILE")
@click.option(
    "--format",
    "format_name",
    type=click.Choice([BACKUP, *EXPORT_FORMATS]),
    default=BACKUP,
    help="backup: the whole memory as a new folder, which every command can read; jsonl: "
    "graphmem's own JSON lines; sentinel: a Sentinel memory; graphml: the graph, for programs such "
    "as Gephi; neo4j: a folder of tables for neo4j-admin.",
)
@click.option("--document", metavar="NAME", help="sentinel: only the imported file of this name.")
@several("--kind", "kinds", type=click.Choice(NODE_KINDS), help="graphml: only such.")
@click.option("--limit", type=click.IntRange(1), help="graphml: most nodes.")
def export(options: Options, /, file: str, format_name: str, **which: Any) -> None:
    """Write the memory to FILE. Others may write meanwhile.

    It replaces FILE, but not the folder of a backup.
    """
    if file == "-":
        raise click.UsageError("FILE cannot be standard output; give the name of a file")
    given = {name: value for name, value in which.items() if value}
    upkeep = options.memory().upkeep
    if format_name == BACKUP:
        if given:
            raise click.UsageError(f"a backup is of the whole memory: leave out --{min(given)}")
        options.show(upkeep.backup(file))
        return
    options.show(upkeep.export(file, cast("ExportFormat", format_name), **given))
    if format_name == "neo4j" and not options.as_json:
        click.echo("then, in that folder: neo4j-admin database import full neo4j @import.args")
        if (Path(file) / "after.cypher").exists():
            click.echo("and once the server runs: cypher-shell --file after.cypher")


@upkeep.command("import")
@example("--url ./restored.graph upkeep import ./backups/monday")
@example("--url ./runs.graph upkeep import --format sentinel agent_memory.json")
@click.argument("file", metavar="FILE")
@click.option(
    "--format",
    "format_name",
    type=click.Choice([BACKUP, *FILE_FORMATS]),
    default=BACKUP,
    help="backup: a folder of `upkeep export`, into a new memory; jsonl: graphmem's own JSON "
    "lines; sentinel: a Sentinel memory.",
)
@click.option("--document", metavar="NAME", help="sentinel: its name [the file's without endings].")
def import_(options: Options, file: str, format_name: str, document: str | None) -> None:
    """Fill a new memory from a backup, or learn all episodes of FILE, or none if it is damaged."""
    upkeep = options.memory(must_exist=False).upkeep
    if format_name == BACKUP:
        if document is not None:
            raise click.UsageError("--document goes with --format sentinel")
        options.show(upkeep.restore(file))
        return
    report = upkeep.import_(file, cast("FileFormat", format_name), document=document)
    options.show(report)
    if report.refused:
        sys.exit(1)
