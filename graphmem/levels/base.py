"""What every part of the levels works with: levels by name, who may read them, their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from graphmem.errors import NotFoundError, ScopeError, ValidationError
from graphmem.graph.access import View, read_view
from graphmem.graph.graph import Graph, Reader, Transaction
from graphmem.ids import from_millis, level_id
from graphmem.models.levels import Level, LevelName
from graphmem.store.port import Near, Question, Row


class Search(Protocol):
    """What searches entries by meaning."""

    def nearest(
        self, text: str, asked: Question, levels: Mapping[str, str], limit: int
    ) -> list[Row]:
        """Return the entries of levels (streams by ids) that fit, the nearest first."""
        ...

    def ranked(self, label: str, text: str) -> Iterator[Near]:
        """Yield tasks, strategies or knowledge, the nearest first; equally near ones together."""
        ...

    def embed(self, levels: Mapping[str, str]) -> int:
        """Embed the entries of levels that have no vector; return how many."""
        ...

    def twins(
        self, level: str, stream: str, compared: tuple[int, str], near: float
    ) -> tuple[list[Row], tuple[int, str]]:
        """Return pairs of near entries {id, seq, twin, twin_seq}, and what was compared."""
        ...

    def floor(self, texts: int) -> float:
        """Return the similarity from which the nearest of so many entries is relevant."""
        ...

    def tidy(self) -> None:
        """Remove the words of removed entries for good."""
        ...


class Base:
    """Finds the levels of one namespace."""

    def __init__(self, graph: Graph, search: Search) -> None:
        self._graph = graph
        self._search = search

    def _find(
        self, reader: Reader, names: Iterable[LevelName], view: View, field: str = "name"
    ) -> list[Row]:
        """Return existing levels that may be read: rows of ``levels.get``, in order of name.

        Raises:
            NotFoundError: a level is not there, or was closed.
            ScopeError: a level belongs to an agent that does not share it with the reader.
        """
        wanted = {level_id(reader.ns, name.name): name for name in names}
        for name in wanted.values():
            check_readable(name, view, field)
        rows = reader.read("levels.get", ids=sorted(wanted)) if wanted else []
        for missing in sorted(wanted.keys() - {row["id"] for row in rows}):
            raise not_there(wanted[missing].name, reader.ns)
        return rows

    def _view(self, agent: str | None) -> View:
        return read_view(self._graph, agent)


def readable(name: LevelName, view: View) -> bool:
    """Return whether a reader may read a level: those of agents are private, or shared."""
    return name.owner_kind != "agent" or view.agents is None or name.owner in view.agents


def check_readable(name: LevelName, view: View, field: str, what: str = "level") -> None:
    """Check that a reader may read a level or lens.

    Raises:
        ScopeError: it may not.
    """
    if not readable(name, view):
        raise ScopeError(
            field,
            name.name,
            f"is a private {what} of agent {name.owner!r}, "
            f"which agent {view.reader!r} may not read",
            f"let {name.owner!r} share with {view.reader!r} (share_with), which inherits from it "
            "(inherit_from)",
        )


def check_writable(name: LevelName, agent: str | None, field: str, what: str = "level") -> None:
    """Check that an agent may write a level or lens; None is an administrator.

    Raises:
        ScopeError: it belongs to another agent.
    """
    if name.owner_kind == "agent" and agent not in (None, name.owner):
        raise ScopeError(
            field,
            name.name,
            f"is a private {what} of agent {name.owner!r}, which agent {agent!r} may not write",
            f"add it to a level of {agent!r}, from which {name.owner!r} may pull"
            if what == "level"
            else f"put a {what} of {agent!r}",
        )


def check_own(row: Row, field: str = "name") -> None:
    """Check that a level has entries of its own.

    Raises:
        ValidationError: it is a view.
    """
    if row["holds"] != "entries":
        raise ValidationError(
            field,
            row["name"],
            f"shows the {row['holds']} of its owner, and takes no entries",
            "learn, know or pull instead",
        )


def not_there(name: str, namespace: str) -> NotFoundError:
    """Return the error for a level that is not there."""
    return NotFoundError(
        f"no level {name!r} in namespace {namespace!r}: it was never put, or it was closed; "
        "levels.put makes one, and levels.names() lists them"
    )


def blind(tx: Transaction, identity: str, name: str) -> None:
    """Take a level, whose stream is locked, out of the lenses; remove lenses on nothing else."""
    ids = [row["id"] for row in tx.run("lenses.on", id=identity)]
    if ids:
        left = tx.run("lenses.forget", ids=ids, level=name)
        if gone := [row["id"] for row in left if not row["levels"]]:
            tx.run("lenses.drop", ids=gone)


def seconds(millis: int | None) -> float | None:
    """Return milliseconds as seconds."""
    return None if millis is None else millis / 1_000


def level_fields(row: Row) -> Row:
    """Return the fields of a :class:`Level` from a row of ``levels.get``."""
    wanted = {name: row[name] for name in Level.model_fields}
    return wanted | {"ttl": seconds(row["ttl"]), "created_at": from_millis(row["created_at"])}
