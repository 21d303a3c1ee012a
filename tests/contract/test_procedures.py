"""Every procedure by itself, on both engines: it runs, it returns what its header says, and it
neither reads nor writes outside its namespace."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest
from pydantic import JsonValue

from graphmem import Memory, Step
from graphmem.errors import QueryError
from graphmem.queries import TYPES, Query, adhoc, catalog
from tests.conftest import Opener

DAY = datetime(2026, 5, 1, tzinfo=UTC)
PROCEDURES = [query for query in catalog() if query.mode != "schema"]
HERE: dict[str, JsonValue] = {"place": "here"}
THERE: dict[str, JsonValue] = {"place": "there"}
STORE_WIDE = {"schema.version", "schema.stamp", "schema.indexes", "maintenance.namespaces"}
"""These concern the store, not a namespace; they hold no data of anybody."""

EVERYTHING = adhoc(
    """
    MATCH (n) WHERE n.ns = $ns
    OPTIONAL MATCH (n)-[r]->(m)
    RETURN n.id AS id, labels(n)[0] AS label, type(r) AS edge, m.id AS other, m.ns AS ns,
           [x IN [n.text, n.trials, n.successes, n.credit_sum, n.score_sum, n.last_used_at,
                  n.name, n.key, n.description, n.created_at, n.content_hash, n.index,
                  r.trials, r.count, r.weight, r.rank, r.agent, n.q, n.updates, n.confidence,
                  n.last, n.unrecorded, n.seq, n.position, n.consumer, n.claimed_at, n.status,
                  n.error, n.reads, n.active, n.features, n.phase, r.held, r.steps, size(n.pending),
                  n.deliveries] | toString(x)] AS held
    ORDER BY id, edge, other, r.agent
    """
)


def populate(memory: Memory, tag: str) -> None:
    """The same words in every namespace, so that a missing filter would show."""
    for number in range(3):
        memory.learn(
            "shared task",
            ["shared a", "shared b"],
            success=number != 1,
            agent="shared agent",
            task_type="shared",
            ended_at=DAY,
            source_key=f"{tag}/{number}",
            steps=[
                Step(action=tag, error="shared error"),
                Step(action="go", state=HERE, reward=1.0, next_state=THERE),
                Step(action="stay", state=THERE, reward=1.0, terminal=True),
            ],
        )
    policies = memory.policies
    policies.learn_episodes()
    policies.update(HERE, "go", 1.0, next_state=THERE, agent="shared agent", at=DAY)
    policies.update(THERE, "go", 1.0, terminal=True, agent="shared agent", success=True)
    go, stay = (policies.by_id(policy) for policy in ids(memory, "Policy")[:2])
    policies.strengthen(go, stay)
    memory.predictions.expect(go, probability=0.5)
    list(memory.events.consume("shared group", "shared consumer", limit=3))
    for week in range(12):
        policies.observe(HERE, "weekly", True, agent="shared agent", at=DAY + timedelta(weeks=week))
    weekly = policies.get(HERE, "weekly", agent="shared agent")
    assert weekly is not None
    assert memory.cycles.discover(weekly)
    memory.flush()  # else counts of reads come in while a test looks


def ids(memory: Memory, label: str) -> list[str]:
    found = memory.query(f"MATCH (n:{label}) WHERE n.ns = $ns RETURN n.id AS id ORDER BY id")
    return [row["id"] for row in found]


def arguments(query: Query, ns: str, target: Memory) -> dict[str, Any]:
    """Arguments that aim at the nodes of ``target``, in namespace ``ns``."""
    rows: dict[str, list[dict[str, Any]]] = {
        "maintenance.put_strategies": [{"id": i, "trials": 77} for i in ids(target, "Strategy")],
        "maintenance.put_outcomes": [
            {"strategy": s, "task": t, "agent": "x", "trials": 77}
            for s in ids(target, "Strategy")
            for t in ids(target, "Task")
        ],
        "maintenance.put_co_occurrences": [
            {"low": low, "high": high, "count": 77} for low, high in [ids(target, "Strategy")]
        ],
        "maintenance.put_tasks": [
            {"id": i, "description": "77", "type": "77"} for i in ids(target, "Task")
        ],
        "maintenance.put_agents": [{"id": i, "created_at": 77} for i in ids(target, "Agent")],
    }
    policies, states = ids(target, "Policy"), ids(target, "State")
    streams, claims = ids(target, "Stream"), ids(target, "Claim")
    pairs = [{"low": low, "high": high} for low, high in pairwise(policies)]
    rows |= {
        "events.advance": [{"stream": streams[0], "last": 777}],
        "events.note_episodes": [
            {"stream": streams[0], "events": [{"place": 1, "episode": ids(target, "Episode")[0]}]}
        ],
        "events.of_episodes": [
            {"id": i, "episode": ids(target, "Episode")[0]} for i in ids(target, "Transition")
        ],
        "policies.describe_states": [{"id": i, "features": "{}"} for i in states],
        "policies.open": [
            {"id": f"new {ns} {i}", "state_id": i, "stream": "x", "agent": "x"} for i in states
        ],
        "policies.put": [{"id": i, "q": 77.0} for i in policies],
        "policies.put_values": [{"id": i, "q": 77.0, "updates": 77} for i in policies],
        "policies.put_links": [{**pair, "count": 77} for pair in pairs],
        "policies.drop_links": pairs,
        "policies.took": [
            {"episode": ids(target, "Episode")[0], "policies": [{"id": policies[0], "steps": 7}]}
        ],
        "policies.spread": [{"id": i, "energy": 1.0} for i in policies],
        "policies.count_reads": [{"id": i, "reads": 7, "at": 7} for i in policies],
        "learning.count_reads": [{"id": i, "reads": 7, "at": 7} for i in ids(target, "Strategy")],
        "events.append_transitions": [
            {"id": f"{ns}:{i}", "subject": i, "next_id": states[0], "seq": 1} for i in policies
        ],
        "events.append_last_transitions": [
            {"id": f"{ns}:last:{i}", "subject": i, "seq": 1} for i in policies
        ],
        "events.append": [{"id": f"{ns}:{i}", "subject": i, "kind": "set"} for i in policies],
    }
    nodes = [
        i
        for label in (
            *("Strategy", "Task", "Agent", "Episode", "Policy", "State", "Stream", "Event"),
            *("Transition", "Prediction", "Cycle", "Cursor", "Claim"),
        )
        for i in ids(target, label)
    ]
    one = {
        "events.open_cursor": f"cursor of {ns}",
        "events.move_cursor": ids(target, "Cursor")[0],
        "events.claim": ids(target, "Cursor")[0],
        "predictions.resolve": ids(target, "Prediction")[0],
        "predictions.expect": f"prediction of {ns}",
    }
    known: dict[str, Any] = {
        "ns": ns,
        "now": 1,
        "ids": nodes,
        "tasks": ids(target, "Task"),
        "id": one.get(
            query.name,
            policies[0] if query.name.startswith("policies.") else ids(target, "Episode")[0],
        ),
        "strategy": ids(target, "Strategy")[0],
        "rows": rows.get(query.name, []),
        "task": None if query.name.startswith("maintenance.") else "shared task",
        "others": None,
        "text": "shared task",
        "task_type": "shared",
        "agent": "shared agent",
        "limit": 50,
        "half_life": 1e9,
        "co_occurrence_half_life_days": 90.0,
        "version": 1,
        "at_least": 1,
        "established": 0.6,
        "refuted": 0.4,
        "stream": streams[0],
        "stream_id": streams[0],
        "streams": streams,
        "policy_id": policies[0],
        "state_id": states[0],
        "next_state_id": states[0],
        "states": states,
        "reward": 1.0,
        "group": "shared group",
        "consumer": "shared consumer" if query.name == "events.acknowledge" else "another",
        "claim": claims[0],
        "before": 2**60,
        "done": [1, 2, 3],
        "position": 777,
        "seq": 777,
        "subject": policies[0],
        "subjects": nodes,
        "kind": "policy",
        "how": "acted",
        "error": 0.5,
        "probability": 0.5,
        "z": 1.96,
        "prior_successes": 1.0,
        "prior_failures": 1.0,
    }
    return {
        name: known[name] if name in known or param.default is ... else param.default
        for name, param in query.params.items()
    }


@pytest.fixture
def two(opened: Opener) -> tuple[Memory, Memory]:
    """Two namespaces of one store with the same words in them."""
    ours = opened()
    theirs = opened(f"{ours.namespace}-other")
    populate(ours, "ours")
    populate(theirs, "theirs")
    return ours, theirs


@pytest.mark.parametrize("query", PROCEDURES, ids=lambda query: query.name)
def test_a_procedure_stays_in_its_namespace(query: Query, two: tuple[Memory, Memory]) -> None:
    ours, theirs = two
    before = theirs.store.read(EVERYTHING, ns=theirs.namespace)
    assert before
    # Aimed at the other's nodes from our namespace: nothing may come back or change.
    found = _run(ours, query, arguments(query, ours.namespace, theirs))

    assert theirs.store.read(EVERYTHING, ns=theirs.namespace) == before
    if query.name in STORE_WIDE:
        return
    own = {row["id"] for row in ours.store.read(EVERYTHING, ns=ours.namespace)}
    foreign = {row["id"] for row in before} - own
    shown = repr(found)
    assert not [identity for identity in foreign if identity in shown]
    assert "theirs/" not in shown


@pytest.mark.parametrize("query", PROCEDURES, ids=lambda query: query.name)
def test_a_procedure_returns_what_its_header_says(query: Query, two: tuple[Memory, Memory]) -> None:
    ours, _ = two
    rows = _run(ours, query, arguments(query, ours.namespace, ours))

    for row in rows:
        assert list(row) == list(query.returns)
        for name, value in row.items():
            assert value is None or isinstance(value, TYPES[query.returns[name]]), (name, value)
    if query.name.startswith(("maintenance.derive", "maintenance.stored", "analysis.")):
        assert rows


def _run(memory: Memory, query: Query, given: dict[str, Any]) -> list[dict[str, Any]]:
    if query.mode == "read":
        return memory.store.read(query, **given)
    return memory.store.transact(lambda tx: tx.run(query, **given))


@hypothesis.settings(max_examples=15)
@hypothesis.given(data=st.data())
def test_what_one_namespace_does_another_does_not_see(
    data: st.DataObject, opened: Opener, two: tuple[Memory, Memory]
) -> None:
    """Random calls of the library in one namespace leave the other as it is."""
    ours, theirs = two
    before = theirs.store.read(EVERYTHING, ns=theirs.namespace)
    stats = theirs.stats().model_dump(exclude={"snapshot_age"})
    for number in range(data.draw(st.integers(1, 4))):
        action = data.draw(st.sampled_from(["learn", "erase", "rebuild", "read"]))
        if action == "learn":
            key = data.draw(st.sampled_from(["theirs/0", "ours/0", f"new/{number}"]))
            ours.learn_many(
                [
                    {
                        "task": "shared task",
                        "strategy": data.draw(st.sampled_from(["shared a", "own"])),
                        "success": data.draw(st.booleans()),
                        "source_key": key,
                    }
                ],
                on_error="collect",
            )
        elif action == "erase":
            for identity in ids(ours, "Episode")[:1]:
                ours.erase(identity)
        elif action == "rebuild":
            ours.rebuild()
        else:
            shown = repr([ours.strategies(), ours.evidence("shared a"), ours.verify()])
            assert not [row["id"] for row in before if row["id"] in shown]
    assert theirs.store.read(EVERYTHING, ns=theirs.namespace) == before
    assert theirs.stats().model_dump(exclude={"snapshot_age"}) == stats


def test_a_statement_that_is_no_cypher_is_a_clear_error(memory: Memory) -> None:
    memory.initialize()
    with pytest.raises(QueryError):
        memory.query("MATCH (s:Strategy RETURN s")


def test_both_engines_get_the_same_text() -> None:
    """No procedure has a version for one engine only."""
    folder = catalog().folder
    assert not (folder / "neo4j").exists()
    assert not (folder / "embedded").exists()
