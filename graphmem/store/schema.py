"""The versioned schema: constraints and indexes from ``cypher/schema.cypher``."""

from __future__ import annotations

import time
from collections.abc import Callable

from graphmem.errors import SchemaVersionError
from graphmem.store.port import SCHEMA_VERSION, Row
from graphmem.store.queries import procedure, schema_of

Run = Callable[..., list[Row]]


def check(read: Run) -> int:
    """Return the schema version of the store (0: none yet).

    Raises:
        SchemaVersionError: it is newer than this library.
    """
    rows = read(procedure("schema.version"))
    version = int(rows[0]["version"]) if rows else 0
    if version > SCHEMA_VERSION:
        raise SchemaVersionError(
            f"the memory has schema version {version}, this graphmem knows {SCHEMA_VERSION}; "
            "upgrade graphmem (pip install -U graphmem)"
        )
    return version


def apply(engine: str, read: Run, execute: Run, *, repair: bool = False) -> int:
    """Bring the store to the present version and return it; a repeated call changes nothing.

    With ``repair``, constraints and indexes are checked even if the version is right.
    """
    version = check(read)
    if version == SCHEMA_VERSION and not repair:
        return version
    for query in schema_of(engine):
        execute(query)
    now = int(time.time() * 1000)
    rows = execute(procedure("schema.stamp"), version=SCHEMA_VERSION, now=now)
    return int(rows[0]["version"])
