"""Keep a memory in order: the commands of memory.upkeep, and doctor."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from graphmem import __version__
from graphmem.cli.main import Command, Group, Options, as_agent, example, moment, with_yes
from graphmem.cli.printing import print_answer, print_json, progress
from graphmem.errors import GraphMemError
from graphmem.kinds import EXPORT_FORMATS, FILE_FORMATS, ExportFormat, FileFormat
from graphmem.printable import counted, listed
from graphmem.text.cells import CELL, cell

if TYPE_CHECKING:
    from graphmem.config import Settings
    from graphmem.memory import Memory
    from graphmem.models.reports import LossReport, VerifyReport

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
@click.argument("file", metavar="FILE")
@click.option(
    "--format",
    "format_name",
    type=click.Choice([BACKUP, *EXPORT_FORMATS]),
    default=BACKUP,
    help="backup: the whole memory as a new folder, which every command can read; jsonl: "
    "graphmem's own JSON lines; sentinel: a Sentinel memory; neo4j: a folder of tables for "
    "neo4j-admin.",
)
@click.option("--document", metavar="NAME", help="sentinel: only the imported file of this name.")
def export(options: Options, file: str, format_name: str, document: str | None) -> None:
    """Write the memory to FILE. Others may write meanwhile.

    It replaces FILE, but not the folder of a backup.
    """
    if file == "-":
        raise click.UsageError("FILE cannot be standard output; give the name of a file")
    upkeep = options.memory().upkeep
    if format_name == BACKUP:
        if document is not None:
            raise click.UsageError("a backup is of the whole memory: leave out --document")
        options.show(upkeep.backup(file))
        return
    options.show(upkeep.export(file, cast("ExportFormat", format_name), document=document))
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


_CREATED = re.compile(r"(\w+) IF NOT EXISTS")
"""Matches a statement that creates a constraint or an index, and its name."""


def _check(name: str, ok: bool, found: str, remedy: str = "") -> dict[str, Any]:
    return {"check": name, "ok": ok, "found": found, "remedy": remedy}


@click.command(cls=Command)
@example("--url ./airline.graph doctor")
@example("doctor settings")
@example("--url ./airline.graph doctor --accept-loss")
@click.argument(
    "what", type=click.Choice(["settings", "formats", "embedders", "schema"]), required=False
)
@click.option("--accept-loss", is_flag=True, help="Go on without what is missing or damaged.")
def doctor(options: Options, what: str | None, accept_loss: bool) -> None:
    """Check versions, engine, files, schema and indexes; say what to repair.

    WHAT is settings (each value, and where it came from), formats (of logs that seed reads),
    embedders (which there are, and which is in force), or schema (of a line of a jsonl log).
    """
    if what is not None:
        if accept_loss:
            raise click.UsageError(f"--accept-loss does not go with {what}")
        _show_facts(options, what)
    elif accept_loss:
        loss = options.memory().upkeep.accept_loss()
        options.show(loss, _print_loss)
    else:
        checks = list(_checks(options))
        results = {True: "ok", False: "WRONG"}
        columns = "check =result found remedy"
        options.show_rows(checks, columns, "", CELL, result=lambda one: results[one["ok"]])
        if not all(one["ok"] for one in checks):
            sys.exit(1)


def _checks(options: Options) -> Iterator[dict[str, Any]]:
    from importlib.metadata import version
    from platform import python_version

    from graphmem.store.queries import catalog

    versions = " ".join(f"{name} {version(name)}" for name in ("kglite", "neo4j", "pydantic"))
    yield _check("graphmem", True, f"{__version__} on Python {python_version()}; {versions}")
    yield _check("procedures", True, f"{len(list(catalog()))} in {catalog().folder}")
    try:
        memory = options.memory(must_exist=False)
        if memory.store.exists():
            yield from _check_store(memory)
        else:
            remedy = "graphmem init, or graphmem seed LOG"
            yield _check("memory", False, f"nothing at {memory.store.url}", remedy)
    except GraphMemError as error:
        remedy = error.remedy or ("try again" if error.retryable else "see the message")
        yield _check("memory", False, str(error), remedy)


def _check_store(memory: Memory) -> Iterator[dict[str, Any]]:
    from graphmem.store.port import SCHEMA_VERSION
    from graphmem.store.queries import schema_of

    store, mend = memory.store, "graphmem init"
    engine = store.capabilities
    yield _check("engine", True, f"{engine.engine} {engine.version} at {store.url}")
    rows = memory.query("schema.version")
    found = f"version {rows[0]['version'] if rows else 0}"
    current = found == f"version {SCHEMA_VERSION}"
    found += f", this graphmem writes {SCHEMA_VERSION}"
    yield _check("schema", current, found, "" if current else mend)
    created = (_CREATED.search(query.text) for query in schema_of(engine.engine))
    expected = {match[1] for match in created if match}
    present = {row["name"] for row in memory.query("schema.indexes") if row["state"] == "ONLINE"}
    missing = sorted(expected - present)
    found = f"{len(expected) - len(missing)} of {len(expected)} online"
    found += f"; missing: {', '.join(missing)}" if missing else ""
    yield _check("indexes", not missing, found, mend if missing else "")
    spaces = ", ".join(
        f"{row['namespace']} ({counted(row['episodes'], 'episode')})"
        for row in memory.query("maintenance.namespaces")
    )
    yield _check("namespaces", True, spaces or "none yet")


def _print_loss(loss: LossReport) -> None:
    for problem in loss.problems:
        click.echo(f"accepted: {cell(problem)}")
    for path in loss.kept:
        click.echo(f"kept: {cell(path)}, until you remove it")
    next_ = "next: graphmem upkeep rebuild, then graphmem upkeep verify"
    click.echo(next_ if loss.problems else "nothing is missing")


def _show_facts(options: Options, what: str) -> None:
    from graphmem.search.embedding import embedders
    from graphmem.seeding import formats, jsonl

    if what == "schema":
        print_json(jsonl.schema())
    elif what == "formats":
        rows = [{"name": item.name, "doc": item.doc} for item in formats().values()]
        options.show_rows(rows, "format=name what=doc", "", CELL)
    elif what == "embedders":
        memory = options.memory(must_exist=False)
        built = memory.upkeep.embedded_with() if memory.store.exists() else None
        found = [
            row.model_copy(update={"of_memory": row.name == built})
            for row in embedders(options.settings().embedder)
        ]
        columns = "embedder=name dimensions what in_force of_the_memory=of_memory missing"
        options.show_rows(found, columns)
    else:
        values = list(_settings(options, options.settings()))
        options.show_rows(values, "setting value from what", "", CELL, value=_show_value)


def _show_value(row: Mapping[str, Any]) -> str | None:
    return None if row["value"] is None else str(row["value"])


def _settings(options: Options, settings: Settings) -> Iterator[dict[str, Any]]:
    from graphmem.config import SECRETS, default_folder, from_environment, settings_file

    kept = _settings_of_memory(options, settings)
    values = settings.model_dump(mode="json")  # without passwords of urls
    for name, field in type(settings).model_fields.items():
        value, source = values[name], "default"
        if getattr(options, name, None) is not None:
            source = f"--{name}"
        elif name in settings.model_fields_set:
            source = "environment" if from_environment(name) else str(settings_file())
            if kept.get(name) not in (None, value):
                source += f"; the memory keeps {kept[name]}"
        elif kept.get(name) is not None:
            value, source = kept[name], "the memory"
        elif name == "url":
            value = str(default_folder())
        if value is not None and name in SECRETS:
            value = "********"
        title = f"GRAPHMEM_{name.upper()}"
        yield {"setting": title, "value": value, "from": source, "what": field.description}


def _settings_of_memory(options: Options, settings: Settings) -> dict[str, Any]:
    """Return the settings that the memory in a folder keeps; none if it cannot be read."""
    from graphmem.ids import node_id
    from graphmem.store import SERVER_SCHEMES

    if (settings.url or "").partition(":")[0].lower() in SERVER_SCHEMES:
        return {}
    try:
        memory = options.memory()
        rows = memory.query("schema.namespace", id=node_id(memory.namespace, "Namespace"))
    except GraphMemError:
        return {}  # other commands say what is wrong with it
    return rows[0] if rows else {}
