"""What every part of the levels works with: levels by name, who may read them, their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from graphmem.errors import NotFoundError, ScopeError, ValidationError
from graphmem.graph.access import View, read_view
from graphmem.graph.graph import Graph, Reader, Transaction
from graphmem.ids import from_millis, level_id, level_stream_id
from graphmem.models.levels import Level, LevelName
from graphmem.store.port import Near, Question, Row


class Search(Protocol):
    """What searches entries by meaning."""

    def nearest(
        self, text: str, asked: Question, levels: Mapping[str, str], limit: int
    ) -> list[Row]:
        """Return the entries of levels (streams by ids) that fit, the nearest first."""

    def ranked(self, label: str, text: str) -> Iterator[Near]:
        """Yield tasks, strategies or knowledge, the nearest first; equally near ones together."""

    def embed(self, levels: Mapping[str, str]) -> int:
        """Embed the entries of levels that have no vector; return how many."""

    def twins(
        self, level: str, stream: str, compared: tuple[int, str], near: float
    ) -> tuple[list[Row], tuple[int, str]]:
        """Return pairs of near entries {id, seq, twin, twin_seq}, and what was compared."""

    def tidy(self) -> None:
        """Remove the words of removed entries for good."""


class Base:
    """Finds the levels of one namespace."""

    def __init__(self, graph: Graph, search: Search) -> None:
        self._graph = graph
        self._search = search

    def _find(
        self, reader: Reader, names: Iterable[LevelName], view: View, field: str = "name"
    ) -> list[Row]:
        """Return existing levels that may be read: rows of ``levels.list``, in order of name."""
        by_id = {level_id(reader.ns, name.name): name for name in names}
        for name in by_id.values():
            check_readable(name, view, field)
        rows = reader.read("levels.list", ids=sorted(by_id)) if by_id else []
        for missing in sorted(by_id.keys() - {row["id"] for row in rows}):
            raise _no_level(by_id[missing].name, reader.ns)
        return rows

    def _view(self, agent: str | None) -> View:
        return read_view(self._graph, agent)


def lock_levels(tx: Transaction, *names: str) -> list[Row]:
    """Lock levels, which must be there, against writers, in order; return their rows."""
    streams = sorted(level_stream_id(tx.ns, name) for name in names)
    tx.run("levels.lock", ids=streams)
    rows = tx.run("levels.list", ids=sorted(level_id(tx.ns, name) for name in names))
    for missing in sorted({*names} - {row["name"] for row in rows}):
        raise _no_level(missing, tx.ns)
    return rows


def is_readable(name: LevelName, view: View) -> bool:
    """Return whether a reader may read a level: those of agents are private, or shared."""
    return name.owner_kind != "agent" or view.agents is None or name.owner in view.agents


def check_readable(name: LevelName, view: View, field: str, kind: str = "level") -> None:
    """Check that a reader may read a level or lens."""
    if not is_readable(name, view):
        raise ScopeError(
            field,
            name.name,
            f"is a private {kind} of agent {name.owner!r}, "
            f"which agent {view.reader!r} may not read",
            f"let {name.owner!r} share with {view.reader!r} (share_with), which inherits from it "
            "(inherit_from)",
        )


def check_writable(
    name: LevelName, agent: str | None, field: str = "name", kind: str = "level"
) -> None:
    """Check that an agent may write a level or lens; None is an administrator."""
    if name.owner_kind == "agent" and agent not in (None, name.owner):
        raise ScopeError(
            field,
            name.name,
            f"is a private {kind} of agent {name.owner!r}, which agent {agent!r} may not write",
            f"use a {kind} of {agent!r}, or one for all",
        )


def check_takes_entries(row: Row, field: str = "name") -> None:
    """Check that a level (a row of ``levels.list``) has entries of its own."""
    if row["holds"] != "entries":
        raise ValidationError(
            field,
            row["name"],
            f"shows the {row['holds']} of its owner, and takes no entries",
            "learn, know or pull instead",
        )


def _no_level(name: str, namespace: str) -> NotFoundError:
    return NotFoundError(
        f"no level {name!r} in namespace {namespace!r}: it was never put, or it was closed; "
        "levels.put makes one, and levels.names() lists them"
    )


def to_seconds(millis: int | None) -> float | None:
    """Return milliseconds as seconds."""
    return None if millis is None else millis / 1_000


def to_duration(seconds: float | None) -> int | None:
    """Return seconds as milliseconds, at least one."""
    return None if seconds is None else max(1, round(seconds * 1_000))


def level_fields(row: Row) -> Row:
    """Return the fields of a :class:`Level` from a row of ``levels.list``."""
    fields = {name: row[name] for name in Level.model_fields}
    return fields | {"ttl": to_seconds(row["ttl"]), "created_at": from_millis(row["created_at"])}
