"""How an episode lies in the graph: its rows for the procedures, and its content read back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from graphmem.errors import ValidationError, has_surrogate
from graphmem.ids import canonical_json, digest, node_id
from graphmem.models import Episode, Step, content, resolve
from graphmem.models.fields import Input, Name
from graphmem.store.port import Row
from graphmem.streams import stream_id, took


def now_millis() -> int:
    """Return the clock in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def strategy_id(namespace: str, text: str) -> str:
    """Return the id of the Strategy node of a text."""
    return node_id(namespace, "Strategy", text)


def task_id(namespace: str, key: str) -> str:
    """Return the id of the Task node of a key."""
    return node_id(namespace, "Task", key)


def episode_row(episode: Episode, namespace: str, threshold: float) -> Row:
    """Return what the procedures need of an episode; a score of ``threshold`` is a success."""
    outcome = resolve(episode, threshold)
    held = content(episode, outcome)
    content_hash = digest(canonical_json(held))
    key = ("key", episode.source_key) if episode.source_key else ("content", content_hash)
    episode_id = node_id(namespace, "Episode", *key)
    task_key = episode.task_key or episode.task
    started, ended = held.get("started_at"), held.get("ended_at")
    used_at = ended if ended is not None else started
    return {
        "id": episode_id,
        "content_hash": content_hash,
        "agent": node_id(namespace, "Agent", episode.agent),
        "agent_name": episode.agent,
        "task": task_id(namespace, task_key),
        "task_key": task_key,
        "keyed": episode.task_key is not None,
        "description": episode.task,
        "task_type": episode.task_type,
        "used_at": used_at,
        "success": int(outcome.success),
        "score": outcome.score,
        "reward": outcome.reward,
        "error": episode.error,
        "feedback": episode.feedback,
        "summary": episode.summary,
        "started_at": started,
        "ended_at": ended,
        "duration": episode.duration,
        "step_count": len(episode.steps),
        "use_count": len(episode.strategy),
        "source_key": episode.source_key,
        "source": episode.source,
        "extra": canonical_json(episode.extra) if episode.extra else None,
        "steps": [
            _step_row(node_id(namespace, "Step", episode_id, str(index)), index, step)
            for index, step in enumerate(episode.steps)
        ],
        "uses": [
            {
                "strategy": strategy_id(namespace, use.text),
                "text": use.text,
                "rank": rank,
                "credit": use.credit,
                "shown": use.shown,
                "applied": use.applied,
            }
            for rank, use in enumerate(episode.strategy)
        ],
        "stream": stream_id(namespace, episode.agent),
        "_took": took(
            namespace,
            episode.agent,
            ((step.state, step.action_type, step.action) for step in episode.steps),
        ),
        "_content": held,
    }


def read_contents(
    read: Callable[..., list[Row]], namespace: str, ids: list[str]
) -> dict[str, dict[str, Any]]:
    """Return the content (as :func:`graphmem.models.content` gives it) of stored episodes."""
    found: dict[str, dict[str, Any]] = {}
    for row in read("learning.episodes", ns=namespace, ids=ids):
        facts = row["facts"]
        names = (
            *("task", "task_type", "success", "score", "reward", "error", "feedback", "summary"),
            *("started_at", "ended_at", "duration"),
        )
        held = {name: facts[name] for name in names}
        held["agent"] = row["agent"]
        held["task_key"] = row["task_key"] if facts["keyed"] else None
        held["extra"] = json.loads(facts["extra"]) if facts["extra"] else None
        found[row["id"]] = {name: value for name, value in held.items() if value is not None}
    for row in read("learning.uses_of", ns=namespace, ids=ids):
        use = {"text": row["text"], "credit": row["credit"], "applied": row["applied"]}
        if row["shown"] is not None:
            use["shown"] = row["shown"]
        found[row["id"]].setdefault("strategy", []).append(use)
    for row in read("learning.steps_of", ns=namespace, ids=ids):
        step = {
            name: json.loads(row[name]) if name in _JSON_FIELDS else row[name]
            for name in Step.model_fields
            if row[name] is not None
        }
        found[row["id"]].setdefault("steps", []).append(step)
    return found


_JSON_FIELDS = frozenset({"action", "state", "next_state"})


def _step_row(identity: str, index: int, step: Step) -> Row:
    row: Row = {"id": identity, "index": index}
    for name, value in step.__dict__.items():
        if value is not None:
            row[name] = canonical_json(value) if name in _JSON_FIELDS else value
    return row


def check_text(name: str, value: object) -> None:
    """Refuse what no engine can be asked for.

    Raises:
        ValidationError: it is no text, or one with lone surrogates.
    """
    if not isinstance(value, str) or has_surrogate(value):
        raise ValidationError(name, value, "is no text, or holds a lone surrogate")


class _Agent(Input):
    agent: Name


def checked_agent(agent: str | None) -> str | None:
    """Return the name of an agent as it is stored, or None for all agents.

    Raises:
        ValidationError: it is no name.
    """
    return None if agent is None else _Agent(agent=agent).agent
