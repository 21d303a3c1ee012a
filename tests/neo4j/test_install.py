"""Procedures for Cypher users: installed into a server, called there without Python, dropped."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from neo4j import Driver, GraphDatabase
from neo4j.exceptions import DatabaseError, Forbidden, Neo4jError

from graphmem import Memory, Settings, fingerprint
from graphmem.errors import AuthenticationError, ProcedureError, StoreError, UnavailableError
from graphmem.store import installing
from graphmem.store.installing import install, script, signature, uninstall
from graphmem.store.neo4j_errors import permitted
from graphmem.store.queries import Parameter, Query, catalog
from tests.cli.running import Done, good, run
from tests.contract.populating import DAY, ids, populate
from tests.neo4j.jars import locked
from tests.neo4j.server import Found, Neo4jServer, Neo4jUnavailable

INSTALLABLE = [query for query in catalog() if query.install]
READING = [query for query in INSTALLABLE if query.mode == "read"]

ADD = Query(
    "tests.add",
    "read",
    "RETURN $z + $step AS sum, 'it' AS text",
    doc="Adds a step.",
    params={
        "step": Parameter("step", "integer", 1),
        "z": Parameter("z", "integer"),
    },
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
    def test_names_of_one_letter_get_a_longer_one_and_what_may_be_left_out_is_last(self) -> None:
        assert installing.renames(ADD) == {"z": "z_value"}
        assert signature(ADD) == (
            "graphmem.test_add(z_value :: INTEGER, step = 1 :: INTEGER) "
            ":: (sum :: INTEGER, text :: STRING)"
        )
        assert "'RETURN $z_value + $step AS sum" in script(procedures=[ADD])

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

    def test_the_statements_can_be_printed(self) -> None:
        text = good("procedures", "install", "--print").out
        assert text.count("\nCALL apoc.custom.installProcedure('graphmem.") == len(INSTALLABLE)
        assert text == script() == good("--json", "procedures", "install", "--print").json["text"]

    def test_the_list_says_what_can_be_installed_and_how(self) -> None:
        listed = {row["name"]: row for row in good("--json", "procedures", "list").json}
        assert listed["learning.best"]["install"] == "custom.graphmem.best_strategies"
        assert listed["learning.best"]["renamed"] == {"z": "z_value"}
        assert listed["learning.add"]["install"] is None
        assert "z (z_value)" in good("procedures", "list", "--subject", "analysis").out

    def test_a_user_who_may_not_administer_the_server_is_told(self) -> None:
        refusal = Neo4jError._hydrate_neo4j(
            code="Neo.ClientError.Security.Forbidden",
            message="Executing admin procedure 'apoc.custom.show' permission has not been granted "
            "for user 'reader' with roles [PUBLIC, reader].",
        )
        assert isinstance(refusal, Forbidden)
        with pytest.raises(AuthenticationError, match=r"GRAPHMEM_USER .*user 'reader'"):
            with permitted("neo4j://localhost:7687"):
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
        tried = [
            memory.policies.update(
                {"page": 1},
                action,
                reward,
                next_state={"page": 2},
                success=True,
                agent="shared agent",
            )
            for action, reward in (("retry", 1.0), ("retry", 0.5), ("wait", 0.2))
        ]
        memory.policies.link(tried[0].policy_id, tried[2].policy_id)
        memory.learn_many(
            [
                {
                    "task": "lonely task",
                    "task_type": "lonely",
                    "strategy": "disputed",
                    "agent": "sure agent" if number % 2 else "unsure agent",
                    "success": bool(number % 2),
                    "error": None if number % 2 else "it broke",
                    "source_key": f"lonely {number}",
                }
                for number in range(24)
            ]
        )
        memory.learn_many(
            {
                "task": "lonely task",
                "strategy": "gets worse",
                "success": number < 6,
                "ended_at": DAY + timedelta(days=number),
                "source_key": f"worse {number}",
            }
            for number in range(12)
        )
        memory.levels.add(
            "agent:shared agent:stm",
            {"task": "lonely task", "strategy": "settled", "success": True},
        )
        memory.levels.tick("shared agent")  # which makes an episode of it
        yield memory
        uninstall(memory.store)


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
        self, query: Query, memory: Memory, driver: Driver
    ) -> None:
        given = arguments(query, memory)
        expected = memory.store.read(query, **given)
        assert call(driver, query, given) == [_renamed(query, row) for row in expected]
        if query.name.startswith(("analysis.", "learning.", "maintenance.", "policies.")):
            assert expected

    @pytest.mark.parametrize(
        "query", [query for query in INSTALLABLE if query not in READING], ids=lambda q: q.name
    )
    def test_one_that_writes_can_be_called(
        self, query: Query, memory: Memory, driver: Driver
    ) -> None:
        for row in call(driver, query, arguments(query, memory)):
            assert list(row) == list(query.returns)

    def test_an_analyst_updates_a_policy_as_the_library_would(
        self, memory: Memory, driver: Driver
    ) -> None:
        first = memory.policies.update({"page": 3}, "retry", 1.0, next_state={"page": 4})
        assert first.q == pytest.approx(0.1)
        (found,) = memory.query(
            "MATCH (p:Policy) WHERE p.ns = $ns AND p.id = '{}' "
            "MATCH (s:State) WHERE s.ns = $ns AND s.fingerprint = '{}' "
            "RETURN p.ns AS ns, p.stream AS stream_id, p.id AS policy_id, "
            "s.id AS next_state_id".format(first.policy_id, fingerprint({"page": 4}))
        )
        (row,) = call(driver, catalog()["policies.td_update"], {**found, "reward": 1.0, "now": 1})
        assert (row["q_value"], row["td_error"]) == pytest.approx((0.19, 0.9))
        third = memory.policies.update({"page": 3}, "retry", 1.0, next_state={"page": 4})
        assert third.q == pytest.approx(0.271)
        assert third.seq == row["seq"] + 1

    def test_an_analyst_who_resolves_moves_the_confidence_as_the_library_would(
        self, memory: Memory, driver: Driver
    ) -> None:
        confidence = []
        for page in (5, 6):
            memory.policies.update({"page": page}, "retry", 1.0, terminal=True)
            policy = memory.policies.best({"page": page})
            assert policy is not None
            made = memory.predictions.expect(policy, probability=0.9)
            given = {"ns": memory.namespace, "now": 1, "id": made.id, "happened": True}
            if page == 5:
                memory.predictions.resolve(made.id, happened=True)
            else:
                (row,) = call(driver, catalog()["predictions.resolve"], given)
                assert row["confidence"] == pytest.approx(0.7)
            confidence.append(memory.policies.list({"page": page})[0].confidence)
        assert confidence == pytest.approx([0.7, 0.7])

    def test_inputs_with_a_default_can_be_left_out(self, memory: Memory, driver: Driver) -> None:
        rows = driver.execute_query(
            "CALL custom.graphmem.what_works($ns) YIELD strategy, trials", ns=memory.namespace
        ).records
        found = {row["strategy"]: row["trials"] for row in rows}
        assert found["disputed"] == 24
        assert found == {
            row["strategy"]: row["trials"] for row in memory.query("analysis.what_works")
        }

    def test_doing_it_again_changes_nothing(self, memory: Memory, driver: Driver) -> None:
        before = stored(driver)
        assert {item.done for item in install(memory.store)} == {"unchanged"}
        assert stored(driver) == before

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
    def test_a_changed_text_replaces_the_old_one(self, memory: Memory, driver: Driver) -> None:
        assert done(install(memory.store, procedures=[ADD])) == {"test_add": "installed"}
        assert answer(driver, "test_add(1)", "sum") == [2]
        changed = replace(ADD, text=ADD.text.replace("+ $step", "- $step"))
        assert done(install(memory.store, procedures=[changed])) == {"test_add": "updated"}
        assert answer(driver, "test_add(1)", "sum") == [0]

    def test_changed_inputs_replace_the_old_ones(self, memory: Memory, driver: Driver) -> None:
        """APOC takes it for one that was dropped at first; it counts only when it can be called."""
        for number in range(2):
            more = {f"more_{number}": Parameter(f"more_{number}", "integer", 0)}
            changed = replace(
                ADD,
                params={**ADD.params, **more},
                text=f"RETURN $z + $step + $more_{number} AS sum",
            )
            install(memory.store, procedures=[replace(changed, returns={"sum": "integer"})])
            assert answer(driver, "test_add(1, 1, 7)", "sum") == [9]

    def test_another_version_replaces_it(
        self, memory: Memory, driver: Driver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        install(memory.store, procedures=[ADD])
        monkeypatch.setattr(installing, "_version", lambda: "77.0")
        assert done(install(memory.store, procedures=[ADD])) == {"test_add": "updated"}
        assert "[graphmem 77.0 " in stored(driver)["graphmem.test_add"]["description"]

    def test_one_that_graphmem_no_longer_has_goes(self, memory: Memory, driver: Driver) -> None:
        install(memory.store, procedures=[ADD, ORDERED])
        assert done(install(memory.store, procedures=[ORDERED])) == {
            "test_add": "dropped",
            "test_ordered": "unchanged",
        }
        wait_until_gone(driver)

    def test_it_can_come_back(self, memory: Memory, driver: Driver) -> None:
        for _ in range(2):
            install(memory.store, procedures=[ADD])
            assert answer(driver, "test_add(1)", "sum") == [2]
            uninstall(memory.store)
        wait_until_gone(driver)

    def test_what_was_pasted_is_known(self, memory: Memory, driver: Driver) -> None:
        uninstall(memory.store)
        odd = replace(ADD, doc="It's a \\ and a\nnew line.")
        calls = script(procedures=[odd, ORDERED]).split(";\n")
        for text in filter(str.strip, calls):
            driver.execute_query(text, database_="system")
        assert done(install(memory.store, procedures=[odd, ORDERED])) == {
            "test_add": "unchanged",
            "test_ordered": "unchanged",
        }
        assert answer(driver, "test_add(1)", "sum") == [2]

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

    def test_time_that_is_over_is_an_error_that_can_be_tried_again(self, memory: Memory) -> None:
        install(memory.store, procedures=[ADD])
        less = replace(ADD, params={"z": ADD.params["z"]})
        told = ""
        for _ in range(20):  # APOC may look for changes at that very moment
            less = replace(less, text=f"RETURN $z AS sum, '{uuid4().hex}' AS text")
            try:
                install(memory.store, procedures=[less], timeout=0.001)
            except UnavailableError as error:
                told = str(error)
                break
        assert "1 of 1 procedures cannot be called yet" in told
        assert done(install(memory.store, procedures=[less])) == {"test_add": "unchanged"}

    def test_waiting_can_be_left_out(self, memory: Memory) -> None:
        assert done(install(memory.store, procedures=[ORDERED], timeout=0))["test_ordered"]


class _WithoutExtended(Neo4jServer):
    """A server as most are: with APOC, but without APOC Extended."""

    def _prepare_home(self, jars: Path) -> None:
        super()._prepare_home(jars)
        for jar in (self.home / "plugins").glob("apoc-extended-*.jar"):
            jar.unlink()


class _Sandboxed(Neo4jServer):
    """A server that has APOC Extended, but does not trust it."""

    def _prepare_home(self, jars: Path) -> None:
        super()._prepare_home(jars)
        conf = self.home / "conf" / "neo4j.conf"
        lines = conf.read_text().splitlines(keepends=True)
        conf.write_text("".join(line for line in lines if "unrestricted" not in line))


@pytest.mark.neo4j
@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        (_WithoutExtended, "put the jar of apoc-extended for Neo4j 5.26"),
        (_Sandboxed, "set dbms.security.procedures.unrestricted=apoc.custom.* in neo4j.conf"),
    ],
)
def test_a_server_that_cannot_says_what_is_missing(kind: type[Neo4jServer], remedy: str) -> None:
    server = kind(short_lived=True)
    try:
        server.start()
    except Neo4jUnavailable as error:
        server.close()
        if os.environ.get("GRAPHMEM_REQUIRE_NEO4J") == "1":
            raise
        pytest.skip(str(error))
    with server:
        access = {"GRAPHMEM_USER": server.user, "GRAPHMEM_PASSWORD": server.password}
        for command in ("install", "uninstall"):
            done = run("--url", server.uri, "procedures", command, **access)
            assert (done.code, done.out) == (1, "")
            assert remedy in done.err
            assert "`graphmem procedures list NAME` prints the Cypher" in done.err
            assert len(done.err.splitlines()) == 1


def arguments(query: Query, memory: Memory) -> dict[str, Any]:
    """Arguments that find something; where nothing is known, the default or any of its type."""
    one = memory.query(
        "MATCH (p:Policy)-[:CO_OCCURS_WITH]->(:Policy) WHERE p.ns = $ns "
        "MATCH (p)-[:IN_STATE]->(s:State) "
        "RETURN p.id AS policy, s.id AS state, p.stream AS stream ORDER BY policy LIMIT 1"
    )[0]
    known: dict[str, Any] = {
        "ns": memory.namespace,
        "tasks": ids(memory, "Task"),
        "strategy": ids(memory, "Strategy")[0],
        "task": "shared task",
        "task_type": "shared",
        "agent": "shared agent",
        "limit": 50,
        "at_least": 1,
        "z": 1.96,
        "prior_successes": 1.0,
        "prior_failures": 1.0,
        "established": 0.6,
        "refuted": 0.4,
        "id": one["policy"],
        "ids": ids(memory, "Policy"),
        "policy_id": one["policy"],
        "state_id": one["state"],
        "next_state_id": one["state"],
        "stream_id": one["stream"],
        "streams": [one["stream"]],
        "rows": [{"id": one["policy"], "energy": 1.0}],
        "reward": 1.0,
        "terminal": True,
        "now": 1,
        "at": 1_800_000_000_000,
    }
    any_of = {"string": "x", "integer": 1, "float": 0.5, "boolean": True, "list": [], "map": {}}
    return {
        name: known.get(name, any_of[param.type] if param.default is ... else param.default)
        for name, param in query.params.items()
        if name != "ids" or param.default is ...
    }


def call(driver: Driver, query: Query, given: dict[str, Any]) -> list[dict[str, Any]]:
    """Call an installed procedure as an analyst does: all arguments, in the order shown."""
    name = installing.called(query)
    shown = driver.execute_query(
        "SHOW PROCEDURES YIELD name, argumentDescription WHERE name = $name "
        "RETURN [a IN argumentDescription | a.name] AS names",
        name=name,
    ).records[0]["names"]
    own = _renamed(query, {param: param for param in query.params})
    values = [given.get(own[there], query.params[own[there]].default) for there in shown]
    slots = ", ".join(f"$p{number}" for number in range(len(values)))
    columns = ", ".join(_renamed(query, dict.fromkeys(query.returns)))
    found = driver.execute_query(
        f"CALL {name}({slots}) YIELD {columns} RETURN {columns}",
        {f"p{number}": value for number, value in enumerate(values)},
    )
    return [row.data() for row in found.records]


def answer(driver: Driver, called: str, column: str) -> list[Any]:
    """What one column of a call holds."""
    rows = driver.execute_query(f"CALL custom.graphmem.{called} YIELD {column}").records
    return [row[column] for row in rows]


def wait_until_gone(driver: Driver) -> None:
    """The server answers until it looks for changes."""
    with pytest.raises(DatabaseError, match="no procedure with the name"):
        deque(answer(driver, "test_add(1)", "sum") for _ in range(10_000))


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


def _renamed(query: Query, row: dict[str, Any]) -> dict[str, Any]:
    names = installing.renames(query)
    return {names.get(name, name): value for name, value in row.items()}


def _with_default(kind: str, default: Any) -> Query:
    return replace(ADD, params={**ADD.params, "step": Parameter("step", kind, default)})
