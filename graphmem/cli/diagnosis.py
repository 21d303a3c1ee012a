"""The checks of `graphmem doctor`."""

from __future__ import annotations

import importlib.metadata
import platform
import re

from pydantic import BaseModel, ConfigDict

from graphmem import __version__
from graphmem.cli.options import Options
from graphmem.errors import GraphMemError
from graphmem.memory import Memory
from graphmem.printable import counted
from graphmem.store import SCHEMA_VERSION
from graphmem.store.queries import catalog, schema_of

_CREATED = re.compile(r"(\w+) IF NOT EXISTS")
"""Matches a statement that creates a constraint or an index, and its name."""


class Finding(BaseModel):
    """One check: its result, and a remedy if it failed."""

    model_config = ConfigDict(frozen=True)

    check: str
    ok: bool
    found: str
    remedy: str = ""


def examine(options: Options) -> list[Finding]:
    """Check the installation, then the memory in the options."""
    versions = " ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("kglite", "neo4j", "pydantic")
    )
    findings = [
        Finding(
            check="graphmem",
            ok=True,
            found=f"{__version__} on Python {platform.python_version()}; {versions}",
        ),
        Finding(check="procedures", ok=True, found=f"{len(list(catalog()))} in {catalog().folder}"),
    ]
    try:
        memory = options.memory(must_exist=False)
        return findings + _memory(memory)
    except GraphMemError as error:
        failed = Finding(check="memory", ok=False, found=str(error), remedy=_remedy(error))
        return [*findings, failed]


def _memory(memory: Memory) -> list[Finding]:
    store = memory.store
    if not store.exists():
        return [
            Finding(
                check="memory",
                ok=False,
                found=f"nothing at {store.url}",
                remedy="graphmem init, or graphmem seed LOG",
            )
        ]
    version = memory.query("schema.version")
    stored = version[0]["version"] if version else 0
    schema = schema_of(store.capabilities.engine)
    expected = {made[1] for query in schema if (made := _CREATED.search(query.text))}
    present = {row["name"] for row in memory.query("schema.indexes") if row["state"] == "ONLINE"}
    missing = sorted(expected - present)
    spaces = memory.query("maintenance.namespaces")
    listed = ", ".join(
        f"{row['namespace']} ({counted(row['episodes'], 'episode')})" for row in spaces
    )
    capabilities = store.capabilities
    return [
        Finding(
            check="engine",
            ok=True,
            found=f"{capabilities.engine} {capabilities.version} at {store.url}",
        ),
        Finding(
            check="schema",
            ok=stored == SCHEMA_VERSION,
            found=f"version {stored}, this graphmem writes {SCHEMA_VERSION}",
            remedy="" if stored == SCHEMA_VERSION else "graphmem init",
        ),
        Finding(
            check="indexes",
            ok=not missing,
            found=f"{len(expected) - len(missing)} of {len(expected)} online"
            + (f"; missing: {', '.join(missing)}" if missing else ""),
            remedy="graphmem init" if missing else "",
        ),
        Finding(check="namespaces", ok=True, found=listed or "none yet"),
    ]


def _remedy(error: GraphMemError) -> str:
    return error.remedy or ("try again" if error.retryable else "see the message")
