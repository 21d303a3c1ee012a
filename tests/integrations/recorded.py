"""What a memory holds of the runs of an agent, and runs that are cancelled within a tool."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable
from typing import Any

import pytest

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
    return list(memory.query("attempts.abandoned"))


def arguments(episode: dict[str, Any]) -> list[Any]:
    return [json.loads(action) if action else None for action in episode["actions"]]


_BEGUN = threading.Event()


async def for_ever() -> None:
    """Do what such a tool does."""
    _BEGUN.set()
    await asyncio.sleep(600)


async def cancelled_there(run: Awaitable[object]) -> None:
    """Cancel a run when it waits for a tool."""
    _BEGUN.clear()
    running = asyncio.ensure_future(run)
    while not (_BEGUN.is_set() or running.done()):
        await asyncio.sleep(0.001)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
