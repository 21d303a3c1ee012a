"""A Neo4j server, by the official driver."""

from __future__ import annotations

import contextlib
import logging
import random
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
from graphmem.queries import Query
from graphmem.store import schema
from graphmem.store.port import Capabilities, ChangedError, Row, Transaction

if TYPE_CHECKING:
    from graphmem.store.neo4j_search import Neo4jIndex

T = TypeVar("T")

ENGINE = "neo4j"
SYSTEM = "system"


class _Transaction:
    def __init__(self, inner: neo4j.ManagedTransaction) -> None:
        self._inner = inner

    def run(self, query: Query, /, **params: Any) -> list[Row]:
        return _run(self._inner, query, query.bind(params))


class Neo4jStore:
    """A graph on a Neo4j server, a cluster or Aura.

    Transactions are the driver's managed ones: retried where the server says that it can help,
    and causally chained by bookmarks, so that one's own writes are seen.
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
        """Whether it is open: a server takes the writes of several processes."""
        return not self._closed

    def try_writing(self) -> bool:
        """Return whether it is open."""
        return self.writing

    def exists(self) -> bool:
        """Return whether the server answers (it did when this was opened)."""
        return True

    def read(self, query: Query, /, **params: Any) -> list[Row]:
        """Run a statement that only reads; the server refuses one that writes."""
        bound = query.bind(params)
        with self._session(neo4j.READ_ACCESS) as session:
            return session.execute_read(lambda inner: _run(inner, query, bound))

    def write(self, query: Query, /, **params: Any) -> list[Row]:
        """Run one statement in a managed transaction."""
        return self.transact(lambda tx: tx.run(query, **params))

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` in one managed transaction, again where that can help."""
        deadline = time.monotonic() + self._retry_seconds
        while True:
            try:
                with self._session(neo4j.WRITE_ACCESS) as session:
                    return session.execute_write(lambda inner: work(_Transaction(inner)))
            except ChangedError as error:
                if time.monotonic() > deadline:
                    raise UnavailableError(str(error)) from error
                time.sleep(random.uniform(0.005, 0.05))  # noqa: S311 - not to meet again

    def view(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` in a writing transaction: reads are only consistent under locks here."""
        return self.transact(work)

    def apply_schema(self, *, repair: bool = False) -> int:
        """Create constraints and indexes where they are missing; return the schema version."""
        deadline = time.monotonic() + self._retry_seconds
        while self._schema is None or repair:
            try:
                self._schema = schema.apply(ENGINE, self.read, self._execute, repair=repair)
                repair = False
            except UnavailableError:  # several processes create the same constraint at once
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        return self._schema

    def _execute(self, query: Query, /, **params: Any) -> list[Row]:
        bound = query.bind(params)
        with self._session(neo4j.WRITE_ACCESS) as session:
            return session.execute_write(lambda inner: _run(inner, query, bound))

    def administer(self, query: Query, /, **params: Any) -> list[Row]:
        """Run a statement in the database ``system``, again where that can help."""
        bound = query.bind(params)
        with self._session(neo4j.WRITE_ACCESS, SYSTEM) as session, permitted(self.url):
            return session.execute_write(lambda inner: _run(inner, query, bound))

    def compact(self) -> bool:
        """Return False: store files and transaction logs are the server's to prune."""
        return False

    def index(self, namespace: str) -> Neo4jIndex:
        """Return the index of a namespace, which is the server's."""
        from graphmem.store.neo4j_search import Neo4jIndex

        return Neo4jIndex(self.read, self.write, namespace)

    def close(self) -> None:
        """Close the driver's connections."""
        if not self._closed:
            self._closed = True
            self._driver.close()

    @contextlib.contextmanager
    def _session(self, access: str, database: str | None = None) -> Iterator[neo4j.Session]:
        if self._closed:
            raise StoreError("the memory is closed; open it again with Memory.open")
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
        except (ValueError, exceptions.ConfigurationError) as error:
            raise SettingsError(f"{self.url}: {error}") from error
        except exceptions.ConstraintError as error:  # another writer created the same node first
            raise ChangedError(error.message or str(error)) from error
        except exceptions.ClientError as error:
            code = error.code or ""
            if code.endswith("AccessMode"):
                raise ReadOnlyError(f"only reading is allowed here: {error.message}") from error
            if code.endswith("EntityNotFound"):  # another writer erased it meanwhile
                raise ChangedError(error.message or str(error)) from error
            if "EquivalentSchemaRuleAlreadyExists" in code:
                raise UnavailableError(_first_line(error)) from error
            raise QueryError(error.message or str(error)) from error
        except exceptions.TransientError as error:
            raise UnavailableError(
                f"{self.url} could not finish this now; try again ({error.message})"
            ) from error
        except exceptions.DatabaseError as error:
            raise StorageError(f"{self.url} failed: {error.message}") from error
        except (exceptions.DriverError, exceptions.Neo4jError, OSError) as error:
            raise UnavailableError(
                f"{self.url} is not there or went away; is the server running? "
                f"({_first_line(error)})"
            ) from error


@contextlib.contextmanager
def permitted(url: str) -> Iterator[None]:
    """Turn the refusal of a user who may not administer the server into an error that says so."""
    try:
        yield
    except exceptions.Forbidden as error:
        raise AuthenticationError(
            f"{url} does not let this user administer it; set GRAPHMEM_USER to one who may "
            f"({error.message})"
        ) from error


def _run(inner: neo4j.ManagedTransaction, query: Query, bound: dict[str, Any]) -> list[Row]:
    return [record.data() for record in inner.run(cast(Any, query.text), bound)]


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
