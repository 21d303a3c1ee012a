"""The Neo4j engine: a server, through the official driver."""

from __future__ import annotations

import contextlib
import logging
import math
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import unquote, urlsplit, urlunsplit

import neo4j
from neo4j import exceptions

from graphmem.config import Settings
from graphmem.errors import (
    AuthenticationError,
    GraphMemError,
    QueryError,
    ReadOnlyError,
    SettingsError,
    StorageError,
    StoreError,
    UnavailableError,
)
from graphmem.store import schema
from graphmem.store.port import Capabilities, ChangedError, Row, Transaction
from graphmem.store.queries import Query

if TYPE_CHECKING:
    from graphmem.store.neo4j_search import Neo4jIndex

T = TypeVar("T")

ENGINE = "neo4j"
SYSTEM = "system"
_ATTEMPTS = 5
"""Attempts to make at least, regardless of time."""
_CHANGED = {"DeadlockDetected", "EntityNotFound"}
"""Codes of errors that another writer causes, besides violated constraints. Deadlocks come here
after the driver's own retries."""


class _AlreadyThereError(StoreError):
    """Another process created the same constraint or index first."""


class _UnfitError(GraphMemError):
    """Ends an attempt of which nothing is to stay."""


class _Transaction:
    def __init__(self, inner: neo4j.ManagedTransaction) -> None:
        self._inner = inner

    def run(self, query: Query, /, **params: Any) -> list[Row]:
        return _run(self._inner, query, query.bind(params))

    finish = run


