"""The command doctor: what is installed and set, and whether a memory is in order."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from graphmem import __version__
from graphmem.cli.options import Command, Options, example
from graphmem.cli.printing import CELL, cell, print_json
from graphmem.errors import GraphMemError
from graphmem.printable import counted

if TYPE_CHECKING:
    from graphmem.config import Settings
    from graphmem.memory import Memory
    from graphmem.models.reports import LossReport

_CREATED = re.compile(r"(\w+) IF NOT EXISTS")
"""Matches a statement that creates a constraint or an index, and its name."""


def _check(name: str, ok: bool, found: str, remedy: str = "") -> dict[str, Any]:
    """Return one check: its result, and a remedy if it failed."""
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
        _SECTIONS[what](options)
    elif accept_loss:
        loss = options.memory().upkeep.accept_loss()
        options.show(loss, _print_loss)
    else:
        checks = [*_check_installation(), *_check_memory(options)]
        results = {True: "ok", False: "WRONG"}
        columns = "check =result found remedy"
        options.show_rows(checks, columns, "", CELL, result=lambda one: results[one["ok"]])
        if not all(one["ok"] for one in checks):
            sys.exit(1)


def _check_installation() -> Iterator[dict[str, Any]]:
    from importlib.metadata import version
    from platform import python_version

    from graphmem.store.queries import catalog

    versions = " ".join(f"{name} {version(name)}" for name in ("kglite", "neo4j", "pydantic"))
    yield _check("graphmem", True, f"{__version__} on Python {python_version()}; {versions}")
    yield _check("procedures", True, f"{len(list(catalog()))} in {catalog().folder}")


def _check_memory(options: Options) -> Iterator[dict[str, Any]]:
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


def _show_settings(options: Options) -> None:
    rows = list(_settings(options, options.settings()))
    options.show_rows(
        rows,
        "setting value from what",
        "",
        CELL,
        value=lambda row: None if row["value"] is None else str(row["value"]),
    )


def _settings(options: Options, settings: Settings) -> Iterator[dict[str, Any]]:
    from graphmem.config import SECRETS, URLS, default_folder, from_environment, settings_file
    from graphmem.printable import without_password

    kept = _settings_of_memory(options, settings)
    for name, field in type(settings).model_fields.items():
        value, source = getattr(settings, name), "default"
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
        if value is not None and name in URLS:
            value = without_password(value)
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


def _show_formats(options: Options) -> None:
    from graphmem.seeding import formats

    rows = [{"name": item.name, "doc": item.doc} for item in formats().values()]
    options.show_rows(rows, "format=name what=doc", "", CELL)


def _show_embedders(options: Options) -> None:
    from graphmem.search.embedding import embedders

    memory = options.memory(must_exist=False)
    built = memory.upkeep.embedded_with() if memory.store.exists() else None
    rows = [
        row.model_copy(update={"of_memory": row.name == built})
        for row in embedders(options.settings().embedder)
    ]
    columns = "embedder=name dimensions what in_force of_the_memory=of_memory missing"
    options.show_rows(rows, columns)


def _show_schema(_: Options) -> None:
    from graphmem.seeding import jsonl

    print_json(jsonl.schema())


_SECTIONS: dict[str, Callable[[Options], None]] = {
    "settings": _show_settings,
    "formats": _show_formats,
    "embedders": _show_embedders,
    "schema": _show_schema,
}
