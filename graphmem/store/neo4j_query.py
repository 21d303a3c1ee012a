"""Queries of others on a server: who asks hears within the limit, whatever the server does."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, cast

import neo4j
from neo4j import exceptions

from graphmem.errors import QueryError
from graphmem.store.expressions import hear_in_time
from graphmem.store.port import Limits, Rows


def ask(session: Callable[[], Any], text: str, params: dict[str, Any], limits: Limits) -> Rows:
    """Run a query once, in a reading transaction with a time limit.

    The server looks at the clock between rows, not within an expression, so another thread waits
    for it; one that was left alone ends when the server answers.

    Raises:
        QueryError: it took too long or too much memory.
    """

    def work(begin: Callable[[], None]) -> Rows:
        with session() as opened, _begun(opened, limits) as transaction:
            begin()  # the driver limits the time to connect
            return _first(transaction, text, params, limits)

    return hear_in_time(work, limits)


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