class Neo4jStore:
    """A graph on a Neo4j server, a cluster or Aura.

    Transactions are the driver's managed transactions: retried when the server reports a transient
    error, and chained by bookmarks, so that later reads see earlier writes.
    """

    def __init__(self, url: str, settings: Settings) -> None:
        parts = urlsplit(url)
        user, password = settings.user, settings.password
        secret = password.get_secret_value() if password else None
        if parts.username:
            user = unquote(parts.username)
            secret = unquote(parts.password) if parts.password else secret
        if not parts.hostname:
            raise SettingsError(f"url {url!r} names no host; for instance neo4j://localhost:7687")
        self.url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        if secret is None:
            raise SettingsError(
                f"no password for {self.url}; set GRAPHMEM_PASSWORD (and GRAPHMEM_USER)"
            )
        self._database = settings.database
        self._closed = False
        self._retry_seconds = settings.retry_seconds
        self._schema: int | None = None
        self._applying = threading.Lock()
        logging.getLogger("neo4j.notifications").setLevel(logging.ERROR)
        logging.getLogger("neo4j.pool").setLevel(logging.CRITICAL)
        logging.getLogger("neo4j").setLevel(logging.ERROR)
        with self._translated():
            self._driver = neo4j.GraphDatabase.driver(
                self.url,
                auth=(user, secret),
                connection_timeout=settings.connect_timeout,
                connection_acquisition_timeout=settings.connect_timeout + 5,
                max_transaction_retry_time=settings.retry_seconds,
                notifications_min_severity="OFF",
                user_agent="graphmem",
            )
        try:
            with self._translated():
                info = self._driver.get_server_info()
        except BaseException:
            self._driver.close()
            raise
        version = info.agent.rpartition("/")[2]
        self.capabilities = Capabilities(ENGINE, version, server=True, system=True)
        self._bookmarks = neo4j.GraphDatabase.bookmark_manager()

    snapshot_age: float | None = None

    @property
    def writing(self) -> bool:
        """Whether it is open; a server accepts writes of several processes."""
        return not self._closed

    def try_writing(self) -> bool:
        """Return whether it is open."""
        return self.writing

    def exists(self) -> bool:
        """Return whether the server answers (it did when this was opened)."""
        return True

    def read(self, query: Query, /, **params: Any) -> list[Row]:
        """Run a reading statement; the server refuses one that writes."""
        return self._alone(query, params, neo4j.RoutingControl.READ, _rows)

    def write(self, query: Query, /, **params: Any) -> list[Row]:
        """Run one statement in a managed transaction, again where that can help."""
        self._ready()
        return self._again(lambda: self._alone(query, params, neo4j.RoutingControl.WRITE, _rows))

    def attempt(
        self, query: Query, fits: Callable[[list[Row]], bool], /, **params: Any
    ) -> list[Row]:
        """Run one statement in a managed transaction, rolled back where its rows do not fit."""

        def take(result: neo4j.Result) -> list[Row]:
            rows = _rows(result)
            if not fits(rows):
                raise _UnfitError
            return rows

        self._ready()
        try:
            return self._alone(query, params, neo4j.RoutingControl.WRITE, take)
        except (_UnfitError, ChangedError):
            return []

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` in one managed transaction; retry after transient errors."""
        self._ready()
        return self._transact(work)

    def _ready(self) -> None:
        """Have the schema there before anything is written."""
        if self._schema is None:
            self.apply_schema()

    def _transact(self, work: Callable[[Transaction], T]) -> T:
        def attempt() -> T:
            with self._session(neo4j.WRITE_ACCESS) as session:
                return session.execute_write(lambda inner: work(_Transaction(inner)))

        return self._again(attempt)

    def _again(self, attempt: Callable[[], T]) -> T:
        """Return what an attempt does, again where another writer was quicker."""
        deadline, attempts = math.inf, 0
        while True:
            attempts += 1
            try:
                return attempt()
            except ChangedError as error:
                # The time begins here, as the driver's does: the first attempt may have waited for
                # locks longer than that, and only the next one knows what to lock.
                deadline = min(deadline, time.monotonic() + self._retry_seconds)
                if attempts >= _ATTEMPTS and time.monotonic() >= deadline:
                    raise UnavailableError(str(error)) from error
                time.sleep(random.uniform(0.005, 0.05))  # noqa: S311 - not to meet again

    def _alone(
        self,
        query: Query,
        params: dict[str, Any],
        routing: neo4j.RoutingControl,
        take: Callable[[neo4j.Result], list[Row]],
    ) -> list[Row]:
        """Run one statement in a managed transaction of its own, which spares a round trip."""
        self._check_open()
        bound = query.bind(params)
        with self._translated():
            return self._driver.execute_query(
                cast(Any, query.text),
                bound,
                routing,
                self._database,
                bookmark_manager_=self._bookmarks,
                result_transformer_=take,
            )

    def view(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` in a writing transaction: only locks make reads consistent here."""
        return self._transact(work)

    def apply_schema(self, *, repair: bool = False) -> int:
        """Create missing constraints and indexes; return the schema version."""
        with self._applying:  # threads that share the store do this once
            if self._schema is None or repair:
                self._schema = schema.apply(ENGINE, self.read, self._ensure, repair=repair)
            return self._schema

    def _ensure(self, query: Query, /, **params: Any) -> list[Row]:
        """Run a schema statement; accept that another process has just created the same."""
        try:
            return self._transact(lambda tx: tx.run(query, **params))
        except _AlreadyThereError:
            return []

    def administer(self, query: Query, /, **params: Any) -> list[Row]:
        """Run a statement in the database ``system``; retry after transient errors."""
        bound = query.bind(params)
        with self._session(neo4j.WRITE_ACCESS, SYSTEM) as session, permitted(self.url):
            return session.execute_write(lambda inner: _run(inner, query, bound))

    def compact(self) -> bool:
        """Return False: the server itself prunes store files and transaction logs."""
        return False

    def index(self, namespace: str) -> Neo4jIndex:
        """Return the server's index of a namespace."""
        from graphmem.store.neo4j_search import Neo4jIndex

        return Neo4jIndex(self.read, self.write, namespace)

    def close(self) -> None:
        """Close the driver's connections."""
        if not self._closed:
            self._closed = True
            self._driver.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the memory is closed; open it again with Memory.open")

    @contextlib.contextmanager
    def _session(self, access: str, database: str | None = None) -> Iterator[neo4j.Session]:
        self._check_open()
        with (
            self._translated(),
            self._driver.session(
                database=database or self._database,
                default_access_mode=access,
                bookmark_manager=self._bookmarks,
            ) as session,
        ):
            yield session

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn the driver's errors into ours."""
        try:
            yield
        except GraphMemError:
            raise
        except (exceptions.AuthError, exceptions.TokenExpired) as error:
            raise AuthenticationError(
                f"{self.url} refused the user or password; check GRAPHMEM_USER and "
                "GRAPHMEM_PASSWORD"
            ) from error
        except exceptions.Neo4jError as error:
            raise self._told(error) from error
        except exceptions.ResultFailedError as error:
            # The driver can raise this while it rolls back after a deadlock, and then does not
            # retry as it does otherwise.
            cause = error.__cause__
            if isinstance(cause, exceptions.Neo4jError | exceptions.DriverError):
                raise (
                    ChangedError(_first_line(cause)) if cause.is_retryable() else self._gone(cause)
                ) from error
            raise self._gone(error) from error
        except (ValueError, exceptions.ConfigurationError) as error:
            raise SettingsError(f"{self.url}: {error}") from error
        except (exceptions.DriverError, OSError) as error:
            raise self._gone(error) from error

    def _told(self, error: exceptions.Neo4jError) -> GraphMemError:
        """Return our error for an error of the server."""
        said, code = error.message or str(error), (error.code or "").rpartition(".")[2]
        if code in _CHANGED or isinstance(error, exceptions.ConstraintError):
            return ChangedError(said)
        if code == "AccessMode":
            return ReadOnlyError(f"only reading is allowed here: {said}")
        if isinstance(error, exceptions.ClientError):
            there = code == "EquivalentSchemaRuleAlreadyExists"
            return (_AlreadyThereError if there else QueryError)(said)
        if isinstance(error, exceptions.TransientError):
            return UnavailableError(f"{self.url} could not finish this now; try again ({said})")
        if isinstance(error, exceptions.DatabaseError):
            return StorageError(f"{self.url} failed: {said}")
        return self._gone(error)

    def _gone(self, error: Exception) -> UnavailableError:
        return UnavailableError(
            f"{self.url} cannot be reached; is the server running? ({_first_line(error)})"
        )


@contextlib.contextmanager
def permitted(url: str) -> Iterator[None]:
    """Turn a refused administration command into an AuthenticationError with a remedy."""
    try:
        yield
    except exceptions.Forbidden as error:
        raise AuthenticationError(
            f"{url} does not let this user administer it; set GRAPHMEM_USER to one who may "
            f"({error.message})"
        ) from error


def _run(inner: neo4j.ManagedTransaction, query: Query, bound: dict[str, Any]) -> list[Row]:
    return _rows(inner.run(cast(Any, query.text), bound))


def _rows(result: neo4j.Result) -> list[Row]:
    try:
        return [record.data() for record in result]
    except exceptions.ResultFailedError as error:
        # This error only says that something failed before, such as a lost connection; its cause
        # tells whether a retry can help.
        raise (error.__cause__ or error) from None


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
