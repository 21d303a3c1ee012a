"""Priors: what imported files say, beside what episodes show.

The rules, mistakes, cards and scores of a Sentinel file count as evidence of one episode each (a
card as often as it was seen), together with the own episodes, which can outweigh them. What the
episodes of the file account for counts by these alone. A reader sees them who may read all types of
tasks of the agent "default", to which the episodes of a file belong.

Skills and playbooks say of strategies whether to use them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphmem.graph.access import View
from graphmem.graph.arguments import MOST
from graphmem.graph.estimate import Estimate
from graphmem.graph.graph import Graph, Reader, Transaction
from graphmem.ids import node_id, prior_id, rule_id, skill_id, task_id
from graphmem.models.forecasts import Prior, PriorRecord
from graphmem.search.similarity import Expect, Question
from graphmem.store.paging import pages
from graphmem.store.port import Row
from graphmem.text.words import normalized

SENTINEL = "sentinel"  # the source of these rules
OWNER = "default"
AVOID = 3  # most strategies to avoid by what skills say
_TAG = re.compile(r"\[(WORKS|AVOID|CONSOLIDATED|HIGH SCORE [\d.]+)\]\s*(.*)", re.DOTALL)


@dataclass
class Priors:
    """What files concluded."""

    rules: dict[str, Row] = field(default_factory=dict)  # of tasks by id, for ``lessons.sentences``
    general: dict[str, Row] = field(default_factory=dict)  # by sentence, as in ``lessons.rules``
    cards: dict[str, Row] = field(default_factory=dict)  # by id, as rows of ``lessons.mistakes``
    mistakes: list[str] = field(default_factory=list)  # sentences to avoid, of no task
    scores: dict[str, list[float]] = field(default_factory=dict)  # by task key, the earliest first

    def merge_general(self, own: Sequence[Row]) -> list[Row]:
        """Return the general rules: own ones come first, and replace those with their sentence."""
        known = {normalized(row["text"]) for row in own}
        return [*own, *(row for said, row in self.general.items() if said not in known)]


class PriorReader:
    """Reads the priors of one namespace; those of the same files are kept.

    What the episodes of a file account for changes only with its content: erasing one clears it.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._latest: tuple[list[Row], Priors] = [], Priors()

    def read(self, view: View) -> Priors:
        """Return what a reader may read."""
        if view.agents is not None and not (OWNER in view.agents and unrestricted(view)):
            return Priors()
        found = self._graph.read("priors.files")
        held = self._latest  # another thread may put others there
        if held[0] != found:
            self._latest = held = found, self._concluded(found)
        return held[1]

    def said(
        self, view: View, tasks: Sequence[str] | None, *options: str
    ) -> tuple[list[Row], list[Row]]:
        """Return what episodes say of sentences about tasks (ids; None: all): rules and mistakes.

        Sentences that more of them list as a mistake than as a success are mistakes, if no rule.
        """
        asked: Row = view.filters(self._graph)
        if tasks is not None:
            options, asked = (*options, "tasks"), {**asked, "tasks": tasks}
        rows = self._graph.read("lessons.sentences", *options, **asked)
        rules = [row for row in rows if row["verdict"] is not None]
        slips = [row for row in rows if row["verdict"] is None and row["seen"] > row["liked"]]
        slips.sort(key=lambda row: -row["seen"])
        return rules, [row | {"type": row["text"]} for row in slips]

    def cards(
        self,
        priors: Priors,
        view: View,
        task: str | None = None,
        worker: str | None = None,
        limit: int = MOST,
    ) -> list[Row]:
        """Return the mistakes of episodes and files, the most frequent first."""
        if view.agents is None:
            most = MOST if priors.cards else limit
            rows = self._graph.read("lessons.mistakes", task=task, worker=worker, limit=most)
        else:
            seen = view.filters(self._graph)
            rows = self._graph.read("lessons.mistakes_by", task=task, worker=worker, **seen)
        merged = {row["id"]: dict(row) for row in rows}
        for id_, card in priors.cards.items():
            if task not in (None, card["task"]) or worker not in (None, card["worker"]):
                continue
            row = merged.setdefault(id_, {**card, "seen": 0})
            row["seen"] += card["seen"]
            said = ("bad_decision", "evidence", "lesson")
            row |= {name: card[name] for name in said if row.get(name) is None}
        return sorted(merged.values(), key=lambda row: -row["seen"])[:limit]

    def merge_rules(
        self, priors: Priors, own: Sequence[Row], tasks: Collection[str] | None, view: View
    ) -> list[Row]:
        """Return the rules of tasks (by key; None: all) that hold by episodes and files."""
        stated = [row for row in priors.rules.values() if tasks is None or row["task"] in tasks]
        if not stated:
            return list(own)
        asked = {"rows": stated, **view.filters(self._graph)}
        rows = self._graph.read("lessons.sentences", "stated", **asked)
        counted = [row for row in rows if row["verdict"] is not None]
        texts = {(row["task"], row["text"]) for row in stated} | {
            (None, row["text"]) for row in stated if tasks is not None
        }
        return [*counted, *(row for row in own if (row.get("task"), row["text"]) not in texts)]

    def _concluded(self, files: Sequence[Row]) -> Priors:
        priors = Priors()
        rests = {row["id"]: row["rest"] for row in self._graph.read("exchange.documents")}
        for row in files:
            if rest := rests.get(row["id"]):  # not cleared meanwhile
                asked = {**row, "prefix": f"{row['name']}/"}
                del asked["name"]
                counts = Counter(one["id"] for one in self._graph.read("priors.accounted", **asked))
                _add_conclusions(priors, self._graph.ns, json.loads(rest), counts)
        return priors


