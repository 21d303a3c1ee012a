"""The store port: the interface that graphmem needs from an engine."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from graphmem.errors import ForkedError, QueryError, StoreError
from graphmem.models.reports import LossReport
from graphmem.notebook import Listed
from graphmem.store.queries import Query

SCHEMA_VERSION = 10  # schema version that this library writes

TEXTS = {"Strategy": "strategies", "Task": "tasks"}
"""Labels of nodes with searchable texts, and their names in procedures."""

CLOSED = "the memory is closed; open it again with Memory.open"
"""The message for a use after closing."""

_GRACE = 2.0  # seconds after which nobody waits any more for an engine that does not end a query

Row = dict[str, Any]
Near = list[tuple[str, float]]  # ids and similarities of nodes, the best first
Run = Callable[..., list[Row]]  # runs a procedure
Fits = Callable[[list[Row]], bool]  # says whether the rows of a statement are as they should be
Levels = Mapping[str, str]  # levels as the ids of their streams, by their own ids
T = TypeVar("T")

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vector: TypeAlias = "NDArray[np.float32]"
Cosines: TypeAlias = "NDArray[np.float64]"


class Rows(Listed[Row]):
    """The rows of an answer as a list; ``truncated`` says whether there were more."""

    def __init__(self, rows: Iterable[Row] = (), *, truncated: bool = False) -> None:
        super().__init__(rows)
        self.truncated = truncated


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a user's query."""

    seconds: float
    rows: int

    def too_long(self) -> QueryError:
        """Return the error for a query that ran out of time."""
        return QueryError(
            f"the query ran longer than {self.seconds:g} s and was stopped; narrow it, or raise "
            "the setting query_seconds (GRAPHMEM_QUERY_SECONDS)"
        )

    def hear(self, work: Callable[[], Rows]) -> Rows:
        """Run a query in a thread, which goes on until the engine answers; wait for its time."""
        answer: Future[Rows] = Future()

        def run() -> None:
            try:
                answer.set_result(work())
            except BaseException as error:  # noqa: BLE001 - raised by who waits
                answer.set_exception(error)

        threading.Thread(target=run, name="graphmem-query", daemon=True).start()
        if not wait([answer], self.seconds + _GRACE).done:
            raise self.too_long()
        return answer.result()


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Features of an engine beyond running Cypher."""

    engine: str
    version: str
    server: bool
    """Several processes may write at once, and Cypher users can connect."""


given_up: ContextVar[Event | None] = ContextVar("given_up", default=None)
"""Set when nobody waits for the answer of a call any more."""


def check_wanted() -> None:
    """Raise a StoreError if nobody waits for the answer of this call any more."""
    event = given_up.get()
    if event is not None and event.is_set():
        raise StoreError("the call was cancelled while it waited to write")


def check_process(url: str, opened_by: int) -> None:
    """Raise a ForkedError for a store that a child process got from its parent."""
    if opened_by != os.getpid():
        raise ForkedError(
            f"the memory {url} was opened in process {opened_by}, this is its child {os.getpid()}; "
            "open it in the child with Memory.open"
        )


class ChangedError(StoreError):
    """Another writer changed data that this transaction read; a retry can succeed."""

    retryable = True


class Transaction(Protocol):
    """Reads and writes that take effect together or not at all."""

    def run(self, query: Query, /, **params: Any) -> list[Row]:
        """Run one statement and return its rows."""

    def finish(self, query: Query, /, **params: Any) -> list[Row]:
        """Run the last statement of the transaction, which can be cheaper; none may follow."""


class Store(Protocol):
    """An engine that stores the graph; the answers given here are those of one without files."""

    url: str
    """Its url or folder, without credentials."""
    capabilities: Capabilities

    @property
    def snapshot_age(self) -> float | None:
        """Seconds since the snapshot was taken, if another process may write; else None."""
        return None

    @property
    def writing(self) -> bool:
        """Whether a write takes no lock now that would keep other processes from writing."""

    def try_writing(self) -> bool:
        """Take that lock if it is free, without waiting; return whether this process has it."""
        return self.writing

    def exists(self) -> bool:
        """Return whether there is a memory."""
        return True

    def read(self, query: Query, /, **params: Any) -> list[Row]:
        """Run a reading statement; one that writes raises ReadOnlyError."""

    def ask(self, query: Query, limits: Limits, /, **params: Any) -> Rows:
        """Run a user's query (:func:`~graphmem.store.queries.readable`), within limits.

        Raises:
            QueryError: it took too long, could not be stopped, or the engine refused it.
        """

    def write(self, query: Query, /, **params: Any) -> list[Row]:
        """Run one statement in a transaction of its own and return its rows."""

    def attempt(self, query: Query, fits: Fits, /, **params: Any) -> list[Row]:
        """Run one statement in a transaction of its own; undo it if its rows do not fit.

        It must write nothing if it returns nothing. The result has no rows if nothing was written:
        it found none, they do not fit, or another writer was quicker.
        """

    def transact(self, work: Callable[[Transaction], T], *, brief: bool = False) -> T:
        """Run ``work`` in one transaction and return its answer.

        ``brief``: it is little work; if it takes long, it waits for others, and a server ends it.

        An exception rolls everything back. ``work`` is run again after a transient error (a
        deadlock, a change of leader) or a ChangedError, so it must have no other effects. The first
        call of this or of ``write`` applies the schema.
        """

    def alone(self) -> AbstractContextManager[object]:
        """Keep others from writing files beside the graph meanwhile, if there are such files."""
        return nullcontext()

    def view(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work``, which only reads, on one consistent state if the engine supports that.

        A server does not: there ``work`` runs in a writing transaction and must lock what it reads.
        """

    def apply_schema(self, *, repair: bool = False) -> int:
        """Create missing constraints and indexes; return the schema version.

        A store of the present version is only checked with ``repair``.
        """

    def compact(self) -> bool:
        """Rewrite files without removed data; return whether nothing of it is left on disk."""
        return False

    def readers(self) -> tuple[str, ...]:
        """Return the other processes that still have a snapshot, which may hold removed data."""
        return ()

    def backup(self, folder: Path) -> tuple[int, int]:
        """Write all namespaces to a new folder, beside any writer; return its bytes and nodes."""

    def restore(self, folder: Path) -> tuple[int, int]:
        """Fill this empty store from a backup; return bytes and nodes."""

    def accept_loss(self) -> LossReport:
        """Go on with the present files; return what they lack."""
        return LossReport()

    def index(self, namespace: str) -> SearchIndex:
        """Return the search index of a namespace's strategies and tasks."""

    def entries(self, namespace: str) -> EntryIndex:
        """Return the search index of the entries of a namespace's levels."""

    def close(self) -> None:
        """Release the engine. Reading and writing afterwards is an error."""


