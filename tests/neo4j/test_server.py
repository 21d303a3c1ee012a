"""What a server of its own is needed for: dropped indexes, data of an older version, no APOC."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from neo4j import Driver

from graphmem import Memory, Settings
from tests.cli.running import run
from tests.neo4j.server import SHORT_LIVED, Neo4jServer, own_server


class _WithoutExtended(Neo4jServer):
    """A server as most are: with APOC, but without APOC Extended."""

    def _prepare_home(self, jars: Path) -> None:
        super()._prepare_home(jars)
        for jar in (self.home / "plugins").glob("apoc-extended-*.jar"):
            jar.unlink()


@pytest.fixture(scope="module")
def server() -> Iterator[Neo4jServer]:
    with own_server(_WithoutExtended(compiler=SHORT_LIVED)) as server:
        yield server


@pytest.fixture
def driver(server: Neo4jServer) -> Iterator[Driver]:
    server.start()  # a test before this one may have failed with the server down
    with server.driver() as driver:
        yield driver


@pytest.mark.neo4j
class TestServer:
    def test_makes_a_search_index_anew_that_somebody_dropped(
        self, server: Neo4jServer, driver: Driver, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Here, and not on the server that all tests share: nobody else has to plan meanwhile."""
        settings = Settings(user=server.user, password=server.password, embedder="hashing")
        with Memory.open(server.uri, namespace="dropped", settings=settings) as memory:
            memory.learn_many(
                {"task": f"refund {word}", "strategy": f"cancel {word}", "success": True}
                for word in ("flight", "train", "seat")
            )
            before = memory._similarity.search("cancel seat")
            for index in ("graphmem_strategy_embedding", "graphmem_task_words"):
                caplog.clear()
                driver.execute_query(f"DROP INDEX {index}")
                assert memory._similarity.search("cancel seat") == before
                assert "it is made anew" in caplog.text
            assert memory.verify().ok

    def test_data_of_an_older_version_is_brought_up_by_a_write(
        self, server: Neo4jServer, driver: Driver
    ) -> None:
        """Where nothing was read before."""
        settings = Settings(user=server.user, password=server.password, embedder="hashing")
        for number in range(2):
            with Memory.open(server.uri, namespace="older", settings=settings) as memory:
                memory.learn("a task", "ask", success=True, source_key=str(number))
            driver.execute_query("MATCH (s:Schema) SET s.version = 5")

    def test_that_has_no_apoc_extended_is_told_of_it(self, server: Neo4jServer) -> None:
        server.start()
        access = {"GRAPHMEM_USER": server.user, "GRAPHMEM_PASSWORD": server.password}
        for command in ("install", "uninstall"):
            done = run("--url", server.uri, "procedures", command, **access)
            assert (done.code, done.out) == (1, "")
            assert "put the jar of apoc-extended for Neo4j 5.26" in done.err
            assert "`graphmem procedures list NAME` prints the Cypher" in done.err
            assert len(done.err.splitlines()) == 1
