"""Statements that a reader leaves for who writes next: they lie in a file beside the graph.

A process that only asked would otherwise load the graph again, to write how often things were read,
and then write the whole graph file. Readers count in what lies there, each in its own snapshot. The
next writer takes it over. If it is killed in the instant after that, it is taken over again.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import kglite

from graphmem.errors import GraphMemError, QueryError, shown
from graphmem.store.embedded_errors import run
from graphmem.store.embedded_locks import open_locked
from graphmem.store.queries import Query, procedure

LATER = "graph.kgl-later"

_log = logging.getLogger(__name__)

_WRONG = (QueryError, TypeError, OverflowError)
"""Raised for a statement that was left with values that nobody leaves: the file is damaged."""

Left = tuple[Query, dict[str, Any]]
"""A statement with its parameters."""


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


def count_in(folder: Path, session: kglite.Session) -> None:
    """Run what was left on a snapshot, which nobody else has."""
    with contextlib.suppress(OSError):
        if (folder / LATER).exists():
            with open_locked(folder / LATER, "rb") as file:
                statements = _left(file)
            for query, params in statements:
                with contextlib.suppress(GraphMemError, *_WRONG):
                    run(session.execute, query, params)


def take_over(folder: Path, session: kglite.Session) -> None:
    """Run what was left, in one transaction of who has the lease, and remove it."""
    try:
        if not (folder / LATER).exists():
            return
        with open_locked(folder / LATER, "rb") as file:
            statements = _left(file)
            try:
                if statements:
                    _run(session, statements)
            except _WRONG as error:  # and would be the next time
                _log.info("%s is dropped: %s", shown(str(folder / LATER)), error)
            (folder / LATER).unlink()
    except (OSError, kglite.KgError, GraphMemError) as error:  # the next one tries again
        _log.info("%s: %s", shown(str(folder / LATER)), error)


def _run(session: kglite.Session, statements: Iterable[Left]) -> None:
    transaction = session.begin()
    try:
        for query, params in statements:
            run(transaction.cypher, query, params)
        transaction.commit()
    except BaseException:
        if transaction.active:
            transaction.rollback()
        raise


def _left(file: BinaryIO | None) -> list[Left]:
    return list(_lines(file)) if file else []


def _lines(file: BinaryIO) -> Iterator[Left]:
    for line in file.read().splitlines():
        try:
            left = json.loads(line)
            query = procedure(left["procedure"])
            query.bind(left["params"])
        except (ValueError, TypeError, LookupError, RecursionError, GraphMemError):
            continue  # it is empty, was cut off, is damaged, or of another version
        yield query, left["params"]
