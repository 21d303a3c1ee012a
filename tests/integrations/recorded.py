"""What a memory holds of the runs of an agent."""

from __future__ import annotations

import json
from typing import Any

from graphmem import Memory

_EPISODES = (
    "MATCH (a:Agent)-[:RAN]->(e:Episode) WHERE e.ns = $ns AND a.ns = $ns "
    "OPTIONAL MATCH (e)-[u:USED]->(s:Strategy) "
    "WITH a, e, u, s ORDER BY u.rank "
    "WITH a, e, collect(s.text) AS strategies "
    "OPTIONAL MATCH (e)-[:HAS_STEP]->(t:Step) "
    "WITH a, e, strategies, t ORDER BY t.index "
    "RETURN e.id AS id, a.name AS agent, e.task AS task, e.success AS success, e.score AS score, "
    "e.error AS error, "
    "e.source AS source, strategies, collect(t.action_type) AS tools, "
    "collect(coalesce(t.action, '')) AS actions, collect(coalesce(t.observation, '')) AS seen, "
    "collect(coalesce(t.error, '')) AS errors, e.started_at AS started_at, "
    "e.ended_at AS ended_at ORDER BY ended_at, id"
)


def episodes(memory: Memory) -> list[dict[str, Any]]:
    """The episodes with their strategies and steps, the earliest first."""
    return list(memory.query(_EPISODES))


def abandoned(memory: Memory) -> list[dict[str, Any]]:
    """The attempts without an outcome."""
    return list(memory.query("attempts.abandoned"))


def arguments(episode: dict[str, Any]) -> list[Any]:
    """What the tools of an episode were called with."""
    return [json.loads(action) if action else None for action in episode["actions"]]
