"""Writers on a server to which connections break, or where others hold what they need."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from uuid import uuid4

import pytest
from neo4j import GraphDatabase

from graphmem import Memory, Settings
from graphmem.errors import StoreError, UnavailableError
from graphmem.store import neo4j as store
from tests.faults.attack import rounds
from tests.faults.learner import keys
from tests.faults.proxy import Proxy
from tests.neo4j.server import Found

WRITERS = 16
CALLS = rounds(6, 50)
RETRY = 4.0
ENDING = 2.0
"""Seconds after which a server ends a transaction whose time is over: it looks that often."""
BUSY = 10.0
"""Seconds that a machine may be too busy to go on with a thread or with the server."""
ALLOWED = 2 * RETRY + store.GRACE + ENDING + BUSY


@dataclass
class Heard:
    """What writers were told."""

    learned: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    errors: list[StoreError] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = {str(error)[:80] for error in self.errors}
        return (
            f"{len(self.learned)} learned, {len(self.errors)} errors {kinds}, {max(self.waits)} s"
        )


def write(memory: Memory, place: int, heard: Heard) -> None:
    """Learn about shared things until all is acknowledged, again after each error."""
    for number in range(CALLS):
        key = f"{place}/{number}"
        failed = (place + number) % 3 == 0
        while True:
            started = time.monotonic()
            try:
                memory.learn(
                    f"task {number % 5}",
                    [f"strategy {number % 3}", "ask"],
                    success=not failed,
                    error="timeout after 3 s" if failed else None,
                    agent=f"agent {place % 5}",
                    source_key=key,
                )
            except StoreError as error:
                heard.errors.append(error)
                heard.waits.append(time.monotonic() - started)
                time.sleep(0.2)
            else:
                heard.learned.append(key)
                heard.waits.append(time.monotonic() - started)
                break


@pytest.mark.neo4j
def test_writers_hear_in_time_where_connections_break(
    neo4j: Found, caplog: pytest.LogCaptureFixture
) -> None:
    """Every acknowledged episode is there, once; what was refused may be tried again."""
    host, _, port = neo4j.uri.rpartition("//")[2].partition(":")
    patient = Settings(user=neo4j.user, password=neo4j.password)
    settings = patient.model_copy(update={"wait": RETRY})
    namespace, heard = f"cut-{uuid4().hex[:12]}", Heard()
    with (
        Proxy(host, int(port or 7687)) as proxy,
        Memory.open(proxy.uri, namespace=namespace, settings=settings) as memory,
    ):
        with Memory.open(proxy.uri, namespace=namespace, settings=patient) as first:
            first.learn("task 0", ["strategy 0", "ask"], success=True)  # the server makes its plan
            first.upkeep.erase(first.episodes(strategy="ask")[0].id)
        with ThreadPoolExecutor(WRITERS) as pool:
            futures = [pool.submit(write, memory, place, heard) for place in range(WRITERS)]
            proxy.chance = 0.01
            while len(heard.learned) < WRITERS * CALLS * 3 // 4:
                time.sleep(0.01)
            proxy.chance = 0.0
            for future in futures:
                future.result()
        assert proxy.cuts
        wanted = sorted(f"{place}/{number}" for place in range(WRITERS) for number in range(CALLS))
        assert sorted(heard.learned) == wanted, heard
        assert keys(memory) == wanted, heard
        assert all(error.retryable for error in heard.errors), heard
        assert max(heard.waits) < ALLOWED, heard
        assert not memory.verify().differences
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
