"""Lists of episodes and tasks, anything that has an id, and the graph for other programs."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from graphmem import Episode, Memory, Step
from graphmem.errors import NotFoundError, SettingsError, ValidationError
from graphmem.kinds import NODE_KINDS
from graphmem.network import LEARNED
from tests.conftest import Opener
from tests.contract.populating import populate
from tests.contract.teaching import tried

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


# The graph for other programs: networkx and GraphML

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


def test_a_memory_as_a_network(
    opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    report = memory.upkeep.export(file, "graphml")
    assert (report.nodes, report.edges) == (len(whole), whole.number_of_edges())
    assert plain(nx.read_graphml(file, force_multigraph=True)) == plain(whole)

    refused: tuple[dict[str, Any], ...] = (*({"limit": 3}, {"limit": 0}, {"kinds": ["none"]}),)
    for wrong in refused:
        with pytest.raises(ValidationError):
            memory.to_networkx(**wrong)
    before = file.read_text()
    with pytest.raises(ValidationError, match="there are more than 2 nodes; name fewer"):
        memory.upkeep.export(file, "graphml", limit=2)
    assert file.read_text() == before
    with pytest.raises(ValidationError, match="is for graphml"):
        memory.upkeep.export(file, "jsonl", kinds=["task"])


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


def test_without_networkx(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with Memory.open("memory:") as memory:
        memory.learn("a", "b", success=True)

        def export() -> None:
            memory.upkeep.export(tmp_path / "x.graphml", "graphml")

        for ask in (memory.to_networkx, export):
            with pytest.raises(SettingsError, match=r"pip install -e '.\[plots\]'"):
                ask()
