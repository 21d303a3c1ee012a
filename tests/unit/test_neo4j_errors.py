"""What the driver raises says whether another attempt can help; nothing may hide that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import neo4j
import pytest
from neo4j.exceptions import ConstraintError, Neo4jError, ResultFailedError, SessionExpired

from graphmem.store import neo4j as store
from graphmem.store.queries import procedure


class Failed:
    """A transaction whose result had failed before it is read."""

    def __init__(self, reason: Exception) -> None:
        self._reason = reason

    def run(self, *_: Any) -> Iterator[neo4j.Record]:
        raise ResultFailedError(cast(Any, self), "The result has failed.") from self._reason
        yield


def test_a_deadlock_that_shows_in_the_rollback_is_tried_again() -> None:
    """The driver tries again after a deadlock, unless that breaks its own rollback, too."""
    server = object.__new__(store.Neo4jStore)
    server._retry_seconds = 1.0
    attempts: list[int] = []

    def attempt() -> int:
        attempts.append(1)
        with server._translated():
            if len(attempts) < 3:
                deadlock = Neo4jError._hydrate_neo4j(
                    code="Neo.TransientError.Transaction.DeadlockDetected", message="deadlock"
                )
                failed = Failed(deadlock)
                raise ResultFailedError(cast(Any, failed), "The result has failed.") from deadlock
        return len(attempts)

    assert server._again(attempt) == 3


@pytest.mark.parametrize("reason", [SessionExpired("gone"), ConstraintError("there")])
def test_a_failed_result_tells_why(reason: Exception) -> None:
    inner = cast(neo4j.ManagedTransaction, Failed(reason))
    with pytest.raises(type(reason), match=str(reason)):
        store._run(inner, procedure("schema.version"), {})
