"""Priors: what imported skills and playbooks say of strategies, in the graph and on a task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from graphmem.graph.access import View
from graphmem.graph.estimate import Estimate
from graphmem.graph.graph import Reader, Transaction
from graphmem.ids import prior_id, skill_id
from graphmem.models.forecasts import Prior, PriorRecord
from graphmem.search.similarity import Expect, Question
from graphmem.store.paging import pages
from graphmem.store.port import Row

AVOID = 3
"""Most strategies to avoid by what files say."""


def read_priors(
    reader: Reader, source: str | None = None, until: int | None = None
) -> list[PriorRecord]:
    """Return what a source says, or all of them, by a time (ms), in the order of their files."""
    return [
        PriorRecord(kind=row.pop("name"), about=row.pop("description"), **row)
        for row in reader.read("skills.stored", source=source, until=until)
    ]


def find_untried(
    reader: Reader, question: Question, expect: Expect, view: View, limit: int, shown: int
) -> Iterator[tuple[Estimate, bool]]:
    """Yield what near skills tell of that was not tried on such tasks, the best first.

    What works on such tasks, and is ``shown`` already, leaves fewer places for what to do (True).
    What to avoid comes last.
    """
    rows = [{"id": one.id, "places": one.places and [*one.places]} for one in question.skills]
    found = reader.read("skills.best", rows=rows, limit=limit) if rows else []
    told = {row["verdict"]: dict.fromkeys(row["texts"]) for row in found}
    good = told.get("do", {})
    texts = [*[*good][: max(limit - shown, 0)], *[*told.get("avoid", ())][:AVOID]]
    for one in expect(question, texts, view) if texts else ():
        if one.priors and not one.nearby:
            yield one, one.text in good


def priors_of(
    reader: Reader, question: Question, texts: Mapping[str, Sequence[str]]
) -> dict[str, list[Prior]]:
    """Return what near skills say of candidates, by key; ``texts`` are those that count as each."""
    of = {
        prior_id(reader.ns, skill.id, text): (key, skill)
        for skill in question.skills
        for key, several in texts.items()
        for text in several
    }
    told = {row["id"]: row for row in reader.read("skills.told", ids=list(of))}
    found: dict[str, list[Prior]] = {}
    for identity, (key, skill) in of.items():
        row = told.get(identity)
        if row and (skill.places is None or row["place"] in skill.places):
            said = {name: row[name] for name in ("verdict", "trials", "successes")}
            prior = Prior(source=skill.source, kind=skill.kind, worth=skill.worth, **said)
            found.setdefault(key, []).append(prior)
    return {key: _weighed(said) for key, said in found.items()}


def _weighed(priors: Sequence[Prior]) -> list[Prior]:
    """Return what files say of a strategy, each with its share of what they count for together.

    They count for ``n v / (n + v)`` of their n trials, v being what the nearest one counts for, at
    most. A word without counts is one trial.
    """
    most = max(one.worth for one in priors)
    total = sum(one.trials or 1 for one in priors)
    return [
        one.model_copy(update={"worth": (one.trials or 1) * most / (total + most)})
        for one in priors
    ]


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
