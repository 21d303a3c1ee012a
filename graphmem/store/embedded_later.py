"""Statements that a reader leaves for who writes next: they lie in a file beside the graph.

A process that only asked would otherwise load the graph again, to write how often things were read,
and then write the whole graph file. Readers count in what lies there, each in its own snapshot. The
next writer takes it over. If it is killed in the instant after that, it is taken over again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kglite

from graphmem.errors import GraphMemError, StorageError, shown
from graphmem.store.embedded_errors import run
from graphmem.store.embedded_locks import open_locked
from graphmem.store.queries import Query, procedure

LATER = "graph.kgl-later"

_log = logging.getLogger(__name__)


def leave(folder: Path, query: Query, params: dict[str, Any]) -> bool:
    """Leave a statement for who writes next; return False where that cannot be."""
    line = json.dumps({"procedure": query.name, "params": query.bind(params)})
    try:
        with open_locked(folder / LATER, "a+b") as file:
            if file is None:
                return False
            file.write(b"\n" + line.encode())  # a line that was cut off ends before it
    except OSError as error:
        _log.info("%s: %s", shown(str(folder / LATER)), error)
        return False
    return True


def take_over(folder: Path, session: kglite.Session, *, remove: bool) -> None:
    """Run what was left, on a snapshot of one's own, or with the lease and remove it."""
    try:
        if not (folder / LATER).exists():
            return
        with open_locked(folder / LATER, "rb") as file:
            for query, params in _statements(file.read() if file else b""):
                try:
                    run(session.execute, query, params)
                except StorageError:
                    raise
                except (GraphMemError, TypeError, OverflowError) as error:
                    _log.info("%s of %s is dropped: %s", query.name, shown(str(folder)), error)
            if remove:
                (folder / LATER).unlink()
    except (OSError, StorageError) as error:  # the next one tries again
        _log.info("%s: %s", shown(str(folder / LATER)), error)


def _statements(data: bytes) -> Iterator[tuple[Query, dict[str, Any]]]:
    for line in data.splitlines():
        try:
            left = json.loads(line)
            query = procedure(left["procedure"])
            query.bind(left["params"])
        except (ValueError, TypeError, LookupError, RecursionError, GraphMemError):
            continue  # it is empty, was cut off, is damaged, or of another version
        yield query, left["params"]