def unrestricted(view: View) -> bool:
    """Return whether a view leaves out nothing but other agents."""
    scope = view.scope
    return scope is None or (
        scope.can_learn is None and not scope.cannot_learn and view.min_occurrences is None
    )


def _add_conclusions(
    priors: Priors, ns: str, rest: Mapping[str, Any], counts: Mapping[str, int]
) -> None:
    """Add what a file concluded, without what its episodes account for (numbers by id)."""
    for task, scores in rest.get("score_history", {}).items():
        earlier = scores[: max(len(scores) - counts[task_id(ns, task)], 0)]
        priors.scores.setdefault(task, []).extend(earlier)
    for task, lines in rest.get("task_rules", {}).items():
        for verdict, text in _rules(lines):
            id_ = rule_id(ns, task, text)
            if not counts[id_]:
                row = {"id": id_, "task": task, "text": text, "works": 0, "avoids": 0}
                priors.rules.setdefault(id_, row)["works" if verdict == "WORKS" else "avoids"] += 1
    for verdict, text in _rules(rest.get("global_rules", ())):
        named = {"id": node_id(ns, "Rule", "", SENTINEL, text), "text": text, "task": None}
        row = {**named, "verdict": verdict, "source": SENTINEL, "supporting": 1, "opposing": 0}
        row |= dict.fromkeys(("first_at", "last_at", "at"))
        priors.general.setdefault(normalized(text), row)
    stated = {row["text"] for row in priors.rules.values()}
    for text in rest.get("mistakes", ()):
        if text.strip() and not counts[text] and text not in (*stated, *priors.mistakes):
            priors.mistakes.append(text)
    for card in rest.get("mistake_cards", ()):
        row = _card(ns, card)
        seen = max((card.get("seen_count") or 1) - counts[row["id"]], 0)
        if seen:
            priors.cards.setdefault(row["id"], {**row, "seen": 0})["seen"] += seen


def _rules(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        tagged = _TAG.fullmatch(line.strip())
        tag, text = tagged.groups() if tagged else ("", line.strip())
        if text:
            yield "AVOID" if tag == "AVOID" else "WORKS", text


def _card(ns: str, card: Mapping[str, Any]) -> Row:

    def said(name: str) -> str | None:
        value = card.get(name)
        return None if value in (None, "") else value if isinstance(value, str) else str(value)

    kind, task = said("mistake_type") or "unknown_mistake", said("task_id") or ""
    worker, decision = said("worker_id"), said("correct_decision")
    row: Row = {
        "id": node_id(ns, "Mistake", kind, task, worker or "", decision or ""),
        "type": kind,
        "task": task,
        "worker": worker,
        "correct_decision": decision,
        **{name: said(name) for name in ("bad_decision", "evidence", "lesson")},
    }
    return row | dict.fromkeys(("first_episode", "last_episode", "first_at", "last_at"))


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
    _add_records(tx, records)
    return len(before), True


def add_sources(tx: Transaction, records: Iterable[PriorRecord]) -> int:
    """Add what sources say that are not there yet; return how many priors are new."""
    there = {row["source"] for row in tx.run("skills.stored")}
    new = [one for one in records if one.source not in there]
    _add_records(tx, new)
    return len(new)


def _add_records(tx: Transaction, records: Iterable[PriorRecord]) -> None:
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
