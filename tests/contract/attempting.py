"""What the tests of attempts share: a task, and what a memory has of attempts."""

from __future__ import annotations

from typing import Any

from graphmem import Memory

TASK = "refund a cancelled flight"
WAY = "check the fare rules"


def episodes(memory: Memory) -> list[dict[str, Any]]:
    """What is learned: task, success, score, error, strategies, the earliest first."""
    text = (
        "MATCH (e:Episode) WHERE e.ns = $ns OPTIONAL MATCH (e)-[u:USED]->(s:Strategy) "
        "WITH e, u, s ORDER BY u.rank "
        "RETURN e.id AS id, e.task AS task, e.success AS success, e.score AS score, "
        "e.error AS error, e.started_at AS started_at, e.ended_at AS ended_at, "
        "e.duration AS duration, collect(s.text) AS strategies ORDER BY ended_at, id"
    )
    return list(memory.query(text))


def abandoned(memory: Memory) -> list[dict[str, Any]]:
    """The attempts without an outcome."""
    return list(memory.query("attempts.abandoned"))
