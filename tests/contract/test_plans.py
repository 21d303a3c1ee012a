"""No procedure that is given ids looks at a whole label: an index that is lost is a red test."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from neo4j import GraphDatabase, Session

from graphmem import Memory, Settings
from graphmem.store.queries import Query, catalog
from tests.neo4j.server import Found, patiently

WHOLE = """
calibration.ids calibration.similar consolidation.hold consolidation.likely_strategies
consolidation.material consolidation.sentences consolidation.state consolidation.summaries
context.made_before cycles.list erasing.aged erasing.beliefs erasing.drop_predictions
erasing.episodes_of_user priors.accounted events.claims
events.streams exchange.documents exchange.episodes exchange.recorded explaining.alike
explaining.find_text forecasting.counts forecasting.drop_pooling forecasting.task_keys
forecasting.totals forecasting.wholes knowledge.any knowledge.list
knowledge.of_domains learning.best learning.find_tasks
lessons.alternatives_on_types lessons.anti_patterns lessons.clear_preferred lessons.counts
lessons.heuristics lessons.mistakes lessons.mistakes_by lessons.pooled_heuristics lessons.preferred
lessons.rules lessons.sentences lessons.task_scores looking.episodes looking.find
looking.tasks looking.tasks_by maintenance.drop_loose_anti_patterns
maintenance.drop_loose_heuristics maintenance.drop_loose_tallies maintenance.hold_rules
maintenance.ids_agents maintenance.ids_episodes maintenance.ids_mistakes maintenance.ids_rules
maintenance.ids_strategies maintenance.ids_tasks maintenance.inhabited
maintenance.namespaces maintenance.sizes maintenance.stats maintenance.stored_links
maintenance.stored_policies network.ids_agent network.ids_anti_pattern network.ids_episode
network.ids_heuristic network.ids_policy network.ids_rule network.ids_state network.ids_strategy
network.ids_task policies.crystallizing policies.list
predictions.drop_about predictions.expire predictions.list predictions.reliability
recall.warnings scopes.drop scopes.list scopes.task_types
similarity.texts_of_facts similarity.texts_of_strategies similarity.texts_of_tasks
"""
"""What has to look at all of a namespace, by its purpose."""
SUBJECTS = """
calibration consolidation context cycles erasing events exchange explaining forecasting
knowledge learning lessons looking lookup maintenance network policies
predictions preferences priors recall scopes shares similarity
"""
"""Whose procedures are looked at."""
SCANS = {"AllNodesScan", "NodeByLabelScan", "DirectedAllRelationshipsScan"}
BY_ID = [
    query.wanting(*options) if query.options else query
    for query in catalog()
    for options in ((), *((option,) for option in query.options))
    if query.mode != "schema"
    and query.name not in WHOLE.split()
    and (options or query.name != "learning.add_many")
    and query.name.split(".")[0] in SUBJECTS.split()
]


BY_OTHER_THAN_ID = {
    *("context.parts", "similarity.state"),
    *("maintenance.drop_stream", "lookup.described_tasks"),
    *("exchange.forget", "priors.files"),  # of the few files that were imported
}
"""These find a part of their nodes by their types, task, text or stream in a namespace."""
IDS = {"ids", "states", "tasks", "strategies", "streams", "episodes", "others"}

SAMPLED = """
CALL db.stats.retrieve('GRAPH COUNTS') YIELD data
UNWIND data.indexes AS index
WITH index WHERE index.properties = ['ns']
RETURN min(index.totalSize)
"""
"""How many nodes the planner believes to be in the smallest index of namespaces."""


@pytest.fixture(scope="module")
def session(neo4j: Found) -> Iterator[Session]:
    """A session on a server with so many small namespaces that their indexes look quicker.

    Then the planner would rather look up one namespace than 30 ids, and read all that is in it:
    it knows how large namespaces are on average, not how large this one is.
    """
    settings = Settings(user=neo4j.user, password=neo4j.password)
    with (
        Memory.open(neo4j.uri, settings=settings) as memory,
        GraphDatabase.driver(neo4j.uri, auth=(neo4j.user, neo4j.password)) as driver,
        driver.session() as session,
    ):
        memory.upkeep.initialize()
        labels = session.run(
            "SHOW INDEXES YIELD labelsOrTypes, properties WHERE properties = ['id'] "
            "RETURN labelsOrTypes[0] AS label"
        ).value()
        assert "Policy" in labels
        for label in labels:
            text = (
                "UNWIND range(1, 300) AS number WITH 'small ' + number AS name "
                f"CREATE (:{label}:Small {{id: name, ns: name}})"
            )
            patiently(lambda text=text: session.run(text).consume())  # type: ignore[misc]
        # Not prepareForReplanning, after which all others have to plan all their statements anew.
        session.run("CALL db.resampleOutdatedIndexes()").consume()
        until = time.monotonic() + 300
        while session.run(SAMPLED).single(strict=True).value() < 300:
            assert time.monotonic() < until, "the server does not look at its indexes"
            time.sleep(0.1)
        yield session
        session.run("MATCH (n:Small) DETACH DELETE n").consume()


@pytest.mark.neo4j
@pytest.mark.every_case
@pytest.mark.parametrize("subject", sorted({query.name.partition(".")[0] for query in BY_ID}))
def test_the_server_finds_nodes_by_their_ids(subject: str, session: Session) -> None:
    for query in BY_ID:
        if query.name.partition(".")[0] == subject:
            assert_finds_by_id(query, session)


def assert_finds_by_id(query: Query, session: Session) -> None:
    given: dict[str, Any] = {name: _sample(query, name) for name in query.params}
    # Planned now, not when another test ran it on a server that held next to nothing.
    text = f"CYPHER replan=force EXPLAIN {query.packed}"
    plan = patiently(lambda: session.run(text, given=given).consume().plan)
    assert plan
    shown = plan["args"]["string-representation"]
    assert not SCANS & set(_operators(plan)), shown
    if query.name not in BY_OTHER_THAN_ID:
        assert "(ns)" not in shown, shown


def _sample(query: Query, name: str) -> Any:
    if name in IDS and query.name != "learning.add_many":  # whose rows have these names
        return [f"id {number}" for number in range(30)]
    return {"list": [], "integer": 1, "float": 1.0, "boolean": True, "map": {}, "string": "x"}[
        query.params[name].type
    ]


def _operators(plan: dict[str, Any]) -> list[str]:
    own = plan["operatorType"].partition("@")[0]
    return [own, *(name for child in plan.get("children", ()) for name in _operators(child))]


SCANNED = re.compile(
    r"\{id: \w[\w.]*\}\)\n(?:WITH (?:row, )?\w )?WHERE (?!\w IS NULL)|WHERE \w\.id = \$"
)


def test_the_embedded_engine_is_not_led_to_scan() -> None:
    """It looks at every node of a label where a condition is fused with a match by an unwound id.

    Its plans and its count of work do not show that, so the text is looked at: either
    ``WHERE n.id IN $ids AND toString(n.ns) = $ns``, or ``WITH n, n.ns AS ns WHERE ns = $ns``. The
    same goes for ``WHERE n.id = $id AND n.ns = $ns`` with one id.
    """
    assert not [query.name for query in catalog() if SCANNED.search(query.text)]