class Index(Protocol):
    """What both search indexes of a namespace have in common."""

    def open(self, embedder: str, dimensions: int) -> None:
        """Prepare for the vectors of an embedder; vectors of others are ignored."""

    def save(self) -> None:
        """Store vectors that were made without the lease, if this process has it now."""

    def tidy(self) -> None:
        """Drop the texts and vectors of removed nodes, on disk as well."""


class SearchIndex(Index, Protocol):
    """The search index of one namespace: vectors and words of its strategies and tasks.

    Similarities are cosines. While texts are pending, answers may name removed nodes.
    """

    def with_vectors(self, label: str, texts: Mapping[str, str]) -> set[str]:
        """Return the ids of nodes whose given text has a vector."""

    def lacking(self, label: str) -> list[str]:
        """Return the ids of nodes without a vector; a server leaves out those in the queue."""

    def put(self, label: str, texts: Mapping[str, str], vectors: Mapping[str, Vector]) -> None:
        """Index nodes by their texts (by id) and by the vectors of texts that have none yet."""

    def near(self, label: str, vector: Vector, limit: int, at_least: float = -1.0) -> Near:
        """Return ids and similarities of the nearest nodes, the nearest first, then by id.

        Similarities have six places and are at least ``at_least``. A server may miss some nodes.
        """

    def exactly(self, label: str, vector: Vector, limit: int) -> Near:
        """Return the same as :meth:`near`, and miss none."""

    def matching(self, label: str, words: Sequence[str], vector: Vector, limit: int) -> Near:
        """Return the nodes that match the words best (BM25), at most ``limit``, the best first.

        Similarities are as in :meth:`near`; that of a node without a vector is 0.
        """

    def cosines(self, label: str, ids: Sequence[str], others: Sequence[str]) -> Cosines:
        """Return the similarities, shape (ids, others), NaN if either has no vector."""

    def count(self, label: str) -> int:
        """Return the number of nodes, with a vector or without."""

    def matrix(self, label: str, ids: Sequence[str]) -> tuple[list[str], Vector]:
        """Return the nodes that have a vector, and their vectors as rows."""

    def known(self, text: str) -> Vector | None:
        """Return the vector of the text of a node if it is at hand, so that nobody makes it."""

    def same_tasks(self, text: str) -> list[str] | None:
        """Return the tasks with a text, or None: those nearest to it are found exactly."""


class EntryIndex(Index, Protocol):
    """The search index of the entries of one namespace's levels, and of its knowledge."""

    def lacking(self, levels: Levels | None) -> list[Row]:
        """Return what has no vector: entries of levels (rows {id, text, seq}), or facts {id, text}.

        Facts are meant where no levels are given.
        """

    def put(self, rows: Sequence[Row], vectors: Mapping[str, Vector]) -> None:
        """Store the vectors, by text, of rows of :meth:`lacking`: entries only, or facts only."""

    def nearest(self, vector: Vector, asked: Question, levels: Levels, limit: int) -> list[Row]:
        """Return the nearest entries that match a question, exactly, the nearest first.

        Rows have the columns of ``entries.matching``, and their similarity, rounded to six places.
        Equally near ones follow by relevance, then the latest, then by id.
        """

    def twins(self, level: str, stream: str, compared: int, near: float) -> list[Row]:
        """Return pairs of entries of a level (without keys) with at least a cosine of ``near``.

        The later one of each was stored after the number ``compared`` of the level's stream. Rows
        {id, seq, twin, twin_seq}, in order of the later one.
        """

    def near_facts(self, vector: Vector) -> Near:
        """Return all facts with a vector, the nearest first."""


@dataclass(frozen=True)
class Question:
    """Conditions on entries: the optional lines of ``entries.matching``, and their values."""

    options: tuple[str, ...]
    params: Mapping[str, Any]
    fits: Callable[[str], bool] | None = None
    """Whether a set of tags, as JSON, matches; None: all do."""
