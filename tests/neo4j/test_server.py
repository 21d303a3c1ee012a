"""What the driver looks after, and what a server of its own is for.

That is the database, the user, logins, where reads go, and that writes are seen; and imported
tables, lost indexes, older data, no APOC Extended.
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from neo4j import Driver, GraphDatabase
from pydantic import SecretStr

from graphmem import Memory, Settings
from graphmem.errors import AuthenticationError, QueryError, SettingsError, StorageError
from graphmem.seeding import seed, sources
from graphmem.upkeep.exchange import AFTER, ARGUMENTS
from tests.cli.running import good, run
from tests.contract.teaching import dump, tamper
from tests.neo4j.jars import find_java
from tests.neo4j.server import JVM_OPTIONS, SHORT_LIVED, Found, Neo4jServer, own_server

BEGIN = re.compile(r"C: BEGIN (\{.*\})")


@pytest.mark.neo4j
def test_a_database_that_the_server_does_not_have_is_named(neo4j: Found) -> None:
    settings = Settings(user=neo4j.user, password=neo4j.password, database="nowhere")
    with Memory.open(neo4j.uri, settings=settings) as memory:
        for ask in (memory.stats, lambda: memory.learn("sort", "quicksort", success=True)):
            with pytest.raises(SettingsError, match="check GRAPHMEM_DATABASE"):
                ask()


@pytest.mark.neo4j
def test_reads_go_to_readers_and_wait_for_what_was_written(
    neo4j: Found, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(user=neo4j.user, password=neo4j.password, count_reads=False)
    with Memory.open(neo4j.uri, namespace=f"test-{uuid4().hex}", settings=settings) as memory:
        memory.learn("sort a list", "quicksort", success=True, agent="ada")
        memory.recall("sort a list")  # embeds what is new, and writes that
        with caplog.at_level(logging.DEBUG, "neo4j.io"):
            memory.recall("sort a list")
            assert (
                caplog.text.count("count(*) AS nodes") <= 3
            )  # whether few texts are there: strategies, and tasks
            memory.context("sort a list")
            memory.strategies()
            memory.choose("sort a list", ["quicksort", "bubble sort"])
        begun = BEGIN.findall(caplog.text)
        assert begun
        assert not [options for options in begun if "'mode': 'r'" not in options]
        assert not [options for options in begun if "'bookmarks': [" not in options]


WRONG = 60
"""Far more wrong passwords than a server takes before it lets a user wait, for five seconds."""


@pytest.mark.neo4j
def test_a_user_who_has_to_wait_is_told_so(neo4j: Found) -> None:
    with GraphDatabase.driver(neo4j.uri, auth=(neo4j.user, neo4j.password)) as driver:

        def administer(command: str) -> None:
            driver.execute_query(command, database_="system")

        administer("CREATE OR REPLACE USER barred SET PASSWORD 'abcdefgh' CHANGE NOT REQUIRED")
        try:
            settings = Settings(user="barred", password=SecretStr("not this"))
            said = [""]
            while "for some seconds" not in said[-1] and len(said) <= WRONG:
                with (
                    pytest.raises(AuthenticationError) as caught,
                    Memory.open(neo4j.uri, settings=settings) as memory,
                ):
                    memory.stats()
                said.append(str(caught.value))
            assert "refused the user or password" in said[1]
            assert "for some seconds" in said[-1]
            assert all("check GRAPHMEM_USER and GRAPHMEM_PASSWORD" in one for one in said[1:])
        finally:
            administer("DROP USER barred IF EXISTS")


LINES = [
    {
        "task": 'a "quoted"\ntask; with\\back, and é',
        "strategy": ["s, 1", ' "x" ', "'y'"],
        "score": 0.1,
        "ended_at": "2026-01-01T00:00:00Z",
        "successes": ["done"],
        "mistakes": ["no"],
        "summary": "one\r\ntwo",
        "extra": {"a": [1, 2.5, None]},
    },
    {
        "task": "t",
        "strategy": "s, 1",
        "success": False,
        "error": "timeout after 30 s",
        "steps": [{"action": {"x": 1}, "state": {"at": 1}, "reward": 0.5, "observation": ""}],
        "mistake_cards": [{"type": "promise", "lesson": "Name no date."}],
    },
]


class _Imported(Neo4jServer):
    """A server as most are, with APOC but without APOC Extended, that begins with a memory.

    That was seeded on the embedded engine, and comes as tables by Neo4j's own import.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "home", compiler=SHORT_LIVED)
        self.tables, self.log = folder / "tables", folder / "log.jsonl"
        self.log.write_text("\n".join(map(json.dumps, LINES)))
        with Memory.open(folder / "g") as memory:
            seed(memory, sources([str(self.log)]))
            memory.scopes.set("ada", can_learn=[])
            report = memory.upkeep.export(self.tables, "neo4j")
            assert report.nodes > 20 < report.edges
            self.held = dump(memory)

    def _prepare_home(self, jars: Path) -> None:
        super()._prepare_home(jars)
        for jar in (self.home / "plugins").glob("apoc-extended-*.jar"):
            jar.unlink()
        if (self.home / "data").exists():
            return
        places = {"NEO4J_HOME": str(self.home), "NEO4J_CONF": str(self.home / "conf")}
        tool = ["-cp", f"{jars}/*", "org.neo4j.cli.AdminTool", "database", "import", "full"]
        done = subprocess.run(
            [str(find_java()), *JVM_OPTIONS, *SHORT_LIVED, *tool, "neo4j", f"@{ARGUMENTS}"],
            cwd=self.tables,
            env={**os.environ, **places},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2_000:]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Imported]:
    server = _Imported(tmp_path_factory.mktemp("imported"))
    with own_server(server):
        yield server


