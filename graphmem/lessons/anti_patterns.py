"""Anti-patterns: their latest failures, and better alternatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphmem.graph.access import EVERYTHING, View
from graphmem.graph.estimate import HEURISTIC_ABOVE, STOPPED, Estimate
from graphmem.graph.graph import Graph, Reader, Transaction
from graphmem.ids import from_millis
from graphmem.models.forecasts import Change
from graphmem.models.lessons import Alternative, AntiPattern
from graphmem.search.similarity import Question
from graphmem.store.paging import grouped
from graphmem.store.port import Row
from graphmem.text.task_types import GENERAL

SAMPLE = 5  # latest episodes for, and against, that a lesson rests on (as in the procedures)


def read_failing(
    reader: Reader, view: View, name: str = "lessons.anti_patterns", **asked: Any
) -> list[Row]:
    """Return the anti-patterns that a reader may read, as rows, the most certain first.

    With "recall.warnings" they are those of given strategies; :func:`is_told` says which warn.
    """
    at_least = view.failures(reader.settings)
    rows = reader.read(name, agents=view.agents, at_least=at_least, **asked)
    return [row for row in rows if view.allows(*row["task_types"])]


def failures_since(row: Row, change: Change) -> tuple[int, int]:
    """Return what counts of an anti-pattern since a change: its failures, among all outcomes."""
    failed = min(row["occurrences"], change.trials_since - change.successes_since)
    return failed + change.successes_since, failed


def is_told(row: Row, expected: Mapping[str, Estimate]) -> bool:
    """Return whether an anti-pattern warns of a strategy on a task, by what to expect of it there.

    It does if the strategy stopped working. Else it does if the strategy failed more often than it
    worked, and than others did, and is not expected to work now.
    """
    one = expected.get(row["strategy_id"])
    if one is None or one.common:
        return False
    fails = row["confidence"] > HEURISTIC_ABOVE and not one.usual
    works = one.conclusion in ("likely", "works again", "about as often as not")
    return one.conclusion == STOPPED or (fails and not works)


def describe(
    graph: Graph,
    rows: list[Row],
    view: View,
    question: Question | None = None,
    expectations: Mapping[str, Estimate] | None = None,
) -> list[AntiPattern]:
    """Return the readable anti-patterns of rows, with better alternatives.

    With what to expect of their strategies (by id) on a task they are warnings: those that are
    expected to fail there come first. Then only what was tried on that task and near ones can be
    an alternative, so that the time does not grow with the memory.
    """
    for row in rows:
        row["task_types"] = tuple(sorted(row["task_types"]))
    expected = expectations or {}
    rows.sort(key=lambda row: one.probability if (one := expected.get(row["strategy_id"])) else 0.0)
    failures = _failures(graph, rows)
    grounds = dict(failures)
    of_types = _of_types(graph, failures, view.agents) if expectations is None else {}
    if question:
        near = {*question.tasks, *dict(question.near.tasks)}
        for id_, found_there in failures.items():
            grounds[id_] = [failure for failure in found_there if failure["task"] in near]
    better = _alternatives(graph, rows, grounds, view.agents, of_types, expected)
    found = []
    for row in rows:
        latest, one = failures[row["id"]], expected.get(row["strategy_id"])
        found.append(
            AntiPattern(
                **dated(row),
                example=latest[0]["error"] if latest else None,
                evidence=tuple(failure["episode"] for failure in latest),
                better_alternative=better[row["id"]][1] if row["id"] in better else None,
                expected=one and one.probability,
                said=one and one.said,
            )
        )
    return found


def refresh_preferred(tx: Transaction) -> int:
    """Link anti-patterns to their present alternatives (PREFER); return the number of links."""
    rows = preferred(tx)
    tx.run("lessons.clear_preferred")
    if rows:
        tx.run("lessons.put_preferred", rows=rows)
    return len(rows)


def preferred(tx: Transaction) -> list[Row]:
    """Return the expected PREFER edges: anti-pattern, strategy, and its outcomes."""
    rows = read_failing(tx, EVERYTHING)
    failures = _failures(tx, rows)
    alternatives = _alternatives(tx, rows, failures, None, _of_types(tx, failures, None))
    return [
        {**alternative.model_dump(), "id": identity, "strategy": strategy}
        for identity, (strategy, alternative) in sorted(alternatives.items())
    ]


def _alternatives(
    reader: Reader,
    rows: Sequence[Row],
    failures: Mapping[str, Sequence[Row]],
    agents: Sequence[str] | None,
    of_types: Mapping[str, list[Row]],
    expected: Mapping[str, Estimate] | None = None,
) -> dict[str, tuple[str, Alternative]]:
    """Return what did better than strategies: its lower bound is over the mean of the other one.

    It looks on the tasks of their latest failures first, then on all tasks of the types of these.
    """
    if not rows:
        return {}
    tasks = [
        {
            "id": row["id"],
            "strategy": row["strategy_id"],
            "tasks": sorted({failure["task"] for failure in failures[row["id"]]}),
        }
        for row in rows
    ]
    asked = {"rows": tasks, "agents": agents}
    tried = grouped(reader.read("lessons.alternatives_on_tasks", **asked), "id")
    chosen: dict[str, tuple[Row, Row, str]] = {}
    for row in rows:
        types = sorted({failure["task_type"] for failure in failures[row["id"]]} - {GENERAL})
        grounds = [("task", tried.get(row["id"], []))]
        grounds += [("task type", of_types.get(name, [])) for name in types]
        for ground, others in grounds:
            own = next((one for one in others if one["strategy_id"] == row["strategy_id"]), None)
            best = next((one for one in others if one is not own), None)
            now = (expected or {}).get(row["strategy_id"])
            if own and now and now.conclusion == STOPPED:
                own = {**own, "mean": now.probability}
            if own and best and best["lower"] > own["mean"]:
                chosen[row["id"]] = best, own, ground
                break
    ids = sorted({best["strategy_id"] for best, _, _ in chosen.values()})
    subjects = reader.read("lookup.subjects", ids=ids) if ids else []
    texts = {row["id"]: row["text"] for row in subjects}
    return {
        identity: (
            best["strategy_id"],
            Alternative(
                **best,
                strategy=texts[best["strategy_id"]],
                lift=best["mean"] - own["mean"],
                ground=ground,
            ),
        )
        for identity, (best, own, ground) in chosen.items()
    }


def _of_types(
    reader: Reader, failures: Mapping[str, Sequence[Row]], agents: Sequence[str] | None
) -> dict[str, list[Row]]:
    """Return the strategies that were tried on the types of failures, the best first, by type."""
    types = {one["task_type"] for found in failures.values() for one in found}
    query = {"types": sorted(types), "agents": agents}
    rows = reader.read("lessons.alternatives_on_types", **query) if types else []
    return grouped(rows, "task_type")


def _failures(reader: Reader, rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the latest failures of anti-patterns, including merged ones."""
    by_lesson: dict[str, list[Row]] = {row["id"]: [] for row in rows}
    whole = {member: row["id"] for row in rows for member in row["members"]}
    if whole:
        for failure in reader.read("lessons.evidence_of_anti_patterns", ids=sorted(whole)):
            by_lesson[whole[failure["id"]]].append(failure)
    return {identity: failures[:SAMPLE] for identity, failures in by_lesson.items()}


def dated(row: Row) -> Row:
    """Return a row of a lesson with its first and its last time as dates."""
    return row | {name: from_millis(row[name]) for name in ("first_at", "last_at")}
