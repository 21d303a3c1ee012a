"""Recall: strategies that worked on similar tasks, with their evidence.

``docs/explanation/recall.md`` has the formulas, a worked example, and the measured benefit of each
part; ``cypher/advice/recall.cypher`` computes them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from graphmem.advice.estimate import Estimator
from graphmem.graph.access import View, read_view
from graphmem.graph.arguments import checked_text
from graphmem.graph.estimate import HEURISTIC_ABOVE, Estimate
from graphmem.graph.graph import Graph
from graphmem.graph.reads import Reads
from graphmem.ids import from_millis, strategy_id, to_millis
from graphmem.lessons.anti_patterns import describe, is_told, read_failing
from graphmem.lessons.priors import find_untried
from graphmem.models.advice import NearTask, Recall, RecallItem
from graphmem.models.fields import Input, Moment, Searched, checked
from graphmem.models.forecasts import OutcomeCounts
from graphmem.people import Facts
from graphmem.search.similarity import ROUNDED, Hit, Question
from graphmem.store.port import Row
from graphmem.text.task_types import GENERAL

SEEDS = 12  # most tasks, and strategies, from the search
HOPS = 2
"""Default number of steps: from tasks to the strategies tried on them, and to their neighbours."""
MOST_HOPS = 4
FAN_OUT = 32  # most strategies of a task, companions of a strategy, and nodes of a further step
REST = {
    ("Task", "SIMILAR_TO"): 0.2,
    ("Strategy", "SIMILAR_TO"): 0.2,
    ("Strategy", "CO_OCCURS_WITH"): 0.2,
}
"""Factor of relevance for a further step, besides the strength of its edge. It is so small that
such finds hardly ever come before strategies tried on a near task."""
VARIETY = 0.3  # weight of being unlike the strategies chosen before (0: the score alone)
ESTIMATED, BESIDE = 12, 2
"""Fewest strategies whose outcome is estimated, and how many for each item."""
POOL = 64  # number of the most relevant strategies for looking up warnings
MOST = 100  # most items
EVIDENCE = 5  # most episodes of an item, and tasks of an answer
_OWN = ("lower", "said", *OutcomeCounts.model_fields)
WARNINGS = 5  # most warnings
WARNED = 20
"""How many of them to look at: what every run uses fails most often, and is left out then."""


class Wanted(Input):
    """How much is recalled, and as of when."""

    limit: Annotated[int, Field(ge=1, le=MOST)]
    max_hops: Annotated[int, Field(ge=0, le=MOST_HOPS)] = HOPS
    at: Moment | None = None


Step = tuple[str, str]
"""A node (``task`` or ``strategy``, and its id) or an edge (``edge``, and its label)."""


class _Reached(NamedTuple):
    """A node, its relevance, and the path to it."""

    relevance: float
    way: tuple[Step, ...]


Nodes = dict[str, _Reached]  # the nodes that were reached, by id


@dataclass(slots=True)
class _Walk:
    """The nodes reached so far, and the strategies among them as ``recall.reached`` tells them."""

    tasks: Nodes = field(default_factory=dict)
    strategies: Nodes = field(default_factory=dict)
    """By the id of the strategy, before merged strategies are resolved."""
    rows: dict[str, Row] = field(default_factory=dict)
    """By the id of what the strategy counts as, the most promising first."""

    def way(self, row: Row) -> tuple[Step, ...]:
        """Return the most relevant way to a strategy; ways to successes go first."""
        own, first = row["own"], row["first"]
        if own and (not first or not first[2] or own[1] >= row["relevance"]):
            return self.strategies[own[0]].way
        task, trials, successes = first
        edge = f"OUTCOME {successes} of {trials}"
        return (*self.tasks[task].way, ("edge", edge), ("strategy", row["id"]))


class Recaller:
    """Recalls strategies of one namespace."""

    def __init__(self, graph: Graph, estimator: Estimator, facts: Facts, reads: Reads) -> None:
        self._graph = graph
        self._estimator = estimator
        self._similarity = estimator.near
        self._facts = facts
        self._reads = reads

    def recall(
        self,
        text: str,
        limit: int = 5,
        agent: str | None = None,
        max_hops: int = HOPS,
        *,
        at: datetime | None = None,
        as_of: datetime | None = None,
        user: str | None = None,
    ) -> Recall:
        """Return strategies that worked on similar tasks, and strategies to avoid.

        A search by meaning and words finds the nearest known tasks and strategies. Strategies tried
        on these tasks rank by relevance, the lower bound of what :meth:`predict` expects of them,
        and freshness; similar strategies rank lower (:mod:`graphmem.advice.recall`). New texts are
        embedded first. An empty memory answers without loading a model.

        Args:
            text: the task in words; at most 100,000 characters.
            limit: most items, from 1 to 100; there are at most 5 warnings.
            agent: use only outcomes that this agent may read; None: all.
            max_hops: from 0 to 4. 0: only strategies whose own text matches; 1: also strategies
                tried on the nearest tasks; 2 and more: if these are few, also their neighbours by
                SIMILAR_TO and CO_OCCURS_WITH, one step each.
            at: the time for computing freshness; default: now.
            as_of: what was recalled at this time, as in :meth:`predict`; facts are those that were
                told by then.
            user: also return the preferences of this user, before the facts near the text.

        Raises:
            ValidationError: an argument is wrong; the text is empty, or contains a lone surrogate.
            SettingsError: the memory was built with another embedder.
            NotFoundError: nothing was recorded by ``as_of``.
        """
        user = checked_text("user", user)
        if as_of is not None:
            until = checked("as_of", as_of, Moment)
            at = until if at is None else checked("at", at, Moment)
            past = self._estimator.past(until)
            told: Recall = past.recall(text, limit, agent, max_hops, at=at, user=user)
            facts = self._facts(told.text, user, to_millis(at), to_millis(until))
            return told.model_copy(update={"facts": tuple(facts)})
        asked = checked("text", text, Searched)
        wanted = Wanted(limit=limit, max_hops=max_hops, at=at)
        now = self._graph.now() if wanted.at is None else to_millis(wanted.at)
        told = self.find(asked, wanted, read_view(self._graph, agent), now)
        facts = self._facts(asked, user, now)
        self._reads.note("Strategy", [item.id for item in told.items if item.kind == "strategy"])
        return told.model_copy(update={"facts": tuple(facts)})

    def find(self, asked: str, wanted: Wanted, view: View, now: int) -> Recall:
        """Return what is recalled for a text, without facts; it does not count as read."""
        found = self._similarity.search(asked, SEEDS, view)
        floors = self._similarity.floors(found, SEEDS, view)
        seeds: dict[str, Nodes] = {label: {} for label in floors}
        for hit in found:
            nodes = seeds[hit.label]
            if hit.similarity >= max(floors[hit.label] - ROUNDED, ROUNDED) and len(nodes) < SEEDS:
                way = ((hit.label.lower(), hit.id),)
                nodes[hit.id] = _Reached(min(1.0, hit.similarity**2), way)
        tasks = view.tasks(self._graph, list(seeds["Task"]))
        walk = _Walk({id_: seeds["Task"][id_] for id_ in tasks}, seeds["Strategy"])
        most = max(ESTIMATED, BESIDE * wanted.limit)
        self._walk(walk, view, wanted.max_hops, now, most)
        reached = list(walk.rows.values())
        question = self._similarity.understand(asked, view)
        against = self._warned(reached, tasks, view)
        ids = dict.fromkeys([row["id"] for row in reached[:most]])
        bad = [row["strategy_id"] for row in against if row["confidence"] > HEURISTIC_ABOVE]
        ids |= dict.fromkeys(sorted({*bad[:WARNED]}))
        estimates = self._estimator.each(question, list(ids), view) if ids else ()
        expected = {one.id: one for one in estimates if one.id}
        against = [row for row in against if is_told(row, expected)][:WARNINGS]
        near = [_near_task(row, found) for row in tasks.values()]
        near.sort(key=lambda task: (-task.relevance, task.text))
        chosen = self._varied(_ranked(reached[:most], expected), wanted.limit)
        items = list(self._items(chosen, reached, walk, tasks, view))
        items += self._priors(question, len(items), wanted.limit, view)
        return Recall(
            text=asked,
            task_type=question.task_type,
            type_rule=question.type_rule,
            embedder=self._similarity.vectors.embedder.name if found else None,
            items=tuple(items),
            warnings=tuple(describe(self._graph, against, view, question, expected)),
            tasks=tuple(near[:EVIDENCE]),
            nearest=near[0] if near else self._nearest(found, view),
            floor=floors["Task"] if found else None,
        )

    def _nearest(self, found: Sequence[Hit], view: View) -> NearTask | None:
        tasks = sorted((-hit.similarity, hit.id) for hit in found if hit.label == "Task")
        rows = view.tasks(self._graph, [tasks[0][1]] if tasks else [])
        return next((_near_task(row, found) for row in rows.values()), None)

    # The walk

    def _walk(self, walk: _Walk, view: View, max_hops: int, now: int, most: int) -> None:
        """Go from what was found to strategies, step by step, until there are enough of them.

        Each strategy is reached by the fewest steps. What a further step finds comes after.
        """
        tasks, strategies = walk.tasks, walk.strategies
        rows = self._reached(tasks, strategies, view, now, by_task=max_hops > 0)
        for _ in range(1, max_hops):
            walk.rows |= {row["id"]: row for row in rows}
            if len(walk.rows) >= most:
                break
            tasks, strategies = self._further(walk, rows, tasks, view)
            walk.tasks |= tasks
            walk.strategies |= strategies
            rows = self._reached(tasks, strategies, view, now)
            rows = [row for row in rows if row["id"] not in walk.rows]
        walk.rows |= {row["id"]: row for row in rows}

    def _further(
        self, walk: _Walk, rows: Sequence[Row], tasks: Nodes, view: View
    ) -> tuple[Nodes, Nodes]:
        """Go one step from strategies and tasks; return new tasks and strategies."""
        strategies = {row["id"]: _Reached(row["relevance"], walk.way(row)) for row in rows}
        known = walk.tasks.keys() | walk.strategies.keys() | walk.rows.keys()
        new: dict[str, Nodes] = {"Task": {}, "Strategy": {}}
        steps = self._graph.read(
            "recall.beside",
            ids=_most_relevant(strategies),
            tasks=_most_relevant(tasks),
            # Co-occurrences count all agents, which one agent may not read.
            together=view.agents is None,
        )
        for step in steps:
            label, other = step["label"], step["other"]
            start = (tasks if label == "Task" else strategies)[step["id"]]
            relevance = start.relevance * REST[label, step["edge"]] * step["strength"]
            before = new[label].get(other)
            if other in known or (before and before.relevance >= relevance):
                continue
            edge = f"{step['edge']} {step['weight']:.2f}"
            way = (*start.way, ("edge", edge), (label.lower(), other))
            new[label][other] = _Reached(relevance, way)
        there = view.tasks(self._graph, list(new["Task"])) if view.agents else new["Task"]
        return {id_: new["Task"][id_] for id_ in there}, new["Strategy"]

    def _reached(
        self, tasks: Nodes, strategies: Nodes, view: View, now: int, *, by_task: bool = True
    ) -> list[Row]:
        seeds = [
            {"task": id_, "strategy": None, "relevance": near * by_task, "weight": near}
            for id_, (near, _) in sorted(tasks.items())
        ]
        seeds += [
            {"task": None, "strategy": id_, "relevance": near, "weight": 0.0}
            for id_, (near, _) in sorted(strategies.items())
        ]
        if not seeds:
            return []
        options = () if view.agents is None else ("agents",)
        query = {"seeds": seeds, "now": now, **view.filters(self._graph)}
        rows = self._graph.read("recall.reached", *options, **query)
        if any(row["merged_into"] for row in rows):
            rows = self._graph.read("recall.reached", *options, "merged", **query)
        return rows

    # The answer

    def _varied(self, ranked: Sequence[Row], limit: int) -> list[Row]:
        """Choose by maximal marginal relevance (Carbonell & Goldstein 1998); return them by score.

        Each next strategy has the highest ``(1 - v) * score / best score - v * similarity`` to the
        most similar chosen one; v is :data:`VARIETY`.
        """
        if not ranked or limit == 1:
            return list(ranked[:limit])
        import numpy as np

        ids, best = [row["id"] for row in ranked], ranked[0]["score"] or 1.0
        values = (1 - VARIETY) * np.array([row["score"] for row in ranked]) / best
        near = np.nan_to_num(self._similarity.cosines("Strategy", ids, ids))
        beside = np.zeros(len(ids))
        chosen: list[int] = []
        while len(chosen) < min(limit, len(ids)):
            taken = int(np.argmax(values - VARIETY * beside))
            values[taken] = -np.inf
            beside = np.maximum(beside, near[taken]) if chosen else near[taken]
            chosen.append(taken)
        return [ranked[place] for place in sorted(chosen)]

    def _items(
        self,
        chosen: Sequence[Row],
        ranked: Sequence[Row],
        walk: _Walk,
        tasks: Mapping[str, Row],
        view: View,
    ) -> Iterator[RecallItem]:
        ways = {row["id"]: walk.way(row) for row in chosen}
        texts = {id_: row["text"] for id_, row in tasks.items()}
        missing = {id_ for way in ways.values() for kind, id_ in way if kind == "task"} - set(texts)
        texts |= {id_: row["text"] for id_, row in view.tasks(self._graph, sorted(missing)).items()}
        # Merged strategies have that of their whole; unreadable ones have none.
        texts |= {
            id_: row["text"] for row in ranked for id_ in (row["id"], *(row["members"] or ()))
        }
        evidence = self._evidence(ways, {row["id"]: row["first"] for row in chosen}, view)
        for row in sorted(chosen, key=lambda row: (*row["estimate"].order[:2], -row["score"])):
            one = row["estimate"]
            yield RecallItem(
                **{name: row[name] for name in ("id", "score", "relevance", "freshness")},
                **{name: getattr(one, name) for name in _OWN},
                mean=one.probability,
                last_at=from_millis(row["last_at"]),
                path=("text", *(_describe_step(step, texts) for step in ways[row["id"]])),
                evidence=tuple(evidence.get(row["id"], ())),
            )

    def _priors(
        self, question: Question, works: int, limit: int, view: View
    ) -> Iterator[RecallItem]:
        """Yield what files say of strategies that were not tried on such tasks.

        The number of those that work on such tasks leaves fewer places for them.
        """
        near = {(one.source, one.kind): one.similarity for one in reversed(question.skills)}
        how = self._estimator.each, view, limit, works
        for one, good in find_untried(self._graph, question, *how):
            said = one.priors[0]
            relevance = near[said.source, said.kind] ** 2
            yield RecallItem(
                kind="prior",
                id=one.id or strategy_id(self._graph.ns, one.text),
                text=one.text,
                score=relevance * one.lower,
                relevance=relevance,
                mean=one.probability,
                lower=one.lower,
                said=one.said,
                trials=sum(prior.trials for prior in one.priors),
                successes=sum(prior.successes for prior in one.priors),
                verdict="WORKS" if good else "AVOID",
                path=("text", f"skill: {said.kind}", f"source: {said.source}"),
            )

    def _evidence(
        self, ways: Mapping[str, tuple[Step, ...]], first: Mapping[str, list[Any]], view: View
    ) -> dict[str, list[str]]:
        tasks = defaultdict[str, list[str]](list)
        rest: list[str] = []
        for id_, way in sorted(ways.items()):
            there = [node for kind, node in way if kind == "task"] or (first[id_] or [])[:1]
            (tasks[there[-1]] if there else rest).append(id_)
        seen = {"ids": rest, "agents": view.agents}
        for row in self._graph.read("recall.tasks_of", **seen) if rest else ():
            tasks[row["task"]].append(row["id"])
        asked = [{"task": task, "ids": ids} for task, ids in sorted(tasks.items())]
        by_strategy = defaultdict[str, list[str]](list)
        only = {} if view.agents is None else {"agents": view.agents}
        for row in self._graph.read("recall.episodes", *only, rows=asked, **only) if asked else ():
            by_strategy[row["id"]].append(row["episode"])
        return {id_: episodes[:EVIDENCE] for id_, episodes in by_strategy.items()}

    def _warned(self, reached: Sequence[Row], tasks: Mapping[str, Row], view: View) -> list[Row]:
        """Return the rows of anti-patterns on these types of tasks, most relevant and certain ones.

        Tasks without a type share no lessons: for them, what fails on the near tasks counts.
        """
        near = sorted(reached, key=lambda row: (-row["relevance"], row["id"]))[:POOL]
        if not near or not tasks:
            return []
        types = {row["task_type"] for row in tasks.values()}
        rows = read_failing(
            self._graph,
            view,
            "recall.warnings",
            ids=sorted(row["id"] for row in near),
            texts=sorted({text for row in near for text in row["texts"]}),
            types=sorted(types - {GENERAL}),
            untyped=sorted(row["id"] for row in near if GENERAL in types),
        )
        relevance = {row["id"]: row["relevance"] for row in near}
        rows.sort(key=lambda row: (-relevance[row["strategy_id"]] * row["lower"], row["strategy"]))
        first: dict[tuple[str, str], Row] = {}
        for row in rows:  # of equal failures of several agents, the most certain one
            first.setdefault((row["strategy_id"], row["error_class"]), row)
        return list(first.values())


def _ranked(reached: Sequence[Row], expected: Mapping[str, Estimate]) -> list[Row]:
    """Return strategies with what to expect of them on the task, the best first.

    The score is relevance times freshness times the lower bound. A strategy that failed wherever it
    was tried near comes after one that is expected to do better, if there is any.
    """
    rows = [row | {"estimate": expected[row["id"]]} for row in reached if row["id"] in expected]
    for row in rows:
        row["score"] = row["relevance"] * row["freshness"] * row["estimate"].lower
    others = [
        (row["estimate"].probability, row["score"]) for row in rows if not _failed(row["estimate"])
    ]
    for row in rows:
        one = row["estimate"]
        better = [score for probability, score in others if probability > one.probability]
        if better and _failed(one):
            row["score"] = min(row["score"], max(better))
    return sorted(rows, key=lambda row: (-row["score"], -row["estimate"].probability, row["text"]))


def _failed(one: Estimate) -> bool:
    """Return whether a strategy was tried on the task or near ones, and never worked there."""
    return one.nearby and not one.here_successes + one.near_successes


def _near_task(row: Row, found: Sequence[Hit]) -> NearTask:
    cosine = next(hit.similarity for hit in found if hit.id == row["id"])
    return NearTask(**row, similarity=cosine, relevance=min(1.0, max(0.0, cosine) ** 2))


def _most_relevant(reached: Nodes) -> list[str]:
    return sorted(reached, key=lambda id_: (-reached[id_].relevance, id_))[:FAN_OUT]


def _describe_step(step: Step, texts: Mapping[str, str]) -> str:
    kind, what = step
    return what if kind == "edge" else f"{kind}: {texts.get(what, what)}"
