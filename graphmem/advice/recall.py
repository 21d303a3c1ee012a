"""Recall: strategies that worked on similar tasks, with their evidence.

A search by meaning and words finds tasks and strategies to start from. Those that are no more
similar than unrelated texts are not relevant, whatever words they share. OUTCOME edges lead to the
strategies tried on these tasks, which rank by ``relevance * lower * freshness``; a strategy that is
similar to an earlier one moves down. ``docs/explanation/recall.md`` has the formulas, a worked
example, and the measured benefit of each part. ``cypher/advice/recall.cypher`` computes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from graphmem.advice.estimate import STANDARD_ERRORS, Estimate, Estimator
from graphmem.advice.recall_kinds import HALF_LIFE_MS, About, Beside, checked_kinds
from graphmem.errors import ValidationError
from graphmem.graph.access import View, read_view
from graphmem.graph.arguments import check_limit, searched
from graphmem.graph.graph import Graph
from graphmem.graph.nearness import Question, understood
from graphmem.graph.rates import HEURISTIC_ABOVE
from graphmem.ids import from_millis, to_millis
from graphmem.lessons.anti_patterns import describe, find_warnings
from graphmem.models.fields import Input, Moment
from graphmem.models.lessons import AntiPattern
from graphmem.models.recall import NearTask, Recall, RecallItem
from graphmem.search.similarity import Hit, Similarity
from graphmem.store.port import Row
from graphmem.text.task_types import GENERAL

SEEDS = 12
"""Most tasks, and strategies, from the search."""
HOPS = 2
"""Default number of steps: from tasks to the strategies tried on them, and to their neighbours."""
MOST_HOPS = 4
FAN_OUT = 32
"""Most strategies of a task, companions of a strategy, and nodes of a further step."""
REST = {
    ("Task", "SIMILAR_TO"): 0.2,
    ("Strategy", "SIMILAR_TO"): 0.2,
    ("Strategy", "CO_OCCURS_WITH"): 0.2,
}
"""Factor of relevance for a further step, besides the strength of its edge. It is so small that
such finds hardly ever come before strategies tried on a near task."""
VARIETY = 0.3
"""Weight of being unlike the strategies chosen before (0: the score alone)."""
FAILED = 0.5
"""The same for a task on which a strategy never worked."""
ESTIMATED, BESIDE = 12, 2
"""Fewest strategies whose outcome is estimated, and how many for each item."""
POOL = 64
"""Number of the most relevant strategies for looking up warnings."""
MOST = 100
"""Most items."""
WARNINGS = 5
"""Most warnings."""
WARNED = 20
"""How many of them to look at: what every run uses fails most often, and is left out then."""
EVIDENCE = 5
"""Most episodes of an item, and tasks of an answer."""
_ROUNDED = 1e-6
"""How far the cosine of a text with itself may be from 1."""


class _Asked(Input):
    at: Moment


Step = tuple[str, str]
"""A node (``task`` or ``strategy``, and its id) or an edge (``edge``, and its label)."""


@dataclass(frozen=True, slots=True)
class _Reached:
    """A node, its relevance, and the path to it."""

    relevance: float
    way: tuple[Step, ...]


Nodes = dict[str, _Reached]
"""The nodes that were reached, by id."""


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

    def __init__(self, graph: Graph, similarity: Similarity, estimator: Estimator) -> None:
        self._graph = graph
        self._read = graph.read
        self._similarity = similarity
        self._estimator = estimator
        self._beside = Beside(graph)

    def recall(
        self,
        text: str,
        limit: int = 5,
        agent: str | None = None,
        max_hops: int = HOPS,
        *,
        at: datetime | None = None,
        kinds: Iterable[str] | None = None,
    ) -> Recall:
        """Return strategies that worked on tasks similar to a text, and strategies to avoid."""
        asked = searched("text", text)
        check_limit(limit)
        if limit > MOST:
            raise ValidationError("limit", limit, f"must be at most {MOST}")
        if type(max_hops) is not int or not 0 <= max_hops <= MOST_HOPS:
            raise ValidationError("max_hops", max_hops, f"must be from 0 to {MOST_HOPS}")
        wanted = checked_kinds(kinds)
        now = self._graph.now() if at is None else to_millis(_Asked(at=at).at)
        view = read_view(self._graph, agent)
        found = self._similarity.search(asked, SEEDS, view)
        least = self._similarity.floors(found, SEEDS, view)
        hits = [hit for hit in found if hit.similarity >= least[hit.label] - _ROUNDED]
        relevance_of = {hit.id: min(1.0, hit.similarity**2) for hit in hits if hit.similarity > 0}
        tasks = view.tasks(
            self._graph, [id_ for id_ in _first(hits, "Task") if id_ in relevance_of]
        )
        walk = _Walk({id_: _Reached(relevance_of[id_], (("task", id_),)) for id_ in tasks})
        for id_ in _first(hits, "Strategy"):
            if id_ in relevance_of:
                walk.strategies[id_] = _Reached(relevance_of[id_], (("strategy", id_),))
        most = max(ESTIMATED, BESIDE * limit)
        self._walk(walk, view, max_hops, now, most)
        reached = list(walk.rows.values())
        near_tasks = self._similarity.near_tasks_of(found, view)
        question = understood(self._graph, asked, view, near_tasks)
        against = self._warned(reached, tasks, view)
        expected = self._expected(question, reached[:most], against, view)
        ranked = self._ranked(reached[:most], expected)
        chosen = self._varied(ranked, limit)
        similarity = {hit.id: hit.similarity for hit in found}
        near = [_near_task(row, similarity) for row in tasks.values()]
        near.sort(key=lambda task: (-task.relevance, task.text))
        nearest = near[0] if near else self._nearest(found, similarity, view)
        items: list[RecallItem] = []
        if "strategy" in wanted:
            items += self._items(chosen, reached, walk, tasks, view)
        if found:
            lends = self._similarity.vectors.embedder.thresholds.near
            about = About(near, question.task_type, question.type_rule, lends, view, now)
            items += self._beside.items(about, wanted, items)
        return Recall(
            text=asked,
            task_type=question.task_type,
            type_rule=question.type_rule,
            embedder=self._similarity.vectors.searched_with if found else None,
            items=tuple(items),
            warnings=tuple(self._warnings(against, expected, view)),
            tasks=tuple(near[:EVIDENCE]),
            nearest=nearest,
            floor=least["Task"] if found else None,
        )

    def _nearest(
        self, found: Sequence[Hit], similarity: Mapping[str, float], view: View
    ) -> NearTask | None:
        """Return the most similar task that a search found, relevant or not."""
        tasks = [hit for hit in found if hit.label == "Task"]
        if not tasks:
            return None
        first = min(tasks, key=lambda hit: (-hit.similarity, hit.id)).id
        row = view.tasks(self._graph, [first]).get(first)
        return None if row is None else _near_task(row, similarity)

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
        before = {
            "Strategy": {row["id"]: _Reached(row["relevance"], walk.way(row)) for row in rows},
            "Task": tasks,
        }
        asked = {label: _most_relevant(nodes) for label, nodes in before.items()}
        new: dict[str, Nodes] = {"Strategy": {}, "Task": {}}
        known = {"Strategy": walk.strategies.keys() | walk.rows.keys(), "Task": walk.tasks.keys()}
        steps = self._read(
            "recall.beside",
            ids=asked["Strategy"],
            tasks=asked["Task"],
            # Co-occurrences count all agents, which one agent may not read.
            together=view.agents is None,
            fan_out=FAN_OUT,
        )
        for step in steps:
            label, other = step["label"], step["other"]
            if other in known[label]:
                continue
            start = before[label][step["id"]]
            relevance = start.relevance * REST[label, step["edge"]] * step["strength"]
            if other in new[label] and new[label][other].relevance >= relevance:
                continue
            edge = f"{step['edge']} {step['strength'] ** _ROOT[step['edge']]:.2f}"
            way = (*start.way, ("edge", edge), (label.lower(), other))
            new[label][other] = _Reached(relevance, way)
        there = view.tasks(self._graph, list(new["Task"])) if view.agents else new["Task"]
        return {id_: new["Task"][id_] for id_ in there}, new["Strategy"]

    def _reached(
        self, tasks: Nodes, strategies: Nodes, view: View, now: int, *, by_task: bool = True
    ) -> list[Row]:
        """Return the strategies that nodes lead to; merged ones count as one."""
        seeds: list[Row] = [
            {
                "task": id_,
                "strategy": None,
                "relevance": reached.relevance if by_task else 0.0,
                "weight": reached.relevance,
            }
            for id_, reached in sorted(tasks.items())
        ]
        seeds += [
            {"task": None, "strategy": id_, "relevance": reached.relevance, "weight": 0.0}
            for id_, reached in sorted(strategies.items())
        ]
        if not seeds:
            return []
        options = () if view.agents is None else ("agents",)
        query: dict[str, Any] = {
            "seeds": seeds,
            **view.filters(self._graph),
            "fan_out": FAN_OUT,
            "failed": FAILED,
            "now": now,
            "half_life": HALF_LIFE_MS,
        }
        rows = self._read("recall.reached", *options, **query)
        if any(row["merged_into"] for row in rows):
            rows = self._read("recall.reached", *options, "merged", **query)
        return rows

    # The order

    def _expected(
        self, question: Question, reached: Sequence[Row], against: Sequence[Row], view: View
    ) -> dict[str, Estimate]:
        """Return what to expect of strategies, and of those that are warned of, by id."""
        ids = dict.fromkeys([row["id"] for row in reached])
        ids |= dict.fromkeys(sorted({row["strategy_id"] for row in against}))
        estimates = self._estimator.each(question, list(ids), view) if ids else ()
        return {one.id: one for one in estimates if one.id}

    def _ranked(self, reached: Sequence[Row], expected: Mapping[str, Estimate]) -> list[Row]:
        """Return strategies with what to expect of them on the task, the best first."""
        rows = [row | {"estimate": expected[row["id"]]} for row in reached if row["id"] in expected]
        if not rows:
            return []
        scores = self._read(
            "recall.scored",
            rows=[
                {
                    "place": place,
                    "text": row["text"],
                    "relevance": row["relevance"],
                    "freshness": row["freshness"],
                    "mean": row["estimate"].probability,
                    "concentration": row["estimate"].worth,
                    "failed": _failed(row["estimate"]),
                }
                for place, row in enumerate(rows)
            ],
            z=STANDARD_ERRORS,
        )
        return [
            rows[row["place"]] | {"score": row["score"], "lower": row["lower"]} for row in scores
        ]

    def _varied(self, ranked: Sequence[Row], limit: int) -> list[Row]:
        """Choose by maximal marginal relevance (Carbonell & Goldstein 1998).

        Each next strategy has the highest ``(1 - v) * score / best score - v * similarity``, with
        the similarity to the most similar chosen one; v is :data:`VARIETY`. The
        chosen strategies are then sorted by score.
        """
        if not ranked:
            return []
        variety, best = VARIETY, ranked[0]["score"] or 1.0
        if not variety or limit == 1:
            return list(ranked[:limit])
        from graphmem.arrays import np

        ids = [row["id"] for row in ranked]
        values = (1 - variety) * np.array([row["score"] for row in ranked]) / best
        beside = np.zeros(len(ids))
        near = self._similarity.cosines("Strategy", ids[: 2 * limit], ids)
        chosen: list[int] = []
        while True:
            taken = int(np.argmax(values - variety * beside))
            chosen.append(taken)
            if len(chosen) == min(limit, len(ids)):
                return [ranked[place] for place in sorted(chosen)]
            values[taken] = -np.inf
            if taken < len(near):
                row = near[taken]
            else:  # a less likely one
                row = self._similarity.cosines("Strategy", [ids[taken]], ids)[0]
            least = beside if len(chosen) > 1 else -np.inf
            beside = np.where(np.isnan(row), beside, np.maximum(row, least))

    # The answer

    def _items(
        self,
        chosen: Sequence[Row],
        ranked: Sequence[Row],
        walk: _Walk,
        tasks: Mapping[str, Row],
        view: View,
    ) -> Iterable[RecallItem]:
        ways = {row["id"]: walk.way(row) for row in chosen}
        texts = {id_: row["text"] for id_, row in tasks.items()}
        missing = {id_ for way in ways.values() for kind, id_ in way if kind == "task"} - set(texts)
        texts |= {id_: row["text"] for id_, row in view.tasks(self._graph, sorted(missing)).items()}
        # Merged strategies have that of their whole; unreadable ones have none.
        texts |= {id_: row["text"] for row in ranked for id_ in _members(row)}
        evidence = self._evidence(ways, {row["id"]: row["first"] for row in chosen}, view)
        for row in chosen:
            one = row["estimate"]
            yield RecallItem(
                **{name: row[name] for name in _OF_WALK},
                **{name: getattr(one, name) for name in _OF_ESTIMATE},
                mean=one.probability,
                last_at=from_millis(row["last_at"]),
                path=("text", *(_said(step, texts) for step in ways[row["id"]])),
                evidence=tuple(evidence.get(row["id"], ())),
            )

    def _evidence(
        self, ways: Mapping[str, tuple[Step, ...]], first: Mapping[str, list[Any]], view: View
    ) -> dict[str, list[str]]:
        """Return the latest episodes on the task that led to each, else on the last tried task."""
        agents = view.agents
        rows = []
        for id_, way in ways.items():
            last = [node for kind, node in way if kind == "task"]
            if last or first[id_]:
                rows.append({"id": id_, "task": last[-1] if last else first[id_][0]})
        rest = sorted(ways.keys() - {row["id"] for row in rows})
        rows += self._read("recall.tasks_of", ids=rest, agents=agents) if rest else []
        tasks: dict[str, list[str]] = {}
        for row in rows:
            tasks.setdefault(row["task"], []).append(row["id"])
        asked = [{"task": task, "ids": sorted(set(ids))} for task, ids in sorted(tasks.items())]
        by_strategy: dict[str, list[str]] = {}
        only = {} if agents is None else {"agents": agents}
        for row in self._read("recall.episodes", *only, rows=asked, **only) if rows else ():
            by_strategy.setdefault(row["id"], []).append(row["episode"])
        return {id_: episodes[:EVIDENCE] for id_, episodes in by_strategy.items()}

    def _warned(self, reached: Sequence[Row], tasks: Mapping[str, Row], view: View) -> list[Row]:
        """Return the rows of anti-patterns on these types of tasks, most relevant and certain ones.

        Tasks without a type share no lessons: for them, what fails on the near tasks counts.
        """
        near = sorted(reached, key=lambda row: (-row["relevance"], row["id"]))[:POOL]
        if not near or not tasks:
            return []
        above = HEURISTIC_ABOVE
        types = {row["task_type"] for row in tasks.values()}
        failing = [row for row in near if GENERAL in types and _failing(row) > above]
        rows = find_warnings(
            self._graph,
            {id_: row["text"] for row in near for id_ in _members(row)},
            view,
            types=sorted(types - {GENERAL}),
            untyped=sorted({id_ for row in failing for id_ in _members(row)}),
            uses=sum(row["trials"] for row in near),
            alone=all({*_members(row)} == {row["id"]} for row in near),
        )
        relevance = {row["id"]: row["relevance"] for row in near}
        rows.sort(key=lambda row: (-relevance[row["strategy_id"]] * row["lower"], row["strategy"]))
        first: dict[tuple[str, str], Row] = {}
        for row in rows:  # of equal failures of several agents, the most certain one
            first.setdefault((row["strategy_id"], row["error_class"]), row)
        return list(first.values())[:WARNED]

    def _warnings(
        self, rows: list[Row], expected: Mapping[str, Estimate], view: View
    ) -> list[AntiPattern]:
        """Return the anti-patterns; those expected to fail on this task come first.

        What fails no more often than other strategies do is left out.
        """
        rows = [row for row in rows if not expected[row["strategy_id"]].usual][:WARNINGS]
        told = {id_: (one.probability, one.said) for id_, one in expected.items()}
        return describe(self._graph, rows, view, by_type=False, expectations=told)


_ROOT = {"SIMILAR_TO": 0.5, "CO_OCCURS_WITH": 1.0}
"""The exponent that turns the strength of an edge back into its weight."""


def _near_task(row: Row, similarity: Mapping[str, float]) -> NearTask:
    cosine = similarity[row["id"]]
    return NearTask(**row, similarity=cosine, relevance=min(1.0, max(0.0, cosine) ** 2))


def _first(hits: Sequence[Hit], label: str) -> list[str]:
    """Return the ids of the best hits with a label."""
    return [hit.id for hit in hits if hit.label == label][:SEEDS]


def _most_relevant(reached: Mapping[str, _Reached], limit: int = FAN_OUT) -> list[str]:
    return sorted(reached, key=lambda id_: (-reached[id_].relevance, id_))[:limit]


_OF_WALK = ("id", "text", "score", "relevance", "lower", "freshness")
_OF_ESTIMATE = (
    *("said", "here_trials", "here_successes", "near_trials", "near_successes"),
    *("type_trials", "type_successes", "trials", "successes"),
)


def _failed(one: Estimate) -> bool:
    """Return whether a strategy was tried on the task or near ones, and never worked there."""
    trials = one.here_trials + one.near_trials
    return trials > 0 and not one.here_successes + one.near_successes


def _failing(row: Row) -> float:
    """Return how likely a strategy fails on the near tasks, by its outcomes there alone."""
    trials = row["near_trials"]
    return float((trials - row["near_successes"] + 1) / (trials + 2)) if trials else 0.0


def _members(row: Row) -> tuple[str, ...]:
    """Return the ids of all strategies that count as a ranked one, with its own."""
    return (row["id"], *(row["members"] or ()))


def _said(step: Step, texts: Mapping[str, str]) -> str:
    kind, what = step
    return what if kind == "edge" else f"{kind}: {texts.get(what, what)}"
