"""Lists of episodes and tasks, what has an id, queries for people, and the graph for programs."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from graphmem import Episode, Memory, Step
from graphmem.errors import NotFoundError, SettingsError, ValidationError
from graphmem.kinds import NODE_KINDS
from graphmem.models.levels import LevelUpkeep
from graphmem.network import LEARNED
from tests.conftest import Clock, Opener
from tests.contract.calling import populate
from tests.contract.teaching import learn_runs, runs, tried

DAY = datetime(2026, 5, 1, tzinfo=UTC)


def learn_thirty(memory: Memory) -> None:
    """Thirty episodes on three tasks, in no order of time, five of them without a time."""
    memory.learn_many(
        Episode(
            task=f"task {number % 3}",
            strategy=["ask", "look"] if number % 2 else ["look"],
            success=number % 3 != 0,
            agent="ada" if number % 5 else "ben",
            task_type="type a" if number % 3 else "type b",
            steps=[Step(action="go", observation="it went")],
            ended_at=None if number % 6 == 5 else DAY + timedelta(hours=number * 7 % 30),
            source_key=str(number),
        )
        for number in range(30)
    )


def test_episodes_tasks_and_what_they_show(opened: Opener) -> None:
    memory = opened(embedder="hashing")
    assert memory.episodes() == []
    assert memory.tasks() == []
    learn_thirty(memory)

    everything = memory.episodes(limit=100)
    assert len(everything) == 30
    times = [row.at or row.recorded_at for row in everything]
    assert times == sorted(times, reverse=True)
    assert memory.episodes(limit=7) == everything[:7]
    for given, fits in (
        ({"task": "task 1"}, lambda row: row.task == "task 1"),
        ({"task_type": " type b"}, lambda row: row.task_type == "type b"),
        ({"strategy": "ask"}, lambda row: "ask" in row.strategies),
        ({"agent": "ben"}, lambda row: row.agent == "ben"),
        ({"success": False}, lambda row: not row.success),
        ({"since": times[4].isoformat()}, lambda row: (row.at or row.recorded_at) >= times[4]),
        (
            {"task": "task 1", "strategy": "ask", "agent": "ada", "success": True},
            lambda row: (row.task, row.agent) == ("task 1", "ada") and "ask" in row.strategies,
        ),
        ({"strategy": "look", "agent": "ben"}, lambda row: row.agent == "ben"),
    ):
        assert memory.episodes(**given, limit=100) == list(filter(fits, everything)), given
    assert memory.episodes("no such task") == []

    tasks = memory.tasks()
    assert {(row.text, row.trials, row.successes) for row in tasks} == {
        ("task 0", 10, 0),
        ("task 1", 10, 10),
        ("task 2", 10, 10),
    }
    assert {(row.strategies, row.best) for row in tasks if row.successes} == {(2, "look")}
    assert {(row.strategies, row.best, row.best_trials) for row in tasks if not row.successes} == {
        (2, None, 0)  # what never worked there is not the best
    }
    assert memory.tasks(sort="worst", limit=1)[0].text == "task 0"
    assert memory.tasks(sort="latest", limit=1)[0].last_at == max(times)
    assert [row.text for row in memory.tasks("type b")] == ["task 0"]
    mine = {row.text: row.trials for row in memory.tasks(agent="ben", sort="best")}
    assert mine == {"task 0": 2, "task 1": 2, "task 2": 2}

    shown = memory.show(everything[0])
    assert shown.kind == "episode"
    assert [step.observation for step in shown.steps] == ["it went"]
    assert {link.kind for link in shown.links} == {"agent", "task", "strategy"}
    assert memory.show(everything[0].id[:12]) == shown
    for row, kind in ((memory.strategies()[0], "strategy"), (tasks[0], "task")):
        assert memory.show(row).kind == kind
        assert memory.show(row.id).links
    for wrong in ("0" * 32, "zzzzzz", everything[0].id[:3]):
        with pytest.raises(NotFoundError):
            memory.show(wrong)
    with pytest.raises(ValidationError):
        memory.episodes(since=datetime(2026, 1, 1))


# The graph for other programs, as a graph of networkx

GROUPS = (("read the fare rules", "check the fare"), ("ask for a photo", "open a claim"))
HOSTILE = 'say "<b>&amp;\x01\x1b[31m</b>" | `end`; ]'


def learned(memory: Memory) -> None:
    """Two pairs that were used together, a strategy alike to one of the first, and one alone."""
    for number, both in enumerate(GROUPS * 4):
        memory.learn("help a traveller", list(both), success=True, source_key=f"pair {number}")
    tried(memory, "refund a flight", "check the fare rules", "--++++")
    memory.learn(HOSTILE, "shout", success=False, error="TypeError: no", agent="ben")


def plain(graph: nx.MultiDiGraph) -> tuple[dict[str, Any], list[Any]]:
    """Return the nodes and edges, edges without times and last digits."""
    edges = [
        (one, other, {name: round(v, 4) if type(v) is float else v for name, v in data.items()})
        for one, other, data in graph.edges(data=True)
    ]
    return dict(graph.nodes(data=True)), sorted(edges, key=str)


def test_a_memory_as_a_network(opened: Opener, tmp_path: Path) -> None:
    memory = opened(embedder="minilm")
    assert len(memory.to_networkx()) == 0
    learned(memory)
    memory.similar("check the fare")  # links what is alike

    whole = memory.to_networkx()
    assert {data["kind"] for _, data in whole.nodes(data=True)} <= set(LEARNED)
    by_text = {data["text"]: name for name, data in whole.nodes(data=True) if "trials" in data}
    flight, rules = by_text["refund a flight"], memory.strategies("refund a flight")[0].id
    counts = {"trials": 6, "successes": 4}
    assert whole.nodes[rules] == {"kind": "strategy", "text": "check the fare rules", **counts}
    outcome = whole.edges[rules, flight, "OUTCOME default"]
    assert outcome == {"type": "OUTCOME", "agent": "default", **counts}
    types = {data["type"] for _, _, data in whole.edges(data=True)}
    assert types >= {"OUTCOME", "CO_OCCURS_WITH", "SIMILAR_TO"}
    assert all(
        isinstance(value, str | int | float)
        for part in (whole.nodes(data=True), whole.edges(data=True))
        for *_, data in part
        for value in data.values()
    )

    facts = memory.to_networkx(kinds=["agent", "episode"])
    assert sum(1 for _, data in facts.nodes(data=True) if data["kind"] == "episode") == 15
    assert {data["type"] for _, _, data in facts.edges(data=True)} == {"RAN"}

    file = tmp_path / "own.graphml"
    nx.write_graphml(whole, file)
    assert plain(nx.read_graphml(file, force_multigraph=True)) == plain(whole)

    refused: tuple[dict[str, Any], ...] = (*({"limit": 3}, {"limit": 0}, {"kinds": ["none"]}),)
    for wrong in refused:
        with pytest.raises(ValidationError):
            memory.to_networkx(**wrong)
    with pytest.raises(ValidationError, match="there are more than 2 nodes; name fewer"):
        memory.to_networkx(limit=2)
    with pytest.raises(ValidationError, match="give one of sentinel, jsonl, neo4j"):
        memory.upkeep.export(file, "graphml")  # type: ignore[arg-type]


def test_edges_to_what_is_not_wanted_do_not_count(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(9):
        memory.learn(f"task {number}", ["look", "go"], success=True)
    monkeypatch.setattr("graphmem.network.EDGES_EACH", 1)
    with pytest.raises(ValidationError, match="more than 15 edges"):
        memory.to_networkx(limit=15)
    graph = memory.to_networkx(kinds=["strategy"], limit=15)
    assert (len(graph), 1 <= graph.number_of_edges() <= 2) == (2, True)


def test_each_edge_is_there_once(memory: Memory) -> None:
    """However the nodes are split into pages."""
    populate(memory, "own")
    graph = memory.to_networkx(kinds=NODE_KINDS)
    rows = memory.query(
        "MATCH (n)-[r:OUTCOME|CO_OCCURS_WITH|USED|RAN|ATTEMPTED|IN_STATE|RECOMMENDS]->(m) "
        "WHERE n.ns = $ns AND coalesce(r.applied, true) "
        "RETURN n.id AS one, m.id AS other, type(r) AS type"
    )
    assert not rows.truncated
    wanted = sorted((row["one"], row["other"], row["type"]) for row in rows)
    types = {row["type"] for row in rows}
    found = sorted(
        (one, other, data["type"])
        for one, other, data in graph.edges(data=True)
        if data["type"] in types
    )
    assert found == wanted


def test_without_networkx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with Memory.open("memory:") as memory:
        memory.learn("a", "b", success=True)
        with pytest.raises(SettingsError, match=r"pip install -e '.\[plots\]'"):
            memory.to_networkx()


# Queries for people. Numbers are worked out by hand. Most bounds are those of all or nothing, which
# are short: the lower one of n successes in n trials is n / (n + z²), the upper one of none is
# z² / (n + z²).

Z2 = 1.96**2
NOW = 1_780_000_000_000
Rows = list[dict[str, Any]]
attempts = partial(runs, task="t", agent="ada")
learn = partial(learn_runs, task="t", agent="ada")


def asked(memory: Memory, name: str, columns: str, **given: Any) -> list[tuple[Any, ...]]:
    """Some columns of the rows of a query, in order."""
    rows = memory.query(f"analysis.{name}", **given)
    return [tuple(row[column] for column in columns.split()) for row in rows]


@pytest.mark.parametrize(
    ("name", "one", "other", "wanted"),
    [
        (
            "no_alternative",
            attempts("walk", "-", error="too far"),
            attempts("go on foot", "-", error="too far"),
            {"occurrences": 2, "trials": 2, "others": 0},
        ),
        (
            "disputed_strategies",
            attempts("ask", "+" * 6, agent="ada"),
            attempts("inquire", "-" * 6, agent="grace"),
            {"works_for": "ada", "fails_for": "grace"},
        ),
    ],
)
def test_merged_strategies_are_one(
    memory: Memory, name: str, one: Rows, other: Rows, wanted: dict[str, Any]
) -> None:
    memory.learn_many([*one, *other])
    assert memory.query(f"analysis.{name}") == []
    kept, merged = one[0]["strategy"], other[0]["strategy"]
    memory.lessons.merge(kept, merged)
    [row] = memory.query(f"analysis.{name}")
    assert {column: row[column] for column in ("strategy", *wanted)} == {"strategy": kept, **wanted}
    memory.lessons.unmerge(kept)
    assert memory.query(f"analysis.{name}") == []


def test_failures_are_counted_by_class_over_strategies_and_agents(memory: Memory) -> None:
    def fail(strategy: list[str], error: str | None, agent: str, score: float = 0.0) -> None:
        memory.learn("t", strategy, score=score, error=error, agent=agent)

    fail(["a", "b"], "no row 17", "ada", 0.25)
    fail(["a"], "no row 4", "grace")
    fail(["c"], "no row 99", "grace", 0.4)
    fail(["a"], "timeout", "ada")
    fail([], None, "ada", 0.1)
    memory.learn("t", "a", success=True, error="no row 3")  # got over it
    columns = "error_class failures share lost_score strategies agents"
    rows = asked(memory, "costly_errors", columns)
    assert rows == [
        ("no row <number>", 3, pytest.approx(3 / 5), pytest.approx(0.75 + 1 + 0.6), 3, 2),
        ("timeout", 1, pytest.approx(1 / 5), pytest.approx(1.0), 1, 1),
        (None, 1, pytest.approx(1 / 5), pytest.approx(0.9), 0, 1),
    ]
    # What is left out by a limit still counts in the shares.
    assert asked(memory, "costly_errors", columns, limit=1) == rows[:1]
    memory.lessons.merge("a", "b")
    assert memory.query("analysis.costly_errors")[0]["strategies"] == 2


def test_what_fails_although_nothing_is_better_on_the_type(memory: Memory) -> None:
    trips: dict[str, Any] = {"task": "go", "task_type": "trip"}
    meals: dict[str, Any] = {"task": "eat", "task_type": "meal"}
    learn(memory, "walk", "---", **trips, error="too far")
    learn(memory, "ride", "++", **trips)
    learn(memory, "walk", "--", **meals, error="too far", agent="grace")
    learn(memory, "walk", "++++", **meals, agent="grace", ended_at=None)
    learn(memory, "ride", "-", **meals, error="too far")
    # On trips walking fails, but riding is better. On meals walking is the best that is known,
    # over both agents together, and fails now and then.
    columns = "agent strategy error_class task_type occurrences trials successes others lower"
    [(*row, lower)] = asked(memory, "no_alternative", columns, z_value=1.0)
    assert row == ["grace", "walk", "too far", "meal", 2, 6, 4, 1]
    # 4 of 6 with z = 1
    assert lower == pytest.approx((2 / 3 + 1 / 12 - (1 / 27 + 1 / 144) ** 0.5) / (7 / 6))
    assert memory.query("analysis.no_alternative", at_least=3) == []


def test_disputed_is_a_lower_bound_over_the_upper_bound_of_another_agent(memory: Memory) -> None:
    learn(memory, "ask", "+" * 6, agent="ada")
    learn(memory, "ask", "-" * 6, agent="grace")
    learn(memory, "ask", "+++-", agent="joan")  # knows too little to disagree
    learn(memory, "ask", "------", agent="ada", task="u", task_type="another")
    learn(memory, "guess", "+" * 4, agent="ada")
    learn(memory, "guess", "-" * 3, agent="grace")
    columns = (
        "strategy task_type works_for successes trials lower fails_for other_successes "
        "other_trials other_upper"
    )
    high, low = pytest.approx(6 / (6 + Z2)), pytest.approx(Z2 / (6 + Z2))
    assert asked(memory, "disputed_strategies", columns) == [
        ("ask", "general", "ada", 6, 6, high, "grace", 0, 6, low)
    ]
    # At z = 1 the bounds are narrower: 3 of 4 is from 0.5 to 0.9.
    rows = memory.query("analysis.disputed_strategies", z_value=1.0)
    assert [(row["strategy"], row["works_for"], row["fails_for"]) for row in rows] == [
        ("ask", "ada", "grace"),
        ("guess", "ada", "grace"),
        ("ask", "joan", "grace"),
    ]
    gaps = [row["lower"] - row["other_upper"] for row in rows]
    assert gaps == pytest.approx([6 / 7 - 1 / 7, 4 / 5 - 1 / 4, 1 / 2 - 1 / 7])


def test_what_levels_hold_and_what_flows_between_them(memory: Memory, clock: Clock) -> None:
    clock.now = NOW
    levels = memory.levels
    levels.default("ada")
    levels.put("task:deploy:shared", upkeep=LevelUpkeep(decay=0.5, prune=0.25))
    levels.add("agent:ada:working", {"fact": "order 17 is late", "domain": "orders"}, tags=["a"])
    levels.add("agent:ada:working", "a bell rings", tags=["a", "b"], ttl=10)
    levels.add("task:deploy:shared", "fades in two minutes", key="k", tags=["b"])
    levels.tick("ada")
    levels.add("agent:ada:sensory", "not pulled yet")
    levels.put_lens("collective:seen", ["agent:ada:working", "task:deploy:shared"], max_age=60)

    contents = asked(memory, "level_contents", "level entries capacity reads", limit=3)
    assert contents == [
        ("agent:ada:stm", 2, 500, 4),  # two long-term levels pull from it
        ("agent:ada:working", 2, None, 2),
        ("agent:ada:sensory", 1, None, 0),
    ]
    later = asked(memory, "level_contents", "level entries", at=NOW + 10_000, limit=2)
    assert later == [("agent:ada:stm", 2), ("agent:ada:sensory", 1)]
    assert asked(memory, "dataflow", "source target pending made")[:1] == [
        ("agent:ada:sensory", "agent:ada:working", 1, 0)
    ]
    assert ("agent:ada:working", "agent:ada:stm", "summarise", 2) in asked(
        memory, "dataflow", "source target transformer made"
    )
    assert asked(memory, "level_tags", "tag entries levels", limit=1) == [("a", 4, 2)]
    assert asked(memory, "became", "level episodes knowledge") == [("agent:ada:stm", 0, 1)]
    assert asked(memory, "going", "level key text goes_at why")[:3] == [
        ("agent:ada:working", None, "a bell rings", NOW + 10_000, "expires"),
        ("agent:ada:sensory", None, "not pulled yet", NOW + 60_000, "expires"),
        ("task:deploy:shared", "k", "fades in two minutes", pytest.approx(NOW + 120_000), "fades"),
    ]
    assert asked(memory, "lens_views", "lens level entries most", at=NOW + 10_000) == [
        ("collective:seen", "agent:ada:working", 1, 10),
        ("collective:seen", "task:deploy:shared", 1, 10),
    ]
