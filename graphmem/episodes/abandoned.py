"""Stores attempts that ended without an outcome, where nothing counts them."""

from __future__ import annotations

from collections.abc import Sequence

from graphmem.episodes.rows import classes_of
from graphmem.errors import ScopeError
from graphmem.graph.access import read_scopes, refusal
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import canonical_json, node_id
from graphmem.models import AbandonedAttempt
from graphmem.models.fields import millis
from graphmem.store.port import Row


def abandoned_id(namespace: str, key: str) -> str:
    """Return the id of the node of an abandoned attempt."""
    return node_id(namespace, "Abandoned", key)


Refusals = list[tuple[AbandonedAttempt, ScopeError]]


def abandon(graph: Graph, attempts: Sequence[AbandonedAttempt]) -> tuple[int, Refusals]:
    """Store attempts in one transaction; return how many are new, and what scopes refuse."""

    def work(tx: Transaction) -> tuple[int, Refusals]:
        scopes = read_scopes(tx, {attempt.agent for attempt in attempts})
        rows: dict[str, Row] = {}
        refused: Refusals = []
        for attempt in attempts:
            classes = classes_of({"task": attempt.task, "task_type": attempt.task_type})
            if error := refusal(scopes, attempt.agent, str(classes["type"])):
                refused.append((attempt, error))
            else:
                row = _row(attempt, graph.ns)
                rows.setdefault(row["id"], row)
        stored = tx.finish("attempts.abandon", rows=list(rows.values())) if rows else []
        return int(stored[0]["created"]) if stored else 0, refused

    return graph.transact(work, brief=True)


def _row(attempt: AbandonedAttempt, namespace: str) -> Row:
    return {
        "id": abandoned_id(namespace, attempt.key),
        "key": attempt.key,
        "agent": attempt.agent,
        "task": attempt.task,
        "task_type": attempt.task_type,
        "strategies": [use.text for use in attempt.strategy],
        "error": attempt.error,
        "started_at": millis(attempt.started_at),
        "ended_at": millis(attempt.ended_at),
        "step_count": len(attempt.steps),
        "record": canonical_json(attempt.record()),
    }
