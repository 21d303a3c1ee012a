"""What new episodes add to lessons: heuristics, anti-patterns, rules and mistakes.

Called in the transaction of ``learn``, after the facts are written; the procedures are in
``cypher/lessons/lessons.cypher``. The time of one call does not depend on the size of the history:
counters are added to, and of the evidence only the latest is linked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from graphmem.store.port import Row, Transaction
from graphmem.store.queries import procedure

SAMPLE = 5
"""Latest episodes for, and against, that a lesson is linked to (as in the procedures)."""
RECENT = 20
"""Latest episodes that a task is linked to (as in the procedures)."""

_COUNTED = ("id", "agent_name", "type", "error_class", "at", "used_at", "success", "score", "uses")


def promote(tx: Transaction, ns: str, rows: list[Row], now: int, crowded: Collection[str]) -> None:
    """Add new episodes (rows of :func:`graphmem.episodes.rows.episode_row`) to the lessons.

    ``crowded`` are the tasks that have more than :data:`RECENT` of them.
    """
    counted = [{name: row[name] for name in _COUNTED} for row in rows if row["uses"]]
    if counted:
        told = tx.run(procedure("lessons.count_heuristics"), ns=ns, now=now, rows=counted)
        links = _evidence(counted, "heuristic")
        _link(tx, "heuristic_evidence", SAMPLE, links, told[0]["crowded"])
    failed = [row for row in counted if row["error_class"] and not row["success"]]
    if failed:
        told = tx.run(procedure("lessons.count_anti_patterns"), ns=ns, now=now, rows=failed)
        tx.run(procedure("lessons.oppose"), rows=_opposed(failed))
        links = _evidence(failed, "anti_pattern")
        _link(tx, "anti_pattern_evidence", SAMPLE, links, told[0]["crowded"])
    recent = ({"id": row["task"], "episode": row["id"], "at": row["at"]} for row in rows)
    _link(tx, "recent", RECENT, recent, crowded)
    listing = [row for row in rows if row["listed"]]
    if listing:
        listed = [{name: row[name] for name in ("id", "task", "listed")} for row in listing]
        tx.run(procedure("lessons.list"), ns=ns, now=now, rows=listed)
        tx.run(procedure("lessons.count_rules"), now=now, rows=[_sentences(row) for row in listing])
    carded = [
        {name: row[name] for name in ("id", "at", "used_at", "made")} for row in rows if row["made"]
    ]
    if carded:
        tx.run(procedure("lessons.make"), ns=ns, now=now, rows=carded)
        tx.run(procedure("lessons.count_mistakes"), ns=ns, now=now, rows=carded)


def _evidence(rows: Iterable[Row], lesson: str) -> Iterator[Row]:
    for row in rows:
        supports = bool(row["success"]) if lesson == "heuristic" else True
        for use in row["uses"]:
            if use["applied"]:
                yield {
                    "id": use[lesson],
                    "episode": row["id"],
                    "supports": supports,
                    "at": row["at"],
                }


def _opposed(rows: Iterable[Row]) -> list[Row]:
    pairs = {
        (use["anti_pattern"], use["heuristic"])
        for row in rows
        for use in row["uses"]
        if use["applied"]
    }
    return [{"id": lesson, "heuristic": heuristic} for lesson, heuristic in sorted(pairs)]


def _link(
    tx: Transaction, what: str, keep: int, links: Iterable[Row], crowded: Collection[str]
) -> None:
    """Link what can be among the latest ``keep`` of each; of the crowded, cut off the rest."""
    groups: dict[tuple[str, bool], list[Row]] = {}
    for link in links:
        groups.setdefault((link["id"], link.get("supports", True)), []).append(link)
    latest = [
        link
        for group in groups.values()
        for link in sorted(group, key=lambda link: (link["at"], link["episode"]))[-keep:]
    ]
    tx.run(procedure(f"lessons.add_{what}"), rows=latest)
    if crowded:
        tx.run(procedure(f"lessons.trim_{what}"), ids=sorted(crowded))


def _sentences(row: Row) -> Row:
    """Return what an episode says of each rule that it lists, once a rule."""
    said: dict[str, Row] = {}
    for item in row["listed"]:
        sentence = said.setdefault(
            item["rule"], {"rule": item["rule"], "success": False, "mistake": False}
        )
        sentence["success" if item["as_success"] else "mistake"] = True
    return {
        "score": row["score"],
        "at": row["at"],
        "used_at": row["used_at"],
        "sentences": list(said.values()),
    }
