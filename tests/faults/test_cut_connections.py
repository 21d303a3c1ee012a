"""Writers on a server to which connections break, or where others hold what they need."""

from __future__ import annotations

import time
from uuid import uuid4

import pytest
from neo4j import GraphDatabase

from graphmem import Memory, Settings
from graphmem.errors import UnavailableError
from graphmem.store import neo4j as store
from tests.faults.proxy import Proxy
from tests.faults.writers import BUSY, CALLS, ENDING, WRITERS, Heard, check, impatient, storm
from tests.neo4j.server import Found


@pytest.mark.neo4j
def test_writers_hear_in_time_where_connections_break(
    neo4j: Found, caplog: pytest.LogCaptureFixture
) -> None:
    host, _, port = neo4j.uri.rpartition("//")[2].partition(":")
    settings = impatient(neo4j.user, neo4j.password)
    namespace = f"cut-{uuid4().hex[:12]}"
    with (
        Proxy(host, int(port or 7687)) as proxy,
        Memory.open(proxy.uri, namespace=namespace, settings=settings) as memory,
    ):

        def cut(heard: Heard) -> None:
            proxy.chance = 0.01
            while len(heard.learned) < WRITERS * CALLS * 3 // 4:
                time.sleep(0.01)
            proxy.chance = 0.0

        heard = storm(memory, cut)
        assert proxy.cuts
        check(memory, heard)
    # They hear it by an error: without handlers, records would be lines on standard error.
    assert [record for record in caplog.records if record.name.startswith("neo4j")] == []


@pytest.mark.neo4j
def test_a_writer_does_not_wait_for_a_lock_without_end(
    neo4j: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else holds what it needs, and does not let go."""
    namespace = f"held-{uuid4().hex[:12]}"
    patient = Settings(user=neo4j.user, password=neo4j.password)
    with Memory.open(neo4j.uri, namespace=namespace, settings=patient) as memory:
        for key in ("new", "known"):  # the server makes its plans
            memory.learn("a task", "ask", success=True, source_key=key)
    monkeypatch.setattr(store, "GRACE", 1.0)
    settings = patient.model_copy(update={"wait": 1.0})
    with (
        Memory.open(neo4j.uri, namespace=namespace, settings=patient) as other,
        Memory.open(neo4j.uri, namespace=namespace, settings=settings) as memory,
        GraphDatabase.driver(neo4j.uri, auth=(neo4j.user, neo4j.password)) as driver,
        driver.session() as session,
        session.begin_transaction() as holding,
    ):
        holding.run("MATCH (s:Strategy {ns: $ns}) SET s.held = 1", ns=namespace).consume()
        started = time.monotonic()
        with pytest.raises(UnavailableError) as caught:
            memory.learn("a task", "ask", success=True, source_key="held")
        assert time.monotonic() - started < 4.0 + ENDING + BUSY
        assert caught.value.retryable
        holding.rollback()
        assert other.learn("a task", "ask", success=True, source_key="held").created
