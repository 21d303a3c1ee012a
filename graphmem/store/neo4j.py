"""The Neo4j engine: a server, through the official driver."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

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
    shown,
)
from graphmem.forks import in_child, keep
from graphmem.printable import MASK, without_password
from graphmem.store import schema
from graphmem.store.port import (
    CLOSED,
    Capabilities,
    ChangedError,
    Fits,
    Limits,
    Row,
    Rows,
    Store,
    Transaction,
    check_process,
)
from graphmem.store.queries import Query

if TYPE_CHECKING:
    from graphmem.store.neo4j_search import Neo4jEntries, Neo4jIndex

T = TypeVar("T")

ENGINE = "neo4j"
RETRY_SECONDS = 30.0
"""Seconds for which a call tries again, unless the setting ``wait`` says otherwise."""
CONNECT_TIMEOUT = 10.0  # most seconds to wait for a connection
GRACE = 15.0
"""Seconds that an attempt gets beyond those for connecting, however late in a call it begins: a
server that has just started needs some to plan a statement."""
_ATTEMPTS = 5  # the least number of attempts, regardless of time, if another writer was quicker
_SOON, _LATER = (0.01, 0.25), (0.1, 1.0)
"""Seconds to wait before the second attempt, and the most: for another writer, for the server."""
_CLOSING = 10.0  # seconds that closing waits for running calls


class _Transaction:
    def __init__(self, inner: neo4j.ManagedTransaction) -> None:
        self._inner = inner

    def run(self, query: Query, /, **params: Any) -> list[Row]:
        return _rows(self._inner.run(cast(Any, query.packed), given=query.bind(params)))

    finish = run


class Neo4jStore(Store):
    """A graph on a Neo4j server, a cluster or Aura.

    It repeats transactions itself, for ``wait`` seconds (a setting): the driver's time begins at
    the first error, and its pauses grow to many seconds. The driver says which errors to repeat; it
    also chooses the member of a cluster. Bookmarks let later reads see earlier writes.
    """

    def __init__(self, url: str, settings: Settings) -> None:
        user, password = settings.user, settings.password
        secret = password.get_secret_value() if password else None
        parts = _parts(url)
        if parts.username:
            user = unquote(parts.username)
            secret = unquote(parts.password) if parts.password else secret
        netloc = parts.netloc.rpartition("@")[2]
        address = urlunsplit(parts._replace(netloc=netloc, path="", fragment=""))
        self.url = without_password(address)
        self._query = parts.query  # texts that the driver quotes, and that may hold a password
        if secret is None:
            raise SettingsError(
                f"no password for {self.url}; set GRAPHMEM_PASSWORD (and GRAPHMEM_USER)"
            )
        self._database = settings.database
        self._closed = False
        self._pid = os.getpid()
        self._calls = threading.Condition()
        self._running: Counter[int] = Counter()  # calls by thread
        self._retry_seconds = RETRY_SECONDS if settings.wait is None else settings.wait
        connecting = min(CONNECT_TIMEOUT, max(self._retry_seconds, 1.0))
        self._grace = connecting + GRACE
        self._schema: int | None = None
        self._looked = False
        self._seen: dict[str, tuple[dict[Any, float], dict[str, tuple[int, float]]]] = {}
        self._applying = threading.RLock()  # applying reads, and a first read applies
        for name in ("neo4j.io", "neo4j.pool"):  # what they log we raise
            logging.getLogger(name).setLevel(logging.CRITICAL)
        logging.getLogger("neo4j").setLevel(logging.ERROR)
        with translated(self.url, self._query):
            self._driver = neo4j.GraphDatabase.driver(
                address,
                auth=(user, secret),
                connection_timeout=connecting,
                connection_acquisition_timeout=connecting + 5,
                max_transaction_retry_time=0,
                initial_retry_delay=0,
                notifications_min_severity="OFF",
                user_agent="graphmem",
            )
            try:
                info = self._driver.get_server_info()
            except BaseException:
                self._driver.close()
                raise
        version = info.agent.rpartition("/")[2]
        self.capabilities = Capabilities(ENGINE, version, server=True)
        self._bookmarks = neo4j.GraphDatabase.bookmark_manager()
        # Its connections say goodbye when they are freed, over sockets that the parent uses.
        in_child(self, keep)

    @property
    def writing(self) -> bool:
        """Whether it is open; a server accepts writes of several processes."""
        return not self._closed

    def read(self, query: Query, /, **params: Any) -> list[Row]:
        if not self._looked:
            self._look()
        return self._again(lambda _: self._alone(query, params, neo4j.RoutingControl.READ, _rows))

    def ask(self, query: Query, limits: Limits, /, **params: Any) -> Rows:
        bound = query.bind(params)

        def work() -> Rows:
            try:
                with (
                    self._session(neo4j.READ_ACCESS) as session,
                    session.begin_transaction(timeout=limits.seconds) as transaction,
                ):
                    result = transaction.run(cast(Any, query.text), bound)
                    rows = [record.data() for record in itertools.islice(result, limits.rows + 1)]
                    return Rows(rows[: limits.rows], truncated=len(rows) > limits.rows)
            except UnavailableError as error:  # also where it begins, and where it is closed
                if "TransactionTimedOut" in (getattr(error.__cause__, "code", None) or ""):
                    raise limits.too_long() from error
                raise

        with self._call():  # until the answer comes, whatever the server goes on with
            return limits.hear(work)

    def write(self, query: Query, /, **params: Any) -> list[Row]:
        self._ready()
        return self._again(lambda _: self._alone(query, params, neo4j.RoutingControl.WRITE, _rows))

    def attempt(self, query: Query, fits: Fits, /, **params: Any) -> list[Row]:
        def take(result: neo4j.Result) -> list[Row]:
            rows = _rows(result)
            if not fits(rows):
                raise ChangedError("the rows do not fit")  # so that nothing stays
            return rows

        def once(seconds: float) -> list[Row]:
            try:
                return self._alone(query, params, neo4j.RoutingControl.WRITE, take, seconds)
            except DeadlockError:
                raise
            except ChangedError:
                return []

        self._ready()
        return self._again(once)

    def transact(self, work: Callable[[Transaction], T], *, brief: bool = False) -> T:
        self._ready()
        return self._transact(work, brief=brief)

    def _look(self) -> None:
        self._looked = True  # what follows reads, too
        try:
            if schema.outdated(schema.check(self.read)):
                self.apply_schema()
        except BaseException:
            self._looked = False
            raise

    def _ready(self) -> None:
        if self._schema is None:
            self.apply_schema()

    def _transact(
        self, work: Callable[[Transaction], T], *, brief: bool = False, database: str | None = None
    ) -> T:
        def attempt(seconds: float) -> T:
            @neo4j.unit_of_work(timeout=seconds if brief else None)
            def run(inner: neo4j.ManagedTransaction) -> T:
                return work(_Transaction(inner))

            with self._session(neo4j.WRITE_ACCESS, database) as session:
                return session.execute_write(run)

        return self._again(attempt)

    def _again(self, attempt: Callable[[float], T]) -> T:
        """Return the result of an attempt; repeat it, if that can help, within the call's time."""
        deadline, attempts = time.monotonic() + self._retry_seconds, 0
        while True:
            attempts += 1
            try:
                return attempt(max(deadline - time.monotonic(), self._grace))
            except (ChangedError, UnavailableError) as error:
                changed, cause = isinstance(error, ChangedError), error.__cause__
                # The driver knows whether nothing was done, so that another attempt is safe.
                safe = getattr(cause, "is_retryable", lambda: False)()
                if not changed and not safe:
                    raise
                left = deadline - time.monotonic()
                # Others may have held the locks for all of the time; now it is known what to lock.
                if left <= 0 and not (changed and attempts < _ATTEMPTS):
                    raise UnavailableError(str(error)) from error
                first, most = _SOON if changed else _LATER
                pause = min(most, first * 2.0 ** min(attempts, 10), max(left, first))
                time.sleep(pause * random.uniform(0.25, 1.0))  # noqa: S311 - not to meet again

    def _alone(
        self,
        query: Query,
        params: dict[str, Any],
        routing: neo4j.RoutingControl,
        take: Callable[[neo4j.Result], list[Row]],
        seconds: float | None = None,
    ) -> list[Row]:
        """Run one statement in a managed transaction of its own, which spares a round trip."""
        text = cast(Any, query.packed)
        with self._call(), translated(self.url, self._query):
            return self._driver.execute_query(
                text if seconds is None else neo4j.Query(text, timeout=seconds),
                {"given": query.bind(params)},
                routing,
                self._database,
                bookmark_manager_=self._bookmarks,
                result_transformer_=take,
            )

    def view(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` in a writing transaction: only locks make reads consistent here."""
        return self._transact(work)

    def apply_schema(self, *, repair: bool = False) -> int:
        with self._applying:  # threads that share the store do this once
            if self._schema is None or repair:
                self._schema = schema.apply(ENGINE, self.read, self._ensure, repair=repair)
            return self._schema

    def _ensure(self, query: Query, /, **params: Any) -> list[Row]:
        return self._transact(lambda tx: tx.run(query, **params))

    def administer(self, query: Query, /, **params: Any) -> list[Row]:
        """Run a statement in the database ``system``; retry after transient errors."""
        return self._transact(lambda tx: tx.run(query, **params), database="system")

    def backup(self, folder: Path) -> tuple[int, int]:  # noqa: ARG002
        raise StoreError(
            f"{self.url} is a server; use neo4j-admin database dump and load, or for one namespace "
            "graphmem upkeep export and import"
        )

    restore = backup

    def index(self, namespace: str) -> Neo4jIndex:
        from graphmem.store.neo4j_search import Neo4jIndex

        index = Neo4jIndex(self.read, self.write, namespace)
        index.shares, index.counted = self._seen.setdefault(namespace, ({}, {}))
        return index

    def entries(self, namespace: str) -> Neo4jEntries:
        from graphmem.store.neo4j_search import Neo4jEntries

        return Neo4jEntries(self.read, self.write, namespace)

    def close(self) -> None:
        """Close the driver's connections when the running calls are done, or after 10 seconds."""
        if self._pid != os.getpid():
            self._closed = True
            return
        with self._calls:
            if self._closed:
                return
            self._closed = True
            own = {threading.get_ident()}
            self._calls.wait_for(lambda: not self._running.keys() - own, _CLOSING)
        self._driver.close()

    def _check_usable(self) -> None:
        check_process(self.url, self._pid)
        if self._closed:
            raise StoreError(CLOSED)

    @contextlib.contextmanager
    def _call(self) -> Iterator[None]:
        self._check_usable()
        thread = threading.get_ident()
        with self._calls:
            self._check_usable()
            self._running[thread] += 1
        try:
            yield
        except StoreError as error:
            if self._closed:  # and the time was up
                raise StoreError(CLOSED) from error
            raise
        finally:
            with self._calls:
                self._running[thread] -= 1
                if not self._running[thread]:
                    del self._running[thread]
                    self._calls.notify_all()

    @contextlib.contextmanager
    def _session(self, access: str, database: str | None = None) -> Iterator[neo4j.Session]:
        with (
            self._call(),
            translated(self.url, self._query),
            self._driver.session(
                database=database or self._database,
                default_access_mode=access,
                bookmark_manager=self._bookmarks,
            ) as session,
        ):
            yield session


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
        unquote(parts.password or "", errors="strict")
    except ValueError:
        parts, host = urlsplit(""), None
    if not host or "@" in f"{parts.path}{parts.query}{parts.fragment}":
        raise SettingsError(
            f"url {shown(without_password(url))} names no host of a server; for instance "
            "neo4j://localhost:7687 (give user and password as GRAPHMEM_USER and "
            "GRAPHMEM_PASSWORD, or percent-encoded)"
        )
    return parts


def _rows(result: neo4j.Result) -> list[Row]:
    try:
        # Our statements return no nodes and edges, which `record.data()` looks for in each value.
        return [dict(zip(record.keys(), record, strict=True)) for record in result]
    except exceptions.ResultFailedError as error:
        # This error only says that something failed before, such as a lost connection; its cause
        # tells whether a retry can help.
        raise (error.__cause__ or error) from None


_CHANGED = {"DeadlockDetected", "EntityNotFound", "EquivalentSchemaRuleAlreadyExists"}
"""Codes of errors that another writer causes, besides violated constraints. The last one comes only
where two create the same constraint or index at once: IF NOT EXISTS then finds it."""
_REPLANNED = "frequent schema changes"
"""Part of the message of a server that gave up a plan: others create or drop indexes now."""
_NO_INDEX = " schema index: graphmem_"
"""Part of the server's message about a search by an index that does not exist."""
_OVER = ("TransactionTimedOut", "Terminated", "LockClientStopped")
"""The prefix of the error code when a server ends a transaction whose time is over."""
_REFUSALS: dict[str, tuple[type[GraphMemError], str]] = {
    "AuthenticationRateLimit": (
        AuthenticationError,
        "{url} lets nobody log in as this user for some seconds, after several wrong passwords; "
        "check GRAPHMEM_USER and GRAPHMEM_PASSWORD, then wait",
    ),
    "DatabaseNotFound": (SettingsError, "{said}; check GRAPHMEM_DATABASE"),
    "WriteOnReadOnlyAccessDatabase": (StorageError, "{url}: {said}"),
    "Forbidden": (
        AuthenticationError,
        "{url} does not let this user do this; set GRAPHMEM_USER to one who may ({said})",
    ),
    "AccessMode": (ReadOnlyError, "only reading is allowed here: {said}"),
}
"""By code: the errors for requests that a server always refuses, for now or for good."""


class DeadlockError(ChangedError):
    """Two writers waited for each other, and this one gave way."""


@contextlib.contextmanager
def translated(url: str, secret: str = "") -> Iterator[None]:
    """Turn the driver's errors into ours; ``secret`` is a text that none of them may show."""
    try:
        yield
    except GraphMemError:
        raise
    except (exceptions.AuthError, exceptions.TokenExpired) as error:
        raise AuthenticationError(
            f"{url} refused the user or password; check GRAPHMEM_USER and GRAPHMEM_PASSWORD"
        ) from error
    except exceptions.Neo4jError as error:
        raise _of_server(url, error) from error
    except exceptions.ResultFailedError as error:
        # The driver can raise this while it rolls back, for instance after a deadlock.
        cause = error.__cause__
        if isinstance(cause, exceptions.Neo4jError):
            raise _of_server(url, cause) from cause
        raise _gone(url, error) from (cause or error)
    except (ValueError, exceptions.ConfigurationError) as error:
        told = str(error).replace(secret, MASK) if secret else str(error)
        raise SettingsError(f"{url}: {told}") from (None if secret else error)
    except (exceptions.DriverError, OSError) as error:
        raise _gone(url, error) from error


def _of_server(url: str, error: exceptions.Neo4jError) -> GraphMemError:
    said, code = error.message or str(error), (error.code or "").rpartition(".")[2]
    changed = isinstance(error, exceptions.ConstraintError) or _REPLANNED in said
    if changed or code in _CHANGED:
        return (DeadlockError if code == "DeadlockDetected" else ChangedError)(said)
    if code.endswith("OutOfMemoryError") and "db.memory.transaction.max" in said:
        return QueryError(
            "this needs more memory than the server gives to a transaction "
            f"(db.memory.transaction.max); give it more, or do less at once ({said})"
        )
    if code in _REFUSALS:
        kind, text = _REFUSALS[code]
        return kind(text.format(url=url, said=said))
    if code.startswith(_OVER) or isinstance(error, exceptions.TransientError):
        return UnavailableError(f"{url} could not finish this now; try again ({said})")
    if isinstance(error, exceptions.DatabaseError):
        return StorageError(f"{url} failed: {said}")
    remedy = "; `graphmem init` (memory.upkeep.initialize()) makes it again"
    return QueryError(f"{said}{remedy}" if _NO_INDEX in said else said)


def _gone(url: str, error: Exception) -> UnavailableError:
    what = (str(error).splitlines() or [type(error).__name__])[0]
    return UnavailableError(
        f"{url} cannot be reached; is the server running, and the database started? ({what})"
    )
