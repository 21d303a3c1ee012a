"""Queries of others on a server: who asks hears within the limit, whatever the server does."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable
from typing import Any, cast

import neo4j
from neo4j import exceptions

from graphmem.errors import QueryError
from graphmem.store.port import Limits, Rows

_GRACE = 0.8
"""Seconds after which nobody waits any more for a server that does not end a transaction."""


def ask(session: Callable[[], Any], text: str, params: dict[str, Any], limits: Limits) -> Rows:
    """Run a query once, in a reading transaction with a time limit.

    The server looks at the clock between rows, not within an expression, so another thread waits
    for it; one that was left alone ends when the server answers.

    Raises:
        QueryError: it took too long or too much memory.
    """
    answers: queue.SimpleQueue[Rows | BaseException | None] = queue.SimpleQueue()

    def work() -> None:
        try:
            with session() as opened, _begun(opened, limits) as transaction:
                answers.put(None)
                rows = _first(transaction, text, params, limits)
            answers.put(rows)  # now that nothing uses the connection, which may be closed next
        except BaseException as error:  # noqa: BLE001 - raised by who waits
            answers.put(error)

    threading.Thread(target=work, name="graphmem-query", daemon=True).start()
    answer = answers.get()  # the driver limits the time to connect
    if answer is None:
        try:
            answer = answers.get(timeout=limits.seconds + _GRACE)
        except queue.Empty:
            raise limits.too_long() from None
    if isinstance(answer, BaseException):
        raise answer
    assert answer is not None  # noqa: S101 - for the type
    return answer


def _begun(session: neo4j.Session, limits: Limits) -> neo4j.Transaction:
    return session.begin_transaction(timeout=limits.seconds)


def _first(
    transaction: neo4j.Transaction, text: str, params: dict[str, Any], limits: Limits
) -> Rows:
    try:
        result = transaction.run(cast(Any, text), params)
        rows = [record.data() for record in itertools.islice(result, limits.rows + 1)]
    except exceptions.Neo4jError as error:
        code = (error.code or "").rpartition(".")[2]
        if code.startswith("TransactionTimedOut"):
            raise limits.too_long() from error
        if code.endswith("OutOfMemoryError"):
            raise QueryError(
                "the query needed more memory than the server gives to a transaction "
                f"(db.memory.transaction.max); narrow it ({error.message})"
            ) from error
        raise
    return Rows(rows[: limits.rows], truncated=len(rows) > limits.rows)
