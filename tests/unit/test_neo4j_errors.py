"""What the driver raises says whether another attempt can help; nothing may hide that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import neo4j
import pytest
from neo4j.exceptions import (
    ConstraintError,
    IncompleteCommit,
    Neo4jError,
    ResultFailedError,
    ServiceUnavailable,
    SessionExpired,
)

from graphmem.errors import QueryError, StorageError, StoreError, UnavailableError
from graphmem.store import neo4j as store
from graphmem.store.neo4j import translated
from graphmem.store.queries import procedure


class Failed:
    """A transaction whose result had failed before it is read."""

    def __init__(self, reason: Exception) -> None:
        self._reason = reason

    def run(self, *_: Any, **__: Any) -> Iterator[neo4j.Record]:
        raise ResultFailedError(cast(Any, self), "The result has failed.") from self._reason
        yield


def refused(code: str, message: str) -> Neo4jError:
    return Neo4jError._hydrate_neo4j(code=f"Neo.{code}", message=message)


def _deadlock_in_the_rollback() -> Exception:
    deadlock = refused("TransientError.Transaction.DeadlockDetected", "deadlock")
    failed = ResultFailedError(cast(Any, Failed(deadlock)), "The result has failed.")
    failed.__cause__ = deadlock
    return failed


def _plan_given_up() -> Exception:
    """The server calls it a failure of its own when others change the schema all the time."""
    said = "Could not compile query due to insanely frequent schema changes"
    return refused("DatabaseError.Statement.ExecutionFailed", said)


@pytest.mark.parametrize("error", [_deadlock_in_the_rollback, _plan_given_up])
def test_what_other_writers_cause_is_tried_again(error: Callable[[], Exception]) -> None:
    """The driver tries again after a deadlock, unless that breaks its own rollback, too."""
    assert _tried_until_done([error(), error()]) == 3


def _tried_until_done(errors: list[Exception]) -> int:
    """Let a store without a server try what fails with each of these errors, then is done."""
    server = object.__new__(store.Neo4jStore)
    server._retry_seconds, server._grace = 1.0, 1.0
    failing = iter(errors)

    def attempt(_: float) -> int:
        with translated("neo4j://nowhere"):
            for error in failing:
                raise error
        return len(errors) + 1

    return server._again(attempt)


def test_what_may_have_been_done_is_not_done_again() -> None:
    broken = IncompleteCommit("the connection broke while the server committed")
    with pytest.raises(UnavailableError):
        _tried_until_done([broken])


@pytest.mark.parametrize("reason", [SessionExpired("gone"), ConstraintError("there")])
def test_a_failed_result_tells_why(reason: Exception) -> None:
    inner = cast(neo4j.ManagedTransaction, Failed(reason))
    with pytest.raises(type(reason), match=str(reason)):
        store._Transaction(inner).run(procedure("schema.version"))


URL = "neo4j://db.example:7687"


@pytest.mark.parametrize(
    ("code", "message", "kind", "says"),
    [
        (
            "ClientError.General.WriteOnReadOnlyAccessDatabase",
            "No write operations are allowed on this database. The database is in read-only mode "
            "on this Neo4j instance.",
            StorageError,
            rf"^{URL}: No write operations are allowed on this database\..* read-only mode",
        ),
        (
            "TransientError.General.TransactionOutOfMemoryError",
            "The allocation of an extra 2.0 MiB would use more than the limit 2.0 MiB. Currently "
            "using 2.0 MiB. db.memory.transaction.max threshold reached",
            QueryError,
            r"gives to a transaction \(db.memory.transaction.max\); give it more, or do less",
        ),
    ],
)
def test_a_refusal_says_why(code: str, message: str, kind: type[StoreError], says: str) -> None:
    with pytest.raises(StoreError, match=says) as caught, translated(URL):
        raise refused(code, message)
    assert type(caught.value) is kind


def test_where_nobody_tells_the_way_server_or_database_may_be_down() -> None:
    said = r"is the server running, and the database started\? \(no routing\)"
    with pytest.raises(UnavailableError, match=said), translated(URL):
        raise ServiceUnavailable("no routing")
