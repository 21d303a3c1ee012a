"""Priors in the graph: what imported files say of strategies on kinds of tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from graphmem.graph.graph import Reader, Transaction
from graphmem.graph.nearness import NearSkill
from graphmem.ids import prior_id, skill_id
from graphmem.models.skills import PriorRecord
from graphmem.store.paging import pages
from graphmem.store.port import Row


def read_priors(reader: Reader, source: str | None = None) -> list[PriorRecord]:
    """Return what a source says, or all of them, in the order of their files."""
    return [
        PriorRecord(kind=row.pop("name"), about=row.pop("description"), **row)
        for row in reader.read("skills.stored", source=source)
    ]


def best_told(reader: Reader, skills: Sequence[NearSkill], limit: int) -> dict[str, list[str]]:
    """Return the strategies that near skills tell of, the best first: to "do", and to "avoid"."""
    if not skills:
        return {"do": [], "avoid": []}
    rows = [{"id": one.id, "places": one.places and [*one.places]} for one in skills]
    told = {
        row["verdict"]: row["texts"] for row in reader.read("skills.best", rows=rows, limit=limit)
    }
    return {verdict: [*dict.fromkeys(told.get(verdict, ()))] for verdict in ("do", "avoid")}


def replace_priors(
    tx: Transaction, source: str, records: Sequence[PriorRecord]
) -> tuple[int, bool]:
    """Let a source say this alone; return how many priors it had, and whether that changes them."""
    before = read_priors(tx, source)
    if before == [*records]:
        return len(before), False
    tx.run("skills.drop", source=source)
    _add(tx, records)
    return len(before), True


def add_sources(tx: Transaction, records: Iterable[PriorRecord]) -> int:
    """Add what sources say that are not there yet; return how many priors are new."""
    there = {row["source"] for row in tx.run("skills.stored")}
    new = [one for one in records if one.source not in there]
    _add(tx, new)
    return len(new)


def _add(tx: Transaction, records: Iterable[PriorRecord]) -> None:
    """Add what new sources say; no strategy comes twice in a skill."""
    skills: dict[str, Row] = {}
    rows: list[Row] = []
    places = Counter[str]()
    for one in records:
        skill = skill_id(tx.ns, one.source, one.kind, one.about)
        named = {"id": skill, "source": one.source, "name": one.kind, "description": one.about}
        skills.setdefault(skill, {**named, "place": len(skills)})
        told = {name: getattr(one, name) for name in ("text", "verdict", "trials", "successes")}
        id_ = prior_id(tx.ns, skill, one.text)
        rows.append({"skill": skill, "id": id_, "place": places[skill], **told})
        places[skill] += 1
    for page in pages([*skills.values()]):
        tx.run("skills.put", rows=page)
    for page in pages(rows):
        tx.run("skills.tell", rows=page)
