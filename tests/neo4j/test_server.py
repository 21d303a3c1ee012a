"""The server that the other tests rely on: it answers, stays local, and survives a crash."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from neo4j import Driver
from neo4j.exceptions import DriverError, Neo4jError

from graphmem import Memory, Settings
from tests.neo4j.jars import REPOSITORY
from tests.neo4j.server import Neo4jServer, Neo4jUnavailable, find_or_start

ORPHAN = """\
import time
from tests.neo4j.server import Neo4jServer
server = Neo4jServer(short_lived=True).start()
print(server.pid, server.home, flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Neo4jServer]:
    local = Neo4jServer(short_lived=True)
    try:
        local.start()
    except Neo4jUnavailable as error:
        local.close()
        if os.environ.get("GRAPHMEM_REQUIRE_NEO4J") == "1":
            raise
        pytest.skip(str(error))
    with local:
        yield local


@pytest.fixture
def driver(server: Neo4jServer) -> Iterator[Driver]:
    server.start()  # a test before this one may have failed with the server down
    with server.driver() as driver:
        yield driver


@pytest.mark.neo4j
class TestServer:
    def test_answers_with_the_version_that_is_tested(self, driver: Driver) -> None:
        records, _, _ = driver.execute_query("CALL dbms.components() YIELD versions")
        assert records[0]["versions"][0].startswith("5.26.")

    def test_keeps_committed_data_over_a_crash(self, server: Neo4jServer) -> None:
        where = server.uri, server.browser_url
        with server.driver() as driver:
            driver.execute_query("UNWIND range(1, 1000) AS i CREATE (:CrashTest {i: i})")
            session = driver.session()
            unfinished = session.begin_transaction()
            unfinished.run("CREATE (:CrashTest {i: 0})").consume()
            server.kill()
            with pytest.raises((DriverError, Neo4jError)):
                unfinished.commit()
            session.close()
        assert not server.running
        server.restart()
        assert (server.uri, server.browser_url) == where
        with server.driver() as driver:
            records, _, _ = driver.execute_query(
                "MATCH (n:CrashTest) RETURN count(n) AS nodes, min(n.i) AS least"
            )
            assert records[0].data() == {"nodes": 1000, "least": 1}
            driver.execute_query("MATCH (n:CrashTest) DELETE n")

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

    def test_dies_with_the_process_that_started_it(self, server: Neo4jServer) -> None:
        parent = subprocess.Popen(
            [sys.executable, "-c", ORPHAN], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
        )
        assert parent.stdout
        try:
            pid, home = parent.stdout.readline().split(maxsplit=1)
            assert _alive(int(pid))
        finally:
            parent.send_signal(signal.SIGKILL)
            parent.wait()
            parent.stdout.close()
        deadline = time.monotonic() + 60
        while _alive(int(pid)) or Path(home.strip()).exists():
            assert time.monotonic() < deadline, "the server outlived its parent"
            time.sleep(0.1)


class TestFinding:
    def test_every_reason_is_told(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        for name in ("NEO4J_URI", "JAVA_HOME"):
            monkeypatch.delenv(name, raising=False)
        with pytest.raises(Neo4jUnavailable) as caught:
            find_or_start()
        assert caught.value.reasons == (
            "NEO4J_URI is not set",
            "Docker is not installed",
            "Java 17 or later is not installed",
        )

    def test_a_named_server_that_is_down_is_not_replaced(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NEO4J_URI", "bolt://127.0.0.1:1")
        with pytest.raises(Neo4jUnavailable, match="NEO4J_URI is set, but"):
            find_or_start()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # Nobody may have collected an orphan yet in a container without an init.
    status = Path(f"/proc/{pid}/stat")
    with_state = status.read_text() if status.exists() else ""
    return ") Z " not in with_state
