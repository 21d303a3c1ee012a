"""The store port: what graphmem needs of an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from graphmem.errors import StoreError
from graphmem.store.queries import Query

SCHEMA_VERSION = 4
"""Version of the graph that this library writes."""

TEXTS = {"Strategy": "strategies", "Task": "tasks"}
"""Labels of nodes with a text that is searched, and how procedures name them."""

Row = dict[str, Any]
T = TypeVar("T")

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]


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
        no other effects. The first call, as that of ``write``, applies the schema.
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

    def index(self, namespace: str) -> SearchIndex:
        """Return what strategies and tasks of a namespace are searched by."""
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


class SearchIndex(Protocol):
    """Vectors and words of the strategies and tasks of one namespace, to search them by.

    Labels are ``Strategy`` and ``Task``. Similarities are cosines, in [-1, 1]. What is in the
    graph and what is here can differ while texts are pending; answers may name nodes that are
    gone.
    """

    def open(self, embedder: str, dimensions: int) -> None:
        """Make ready for vectors of an embedder; those of another are not seen."""
        ...

    def held(self, label: str, texts: Mapping[str, str]) -> set[str]:
        """Return the ids of nodes whose text, as given, has a vector."""
        ...

    def put(self, label: str, texts: Mapping[str, str], vectors: Mapping[str, Vector]) -> None:
        """Let nodes be found by their texts (by id), and by the vectors of the texts.

        ``vectors`` holds those, by text, that were not held.
        """
        ...

    def near(
        self, label: str, vector: Vector, limit: int, at_least: float = -1.0
    ) -> list[tuple[str, float]]:
        """Return ids and similarities of the nearest nodes, the nearest first, then by id.

        Similarities have six places; none is under ``at_least``. A server may miss some.
        """
        ...

    def matching(self, label: str, words: Sequence[str], limit: int) -> list[tuple[str, float]]:
        """Return ids and scores (BM25) of nodes with any of the words, the best first."""
        ...

    def count(self, label: str) -> int:
        """Return how many nodes there are, with a vector or without."""
        ...

    def vectors(self, label: str, ids: Sequence[str]) -> dict[str, Vector]:
        """Return the vectors of nodes; those without one are left out."""
        ...

    def matrix(self, label: str, ids: Sequence[str]) -> tuple[list[str], Vector]:
        """Return those of the nodes that have a vector, and their vectors as rows."""
        ...

    def tidy(self) -> None:
        """Let go of the texts and vectors of nodes that are gone, on disk as well."""
        ...
