"""The store port: what graphmem needs of an engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from graphmem.errors import StoreError
from graphmem.queries import Query

SCHEMA_VERSION = 3
"""Version of the graph that this library writes."""

Row = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine can do beyond running Cypher."""

    engine: str
    version: str
    server: bool
    """Several processes may write at once, and Cypher users can connect."""
    system: bool = False
    """It has a database ``system`` beside the graph; its store is an ``AdministeredStore``."""


class ChangedError(StoreError):
    """Another writer changed what this transaction built on; run from the start it can succeed."""

    retryable = True


class Transaction(Protocol):
    """Reads and writes that happen together or not at all."""

    def run(self, query: Query, /, **params: Any) -> list[Row]:
        """Run one statement and return its rows."""
        ...


class Store(Protocol):
    """An engine that holds the graph."""

    @property
    def url(self) -> str:
        """Where it is, without credentials."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """Engine, version and what it can do."""
        ...

    @property
    def snapshot_age(self) -> float | None:
        """Seconds since what is read was taken, where another process may write; else None."""
        ...

    @property
    def writing(self) -> bool:
        """Whether a write needs no lock that another process may hold."""
        ...

    def try_writing(self) -> bool:
        """Take that lock if nobody holds it, without waiting; return whether it is held."""
        ...

    def exists(self) -> bool:
        """Return whether there is a memory at all."""
        ...

    def read(self, query: Query, /, **params: Any) -> list[Row]:
        """Run a statement that only reads; one that writes raises ReadOnlyError."""
        ...

    def write(self, query: Query, /, **params: Any) -> list[Row]:
        """Run one statement in a transaction of its own and return its rows."""
        ...

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` in one transaction and return its answer.

        An exception rolls everything back. ``work`` is run again where the engine says that a
        retry can help (a deadlock, a change of leader) and after a ChangedError, so it must have
        no other effects.
        """
        ...

    def view(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work``, which only reads, on one consistent state where the engine has that.

        A server has not: there ``work`` runs in a writing transaction and must lock what it reads.
        """
        ...

    def apply_schema(self, *, repair: bool = False) -> int:
        """Create constraints and indexes where they are missing; return the schema version.

        A store that has the present version is left as it is, unless ``repair``.

        Raises:
            SchemaVersionError: the store was written by a newer library.
        """
        ...

    def compact(self) -> bool:
        """Write files without what was removed; return whether nothing of it is left on disk.

        A server keeps removed records in its store files until it uses their place again, and its
        transaction logs until it prunes them; there this does nothing and returns False.
        """
        ...

    def close(self) -> None:
        """Let go of the engine. Reading and writing afterwards is an error."""
        ...


class AdministeredStore(Store, Protocol):
    """A store on a server that is administered through a database of its own."""

    def administer(self, query: Query, /, **params: Any) -> list[Row]:
        """Run a statement in the database ``system``; it must do no harm when run again.

        Raises:
            AuthenticationError: the user has no right to do that.
        """
        ...