@pytest.fixture
def driver(server: _Imported) -> Iterator[Driver]:
    server.start()  # a test before this one may have failed with the server down
    with server.driver() as driver:
        yield driver


@pytest.mark.neo4j
class TestServer:
    def test_has_a_seeded_memory_as_it_was(self, server: _Imported) -> None:
        settings = Settings(user=server.user, password=server.password)
        with Memory.open(server.uri, settings=settings) as memory:
            for statement in (server.tables / AFTER).read_text().splitlines():
                tamper(memory, statement)
            assert memory.verify().ok
            found, held = dump(memory), server.held
            assert found.keys() == held.keys()
            others = {key for key in held if found[key] != held[key]}
            assert all(key.startswith("Pending ") for key in others), others
            assert memory.recall("a quoted task").items
            assert seed(memory, sources([str(server.log)])).skipped == 2

    def test_says_how_to_make_a_search_index_again_that_somebody_dropped(
        self, server: _Imported, driver: Driver
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
                driver.execute_query(f"DROP INDEX {index}")
                with pytest.raises(QueryError, match=f"{index}; `graphmem init`"):
                    memory._similarity.search("cancel seat")
                memory.upkeep.initialize()
                driver.execute_query("CALL db.awaitIndexes()")
                assert memory._similarity.search("cancel seat") == before
            assert memory.verify().ok

    def test_data_of_an_older_version_is_brought_up_by_a_write(
        self, server: _Imported, driver: Driver
    ) -> None:
        """Where nothing was read before."""
        settings = Settings(user=server.user, password=server.password, embedder="hashing")
        for number in range(2):
            with Memory.open(server.uri, namespace="older", settings=settings) as memory:
                memory.learn("a task", "ask", success=True, source_key=str(number))
            driver.execute_query("MATCH (s:Schema) SET s.version = 5")

    def test_that_has_no_apoc_extended_is_told_of_it(self, server: _Imported) -> None:
        server.start()
        access = {"GRAPHMEM_USER": server.user, "GRAPHMEM_PASSWORD": server.password}
        for command in ("install", "uninstall"):
            done = run("--url", server.uri, "procedures", command, **access)
            assert (done.code, done.out) == (1, "")
            assert "put the jar of apoc-extended for Neo4j 5.26" in done.err
            assert "`graphmem procedures list NAME` prints the Cypher" in done.err
            assert len(done.err.splitlines()) == 1


def test_tables_go_into_a_new_folder(tmp_path: Path) -> None:
    url = str(tmp_path / "g")
    with Memory.open(url) as memory:
        memory.learn_many([{"task": "t", "strategy": "s", "success": True}])
        (full := tmp_path / "full").mkdir()
        (full / "a.csv").touch()
        with pytest.raises(StorageError, match="is not an empty folder"):
            memory.upkeep.export(full, "neo4j")
        with pytest.raises(StorageError, match="there is no folder"):
            memory.upkeep.export(tmp_path / "not" / "there", "neo4j")
        assert [file.name for file in full.iterdir()] == ["a.csv"]
    told = good("--url", url, "upkeep", "export", "--format", "neo4j", str(tmp_path / "new")).out
    assert "@import.args" in told
    assert not list(tmp_path.glob(".*"))
