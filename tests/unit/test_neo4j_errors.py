"""What the driver raises says whether another attempt can help; nothing may hide that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import neo4j
import pytest
from neo4j.exceptions import (
    ConstraintError,
    IncompleteCommit,
    Neo4jError,
    ResultFailedError,
    SessionExpired,
)

from graphmem.errors import UnavailableError
from graphmem.store import neo4j as store
from graphmem.store.neo4j_errors import translated
from graphmem.store.queries import procedure


class Failed:
    """A transaction whose result had failed before it is read."""

    def __init__(self, reason: Exception) -> None:
        self._reason = reason

    def run(self, *_: Any) -> Iterator[neo4j.Record]:
        raise ResultFailedError(cast(Any, self), "The result has failed.") from self._reason
        yield


def _deadlock_in_the_rollback() -> Exception:
    deadlock = Neo4jError._hydrate_neo4j(
        code="Neo.TransientError.Transaction.DeadlockDetected", message="deadlock"
    )
    failed = ResultFailedError(cast(Any, Failed(deadlock)), "The result has failed.")
    failed.__cause__ = deadlock
    return failed


def _plan_given_up() -> Exception:
    """The server calls it a failure of its own when others change the schema all the time."""
    return Neo4jError._hydrate_neo4j(
        code="Neo.DatabaseError.Statement.ExecutionFailed",
        message="Could not compile query due to insanely frequent schema changes",
    )


@pytest.mark.parametrize("error", [_deadlock_in_the_rollback, _plan_given_up])
def test_what_other_writers_cause_is_tried_again(error: Callable[[], Exception]) -> None:
    """The driver tries again after a deadlock, unless that breaks its own rollback, too."""
    server = _server(1.0)
    attempts: list[int] = []

    def attempt(_: float) -> int:
        attempts.append(1)
        with translated(server.url):
            if len(attempts) < 3:
                raise error()
        return len(attempts)

    assert server._again(attempt) == 3


def _server(retry_seconds: float) -> store.Neo4jStore:
    """A store without a server, which only tries again."""
    server = object.__new__(store.Neo4jStore)
    server.url = "neo4j://nowhere"
    server._retry_seconds = retry_seconds
    server._grace = 1.0
    server._shared = threading.local()
    return server


class _Clock:
    """A clock that goes on only while somebody sleeps."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_attempts_end_with_the_time_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time begins with the call, whatever its parts and however long an attempt takes."""
    monkeypatch.setattr(store, "time", clock := _Clock())
    server = _server(0.6)
    attempts: list[float] = []

    def attempt(_: float) -> None:
        attempts.append(clock.now)
        with translated(server.url):
            clock.sleep(0.2)
            raise SessionExpired("gone")

    with server.one_call():
        for _ in range(2):
            with pytest.raises(UnavailableError):
                server._again(attempt)
    assert len(attempts) > 2  # it was tried again
    late = [at for at in attempts if at > 0.6]
    assert len(late) <= 2  # the last of the first part, and the only one of the second


def test_what_may_have_been_done_is_not_done_again() -> None:
    server = _server(5.0)
    attempts: list[int] = []

    def attempt(_: float) -> None:
        attempts.append(1)
        with translated(server.url):
            raise IncompleteCommit("the connection broke while the server committed")

    with pytest.raises(UnavailableError):
        server._again(attempt)
    assert len(attempts) == 1


@pytest.mark.parametrize("reason", [SessionExpired("gone"), ConstraintError("there")])
def test_a_failed_result_tells_why(reason: Exception) -> None:
    inner = cast(neo4j.ManagedTransaction, Failed(reason))
    with pytest.raises(type(reason), match=str(reason)):
        store._run(inner, procedure("schema.version"), {})
