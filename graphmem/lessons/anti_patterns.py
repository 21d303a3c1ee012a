"""Anti-patterns: their latest failures, and better alternatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphmem.graph.access import View
from graphmem.graph.graph import Graph, Reader, Transaction
from graphmem.graph.rates import HEURISTIC_ABOVE, PRIOR
from graphmem.ids import from_millis
from graphmem.lessons.odds import least_odds
from graphmem.models.lessons import Alternative, AntiPattern
from graphmem.store.port import Row
from graphmem.text.task_types import GENERAL

COSTLY = 12
"""So many anti-patterns are looked at in the time of one use of a strategy that is passed."""
SAMPLE = 5
"""Latest episodes for, and against, that a lesson rests on (as in the procedures)."""

_UNSHOWN = ("strategy_id", "members", "first_at", "last_at")


Expectations = Mapping[str, tuple[float, str]]
"""What to expect of strategies (ids) on a task, and the counts that moved it, in words."""


def find_warnings(
    graph: Graph,
    strategies: Mapping[str, str],
    view: View,
    *,
    types: Sequence[str] | None,
    untyped: Sequence[str],
    uses: int,
    alone: bool,
) -> list[Row]:
    """Return the anti-patterns of strategies that failed more often than they worked.

    The embedded engine finds few among the edges of strategies that were used often, where it is
    quicker to look through all anti-patterns.

    Args:
        graph: the graph.
        strategies: their texts by id.
        view: what the reader may read.
        types: the types of tasks to look for; None: all.
        untyped: the ids of those of which failures on tasks without a type count, too.
        uses: how often all of them were used.
        alone: whether none of them is merged with another.
    """
    settings = graph.settings
    query = {
        "ids": sorted(strategies),
        "types": types,
        "untyped": untyped,
        "agents": view.agents,
        "at_least": view.failures(settings),
        "above": HEURISTIC_ABOVE,
    }
    options: tuple[str, ...] = ()
    if alone and not graph.must_lock and _there(graph) <= COSTLY * uses:
        query["odds"] = least_odds(
            HEURISTIC_ABOVE, PRIOR, successes=view.failures(settings), over=True
        )
        query["texts"] = sorted(strategies.values())
        options = ("scanned",)
    rows = graph.read("recall.warnings", *options, **query)
    return [row for row in rows if view.allows(*row["task_types"])]


def _there(graph: Graph) -> int:
    """Return how many anti-patterns the store has, in all namespaces."""
    count: int = graph.read("lessons.anti_patterns_there")[0]["count"]
    return count


def describe(
    graph: Graph,
    rows: list[Row],
    view: View,
    *,
    by_type: bool = True,
    expectations: Expectations | None = None,
) -> list[AntiPattern]:
    """Return the readable anti-patterns of rows, with better alternatives.

    With ``expectations`` they are warnings before a task: those that are expected to fail there
    come first.

    Without ``by_type`` only strategies tried on the tasks of the failures are considered. The time
    then does not grow with the memory.
    """
    for row in rows:
        row["task_types"] = tuple(sorted(row["task_types"]))
    rows = [row for row in rows if view.allows(*row["task_types"])]
    expected = expectations or {}
    nothing = (None, None)
    rows.sort(key=lambda row: expected.get(row["strategy_id"], nothing)[0] or 0.0)
    failures = _failures(graph, rows)
    of_types = _of_types(graph, failures, view.agents) if by_type else {}
    better = _alternatives(graph, rows, failures, view.agents, of_types)
    examples = _examples(graph, failures)
    return [
        AntiPattern(
            **{name: value for name, value in row.items() if name not in _UNSHOWN},
            first_at=from_millis(row["first_at"]),
            last_at=from_millis(row["last_at"]),
            example=examples.get(row["id"]),
            evidence=tuple(failure["episode"] for failure in failures[row["id"]]),
            better_alternative=better[row["id"]][1] if row["id"] in better else None,
            usual=_is_usual(row, of_types) if expectations is None else None,
            expected=expected.get(row["strategy_id"], nothing)[0],
            said=expected.get(row["strategy_id"], nothing)[1],
        )
        for row in rows
    ]


def refresh_preferred(tx: Transaction) -> int:
    """Link anti-patterns to their present alternatives (PREFER); return the number of links."""
    rows = preferred(tx)
    tx.run("lessons.clear_preferred")
    if rows:
        tx.run("lessons.put_preferred", rows=rows)
    return len(rows)


def preferred(tx: Transaction) -> list[Row]:
    """Return the expected PREFER edges: anti-pattern, strategy, and its outcomes."""
    least = tx.settings.anti_pattern_failures
    rows = tx.read("lessons.anti_patterns", at_least=least)
    failures = _failures(tx, rows)
    alternatives = _alternatives(tx, rows, failures, None, _of_types(tx, failures, None))
    fields = ("lift", "trials", "successes", "lower", "ground")
    return [
        {
            "id": identity,
            "strategy": strategy,
            **{name: getattr(alternative, name) for name in fields},
        }
        for identity, (strategy, alternative) in sorted(alternatives.items())
    ]


def _alternatives(
    reader: Reader,
    rows: Sequence[Row],
    failures: Mapping[str, Sequence[Row]],
    agents: Sequence[str] | None,
    of_types: Mapping[str, list[Row]],
) -> dict[str, tuple[str, Alternative]]:
    """Return the alternatives that did better than the strategies of anti-patterns (rows).

    It looks on the tasks of their latest failures first, then on all tasks of the types of these.
    Tasks without a type share none. An alternative's lower bound must be over the mean of the
    failing strategy there.
    """
    if not rows:
        return {}
    grounds: dict[str, list[tuple[str, list[Row]]]] = {row["id"]: [] for row in rows}
    tasks = [
        {
            "id": row["id"],
            "strategy": row["strategy_id"],
            "tasks": sorted({found["task"] for found in failures[row["id"]]}),
        }
        for row in rows
    ]
    tried: dict[str, list[Row]] = {}
    options = [] if agents is None else ["agents"]
    for row in reader.read("lessons.alternatives_on_tasks", *options, rows=tasks, agents=agents):
        tried.setdefault(row["id"], []).append(row)
    for identity, found in tried.items():
        grounds[identity].append(("task", found))
    chosen: dict[str, tuple[str, Row, Row, str]] = {}
    for row in rows:
        for name in sorted({found["task_type"] for found in failures[row["id"]]} - {GENERAL}):
            grounds[row["id"]].append(("task type", of_types.get(name, [])))
        for ground, found in grounds[row["id"]]:
            known = {other["strategy_id"]: other for other in found}
            failed = known.get(row["strategy_id"])
            if failed is None:
                continue
            best = next(iter(other for other in found if other is not failed), None)
            if best is not None and best["lower"] > failed["mean"]:
                chosen[row["id"]] = (best["strategy_id"], best, failed, ground)
                break
    texts = _texts(reader, [identity for identity, *_ in chosen.values()])
    return {
        identity: (
            strategy,
            Alternative(
                strategy=texts[strategy],
                lift=best["mean"] - failed["mean"],
                trials=best["trials"],
                successes=best["successes"],
                lower=best["lower"],
                ground=ground,
            ),
        )
        for identity, (strategy, best, failed, ground) in chosen.items()
    }


def _of_types(
    reader: Reader, failures: Mapping[str, Sequence[Row]], agents: Sequence[str] | None
) -> dict[str, list[Row]]:
    """Return the strategies that were tried on the types of failures, the best first, by type."""
    types = {found["task_type"] for rows in failures.values() for found in rows}
    of_types: dict[str, list[Row]] = {}
    query = {"types": sorted(types), "agents": agents}
    for row in reader.read("lessons.alternatives_on_types", **query) if types else ():
        of_types.setdefault(row["task_type"], []).append(row)
    return of_types


def _is_usual(row: Row, of_types: Mapping[str, Sequence[Row]]) -> bool | None:
    """Return whether a strategy worked, and no less often than the others, on all of its types."""
    verdicts: list[bool] = []
    for name in row["task_types"]:
        won, trials, all_won, all_trials = 0, 0, 0, 0
        for other in of_types.get(name, ()):
            all_won, all_trials = all_won + other["successes"], all_trials + other["trials"]
            if other["strategy_id"] == row["strategy_id"]:
                won, trials = other["successes"], other["trials"]
        others = all_trials - trials
        if trials and others:
            verdicts.append(won > 0 and won * others >= (all_won - won) * trials)
    return all(verdicts) if verdicts else None


def _texts(reader: Reader, ids: Sequence[str]) -> dict[str, str]:
    rows = reader.read("lookup.subjects", ids=sorted(set(ids))) if ids else []
    return {row["id"]: row["text"] for row in rows}


def _failures(reader: Reader, rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the latest failures of anti-patterns, including merged ones."""
    by_lesson: dict[str, list[Row]] = {row["id"]: [] for row in rows}
    whole = {member: row["id"] for row in rows for member in row["members"]}
    if whole:
        for failure in reader.read("lessons.evidence_of_anti_patterns", ids=sorted(whole)):
            by_lesson[whole[failure["id"]]].append(failure)
    return {identity: failures[:SAMPLE] for identity, failures in by_lesson.items()}


def _examples(graph: Graph, failures: Mapping[str, Sequence[Row]]) -> dict[str, str]:
    """Return the unmasked error of the latest failure of each anti-pattern."""
    latest = {identity: found[0] for identity, found in failures.items() if found}
    ids = sorted({row["episode"] for row in latest.values() if not row["error"]})
    rows = graph.read("lessons.step_errors", ids=ids) if ids else []
    of_steps = {row["id"]: row["error"] for row in rows}
    found = {key: row["error"] or of_steps.get(row["episode"]) for key, row in latest.items()}
    return {key: error for key, error in found.items() if error is not None}
