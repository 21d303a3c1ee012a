"""Procedures for Cypher users: installed into a server, called there without Python, dropped."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from neo4j import Driver, GraphDatabase
from neo4j.exceptions import DatabaseError, Forbidden, Neo4jError

from graphmem import Memory, Settings
from graphmem.errors import AuthenticationError, ProcedureError, StoreError
from graphmem.store import installing
from graphmem.store.installing import install, signature, uninstall
from graphmem.store.neo4j import translated
from graphmem.store.queries import Parameter, Query, catalog
from tests.cli.running import Done, good, run
from tests.contract.calling import Asked, arguments, populate
from tests.neo4j.jars import locked
from tests.neo4j.server import Found

INSTALLABLE = [query for query in catalog() if query.install]
READING = [query for query in INSTALLABLE if query.mode == "read"]

ADD = Query(
    "tests.add",
    "read",
    "RETURN $start + $step AS sum, 'it' AS text",
    doc="Adds a step.",
    params={"step": Parameter("step", "integer", 1), "start": Parameter("start", "integer")},
    returns={"sum": "integer", "text": "string"},
    install="test_add",
)
ORDERED = Query(
    "tests.ordered",
    "read",
    "UNWIND [3, 1, 2] AS number RETURN number ORDER BY number",
    doc="Numbers in order.",
    returns={"number": "integer"},
    install="test_ordered",
)
SOMEBODYS = "CALL apoc.custom.installProcedure($name + '() :: (one :: INTEGER)', 'RETURN 1 AS one')"
DROP = "CALL apoc.custom.dropProcedure($name, 'neo4j')"


class TestSignature:
    @pytest.mark.parametrize(
        ("kind", "default", "shown"),
        [
            ("integer", 86_400_000, "86400000"),
            ("float", 1, "1.0"),
            ("float", 0.05, "0.05"),
            ("boolean", True, "true"),
            ("list", [], "[]"),
            ("map", None, "null"),
        ],
    )
    def test_defaults_are_those_of_the_header(self, kind: str, default: Any, shown: str) -> None:
        assert f"step = {shown} :: " in signature(_with_default(kind, default))

    @pytest.mark.parametrize(
        ("kind", "default"),
        [("integer", -1), ("float", 1e-7), ("string", 'a "quoted" text'), ("map", {"a": 1})],
    )
    def test_a_default_that_apoc_would_misread_is_refused(self, kind: str, default: Any) -> None:
        with pytest.raises(ProcedureError, match=r"tests\.add: APOC cannot hold the default"):
            signature(_with_default(kind, default))


class TestWithoutAServer:
    def test_the_embedded_engine_says_that_a_server_is_needed(self, tmp_path: Path) -> None:
        url = str(tmp_path / "runs.graph")
        for command in ("install", "uninstall"):
            done = run("--url", url, "procedures", command)
            assert (done.code, done.out) == (1, "")
            assert done.err.startswith("Error: procedures are installed into a Neo4j server, and ")
            assert len(done.err.splitlines()) == 1
        assert not Path(url).exists()

    def test_the_list_says_what_can_be_installed_and_how(self) -> None:
        listed = {row["name"]: row for row in good("--json", "procedures", "list").json}
        assert listed["learning.best"]["install"] == "custom.graphmem.best_strategies"
        assert listed["learning.add"]["install"] is None
        assert all(len(name) > 1 for query in INSTALLABLE for name in query.params)

    def test_a_user_who_may_not_administer_the_server_is_told(self) -> None:
        refusal = Neo4jError._hydrate_neo4j(
            code="Neo.ClientError.Security.Forbidden",
            message="Executing admin procedure 'apoc.custom.show' permission has not been granted "
            "for user 'reader' with roles [PUBLIC, reader].",
        )
        assert isinstance(refusal, Forbidden)
        with pytest.raises(AuthenticationError, match=r"GRAPHMEM_USER .*user 'reader'"):
            with translated("neo4j://localhost:7687"):
                raise refusal


@pytest.fixture(scope="module")
def driver(neo4j: Found) -> Iterator[Driver]:
    """What an analyst has: a driver, and no graphmem."""
    with GraphDatabase.driver(neo4j.uri, auth=(neo4j.user, neo4j.password)) as driver:
        yield driver


@pytest.fixture(scope="module")
def memory(neo4j: Found, procedures_lock: Path) -> Iterator[Memory]:
    """A memory with strategies and policies in it; what was installed is dropped at the end."""
    settings = Settings(user=neo4j.user, password=neo4j.password)
    namespace = f"test-{uuid4().hex[:12]}"
    with (
        locked(procedures_lock),
        Memory.open(neo4j.uri, namespace=namespace, settings=settings) as memory,
    ):
        populate(memory, "ours")
        yield memory
        uninstall(memory.store)


@pytest.fixture(scope="module")
def asked(memory: Memory) -> Asked:
    """What the arguments of procedures are about; it is looked up once."""
    return Asked(memory)


@pytest.fixture(scope="class")
def report(memory: Memory) -> list[installing.Installed]:
    """All procedures are installed."""
    return install(memory.store)


@pytest.mark.neo4j
@pytest.mark.usefixtures("report")
class TestCalls:
    def test_every_one_is_there(self, report: list[installing.Installed], driver: Driver) -> None:
        names = {item.name for item in report if item.done != "dropped"}
        assert names == {f"custom.graphmem.{query.install}" for query in INSTALLABLE}
        shown = {
            row["name"]: row["mode"]
            for row in driver.execute_query("SHOW PROCEDURES YIELD name, mode").records
        }
        assert {name: shown[name] for name in names} == {
            f"custom.graphmem.{query.install}": query.mode.upper() for query in INSTALLABLE
        }

    @pytest.mark.parametrize("query", READING, ids=lambda query: query.name)
    def test_one_that_reads_answers_as_the_library_does(
        self, query: Query, memory: Memory, asked: Asked, driver: Driver
    ) -> None:
        given = arguments(query, memory.namespace, asked)
        expected = memory.store.read(query, **given)
        assert call(driver, query, given) == expected

    @pytest.mark.parametrize(
        "query", [query for query in INSTALLABLE if query not in READING], ids=lambda q: q.name
    )
    def test_one_that_writes_can_be_called(
        self, query: Query, memory: Memory, asked: Asked, driver: Driver
    ) -> None:
        for row in call(driver, query, arguments(query, memory.namespace, asked)):
            assert list(row) == list(query.returns)

    def test_inputs_with_a_default_can_be_left_out(self, memory: Memory, driver: Driver) -> None:
        rows = driver.execute_query(
            "CALL custom.graphmem.what_works($ns) YIELD strategy, trials", ns=memory.namespace
        ).records
        found = {row["strategy"]: row["trials"] for row in rows}
        assert found
        assert found == {
            row["strategy"]: row["trials"] for row in memory.query("analysis.what_works")
        }

    def test_the_command_line_does_the_same(self, memory: Memory, neo4j: Found) -> None:
        access = {"GRAPHMEM_USER": neo4j.user, "GRAPHMEM_PASSWORD": neo4j.password}
        count = len(INSTALLABLE)

        def ask(*arguments: str) -> Done:
            done = run("--url", neo4j.uri, *arguments, **access)
            assert done.code == 0
            return done

        again = ask("procedures", "install")
        assert "custom.graphmem.td_update" in again.out
        assert "unchanged" in again.out
        dropped = ask("--json", "procedures", "uninstall")
        assert [item["done"] for item in dropped.json] == ["dropped"] * count
        assert ask("procedures", "uninstall").out == "none were installed\n"


@pytest.mark.neo4j
class TestChanges:
    def test_a_changed_text_or_version_replaces_the_old_one(
        self, memory: Memory, driver: Driver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert done(install(memory.store, procedures=[ADD])) == {"test_add": "installed"}
        assert answer(driver, "test_add(1)", "sum") == [2]
        changed = replace(ADD, text=ADD.text.replace("+ $step", "- $step"))
        assert done(install(memory.store, procedures=[changed])) == {"test_add": "updated"}
        assert answer(driver, "test_add(1)", "sum") == [0]
        monkeypatch.setattr(installing, "_version", lambda: "77.0")
        assert done(install(memory.store, procedures=[changed])) == {"test_add": "updated"}
        assert "[graphmem 77.0 " in stored(driver)["graphmem.test_add"]["description"]

    def test_changed_inputs_replace_the_old_ones(self, memory: Memory, driver: Driver) -> None:
        """APOC takes it for one that was dropped at first; it counts only when it can be called."""
        for number in range(2):
            more = {f"more_{number}": Parameter(f"more_{number}", "integer", 0)}
            changed = replace(
                ADD,
                params={**ADD.params, **more},
                text=f"RETURN $start + $step + $more_{number} AS sum",
            )
            install(memory.store, procedures=[replace(changed, returns={"sum": "integer"})])
            assert answer(driver, "test_add(1, 1, 7)", "sum") == [9]

    def test_one_that_graphmem_no_longer_has_goes(self, memory: Memory, driver: Driver) -> None:
        install(memory.store, procedures=[ADD, ORDERED])
        assert done(install(memory.store, procedures=[ORDERED])) == {
            "test_add": "dropped",
            "test_ordered": "unchanged",
        }
        with pytest.raises(DatabaseError, match="no procedure with the name"):
            deque(answer(driver, "test_add(1)", "sum") for _ in range(10_000))
        install(memory.store, procedures=[ADD])
        assert answer(driver, "test_add(1)", "sum") == [2]  # it can come back

    def test_what_others_installed_is_left_alone(self, memory: Memory, driver: Driver) -> None:
        for name in ("graphmem.somebodys", "somebodys"):
            driver.execute_query(SOMEBODYS, name=name, database_="system")
        try:
            install(memory.store, procedures=[ADD])
            with pytest.raises(StoreError, match=r"custom.graphmem.somebodys is there already"):
                install(memory.store, procedures=[replace(ADD, install="somebodys")])
            assert done(uninstall(memory.store)) == {"test_add": "dropped"}
            assert stored(driver).keys() >= {"graphmem.somebodys", "somebodys"}
        finally:
            for name in ("graphmem.somebodys", "somebodys"):
                driver.execute_query(DROP, name=name, database_="system")


def call(driver: Driver, query: Query, given: dict[str, Any]) -> list[dict[str, Any]]:
    """Call an installed procedure as an analyst does: all arguments, in the order shown."""
    name = installing.called(query)
    shown = driver.execute_query(
        "SHOW PROCEDURES YIELD name, argumentDescription WHERE name = $name "
        "RETURN [a IN argumentDescription | a.name] AS names",
        name=name,
    ).records[0]["names"]
    values = [given.get(name, query.params[name].default) for name in shown]
    slots = ", ".join(f"$p{number}" for number in range(len(values)))
    columns = ", ".join(query.returns)
    found = driver.execute_query(
        f"CALL {name}({slots}) YIELD {columns} RETURN {columns}",
        {f"p{number}": value for number, value in enumerate(values)},
    )
    return [row.data() for row in found.records]


def answer(driver: Driver, called: str, column: str) -> list[Any]:
    """What one column of a call holds."""
    rows = driver.execute_query(f"CALL custom.graphmem.{called} YIELD {column}").records
    return [row[column] for row in rows]


def stored(driver: Driver) -> dict[str, dict[str, Any]]:
    """All that is installed, whoever did it."""
    found = driver.execute_query("CALL apoc.custom.show('neo4j')", database_="system")
    return {row["name"]: row.data() for row in found.records}


def done(report: list[installing.Installed]) -> dict[str, str]:
    """What was done with each test procedure (those of graphmem go at the first of them)."""
    return {
        item.name.rpartition(".")[2]: item.done
        for item in report
        if item.name.startswith("custom.graphmem.test_")
    }


def _with_default(kind: str, default: Any) -> Query:
    return replace(ADD, params={**ADD.params, "step": Parameter("step", kind, default)})
