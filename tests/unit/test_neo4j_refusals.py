"""What a server refuses is told with a remedy. Codes and messages are those of Neo4j 5.26."""

from __future__ import annotations

import pytest
from neo4j import exceptions

from graphmem.errors import StorageError, StoreError, UnavailableError
from graphmem.store.neo4j_errors import translated

URL = "neo4j://db.example:7687"


def refused(code: str, message: str) -> exceptions.Neo4jError:
    return exceptions.Neo4jError._hydrate_neo4j(code=f"Neo.{code}", message=message)


@pytest.mark.parametrize(
    ("code", "message", "kind", "says"),
    [
        (
            "ClientError.General.WriteOnReadOnlyAccessDatabase",
            "No write operations are allowed on this database. The database is in read-only mode "
            "on this Neo4j instance.",
            StorageError,
            rf"^{URL} lets nobody write to this database; .*relink.*verify.*read-only mode",
        ),
        (
            "TransientError.General.MemoryPoolOutOfMemoryError",
            "The allocation of an extra 2.0 MiB would use more than the limit 10.0 MiB. Currently "
            "using 10.0 MiB. dbms.memory.transaction.total.max threshold reached",
            UnavailableError,
            "could not finish this now; try again .*transaction.total.max",
        ),
        (
            "TransientError.General.TransactionOutOfMemoryError",
            "The allocation of an extra 2.0 MiB would use more than the limit 2.0 MiB. Currently "
            "using 2.0 MiB. db.memory.transaction.max threshold reached",
            StoreError,
            r"gives to a transaction \(db.memory.transaction.max\); give it more, or do less",
        ),
    ],
)
def test_a_refusal_names_the_remedy(
    code: str, message: str, kind: type[StoreError], says: str
) -> None:
    with pytest.raises(StoreError, match=says) as caught, translated(URL):
        raise refused(code, message)
    assert type(caught.value) is kind


def test_a_database_that_does_not_start_is_told_apart_from_a_server_that_is_away() -> None:
    """The driver asks the way first, and says only that nobody told it."""
    said = "Unable to get a routing table for database 'neo4j' because this database is unavailable"
    asked = refused("TransientError.General.DatabaseUnavailable", said)
    with pytest.raises(UnavailableError, match=rf"answers, but not .*\({said}\)"), translated(URL):
        raise exceptions.ServiceUnavailable("no routing") from ExceptionGroup("all", [asked])
    with pytest.raises(UnavailableError, match="is the server running"), translated(URL):
        raise exceptions.ServiceUnavailable("no routing")
