"""The versioned schema: constraints and indexes from ``cypher/schema.cypher``."""

from __future__ import annotations

import time
from typing import Any

from graphmem.errors import SchemaVersionError
from graphmem.ids import tally_id
from graphmem.store.paging import BEYOND, pages
from graphmem.store.port import SCHEMA_VERSION, Run
from graphmem.store.queries import procedure, schema_of

PAGE = 1_000  # nodes of one statement
UPGRADED = {"agents": ("tallies",), "strategies": ("strategies", "outcomes")}
"""What older versions did not keep, by the nodes that it belongs to."""


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
    """Derive what older versions did not keep, and drop what this one does not; repeatable."""
    execute(procedure("schema.count_successes"))
    for namespace in read(procedure("maintenance.namespaces")):
        for label, kinds in UPGRADED.items():
            scope = {"ns": namespace["namespace"], "first": "", "beyond": BEYOND}
            found = read(procedure(f"maintenance.ids_{label}"), **scope)
            for page in pages([row["id"] for row in found], PAGE):
                for kind in kinds:
                    _derive(kind, {"ns": namespace["namespace"], "ids": page}, read, execute)
    execute(procedure("schema.weigh_heuristics"))
    execute(procedure("schema.weigh_anti_patterns"))
    execute(procedure("schema.drop_superseded"))


def _derive(kind: str, scope: dict[str, Any], read: Run, execute: Run) -> None:
    rows = read(procedure(f"maintenance.derive_{kind}").wanting(), **scope)
    if kind == "tallies":
        rows = [{**row, "id": tally_id(scope["ns"], row["agent"], row["type"])} for row in rows]
    if kind == "strategies":
        execute(procedure("maintenance.put_strategies"), rows=rows, ns=scope["ns"])
    else:
        execute(procedure(f"schema.put_{kind}"), rows=rows)
