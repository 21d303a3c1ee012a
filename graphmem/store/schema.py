"""The versioned schema: constraints and indexes from ``cypher/schema.cypher``."""

from __future__ import annotations

import time
from collections.abc import Callable

from graphmem.errors import SchemaVersionError
from graphmem.ids import tally_id
from graphmem.store.paging import pages
from graphmem.store.port import SCHEMA_VERSION, Row
from graphmem.store.queries import procedure, schema_of

Run = Callable[..., list[Row]]
PAGE = 1_000
"""Rows of one statement."""


def check(read: Run) -> int:
    """Return the schema version of the store (0: none yet)."""
    rows = read(procedure("schema.version"))
    version = int(rows[0]["version"]) if rows else 0
    if version > SCHEMA_VERSION:
        raise SchemaVersionError(
            f"the memory has schema version {version}, this graphmem knows {SCHEMA_VERSION}; "
            "upgrade graphmem (pip install -U graphmem)"
        )
    return version


def apply(engine: str, read: Run, execute: Run, *, repair: bool = False) -> int:
    """Bring the store to the present version and return it; a repeated call changes nothing."""
    version = check(read)
    if version == SCHEMA_VERSION and not repair:
        return version
    for query in schema_of(engine):
        execute(query)
    if outdated(version):
        upgrade(read, execute)
    now = int(time.time() * 1000)
    rows = execute(procedure("schema.stamp"), version=SCHEMA_VERSION, now=now)
    return int(rows[0]["version"])


def outdated(version: int) -> bool:
    """Return whether a store has to be brought to the present version before it is read."""
    return 0 < version < SCHEMA_VERSION


def upgrade(read: Run, execute: Run) -> None:
    """Derive the counts that older versions did not keep; a repeated call changes nothing."""
    execute(procedure("schema.count_successes"))
    rows = read(procedure("schema.uses"))
    for page in pages(rows, PAGE):
        named = [{**row, "id": tally_id(row["ns"], row["agent"], row["type"])} for row in page]
        execute(procedure("schema.tally"), rows=named)
    execute(procedure("schema.weigh_heuristics"))
    execute(procedure("schema.weigh_anti_patterns"))
