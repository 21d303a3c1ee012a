"""Recall: what worked on tasks like one that is to be done, with its evidence.

A search by meaning and words gives tasks and strategies to start from. What was tried on these
tasks is found over OUTCOME edges, and ranked by ``relevance * lower * freshness``; what is too much
like what was chosen before is put back. ``docs/explanation/recall.md`` has the formulas, an example
by hand, and what each part was measured to add; ``cypher/advice/recall.cypher`` computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from graphmem.errors import ValidationError
from graphmem.graph.access import View, read_view
from graphmem.graph.arguments import check_limit
from graphmem.graph.graph import Graph
from graphmem.ids import from_millis, to_millis
from graphmem.lessons.anti_patterns import described
from graphmem.models.fields import Input, Moment
from graphmem.models.lessons import AntiPattern
from graphmem.models.recall import NearTask, Recall, RecallItem
from graphmem.search.similarity import Hit, Similarity, searched
from graphmem.store.port import Row

SEEDS = 20
"""Tasks, and strategies, that a search gives to start from."""
HOPS = 1
"""Steps from them where none are asked for: from tasks to what was tried on them."""
MOST_HOPS = 4
FAN_OUT = 32
"""Strategies of a task, companions of a strategy, and nodes that are left in a further step."""
REST = 0.5
"""What a further step leaves of relevance, beside the strength of its edge (SPEC: .5 a hop)."""
STRENGTH = 2.0
"""Trials that the prior of a rate is worth, as in predictions."""
POOL = 64
"""Strategies that variety is chosen among, and those whose warnings are looked at."""
MOST = 100
"""Items at most."""
WARNINGS = 5
"""Warnings at most."""
EVIDENCE = 5
"""Episodes shown of an item, and tasks shown of an answer."""


class _Asked(Input):
    at: Moment


Step = tuple[str, str]
"""A node (``task`` or ``strategy``, and its id) or an edge (``edge``, and what it says)."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A strategy, how relevant it is, and the way to it."""

    relevance: float
    way: tuple[Step, ...]


@dataclass(slots=True)
class _Walk:
    """What was found so far, and where the next step starts."""

    strategies: dict[str, _Found] = field(default_factory=dict)
    """By the id of the strategy, before it is known what it was merged into."""
    tried: dict[str, Row] = field(default_factory=dict)
    """What came of strategies on the tasks that the search found."""
    tasks: dict[str, _Found] = field(default_factory=dict)

    def reach(self, strategy: str, found: _Found) -> bool:
        """Keep a way to a strategy if it is the most relevant one; return whether it is."""
        known = self.strategies.get(strategy)
        if found.relevance <= 0 or (known and known.relevance >= found.relevance):
            return False
        self.strategies[strategy] = found
        return True


class Recaller:
    """Recalls strategies of one namespace."""

    def __init__(
        self,
        graph: Graph,
        similarity: Similarity,
    ) -> None:
        self._graph = graph
        self._read = graph.read
        self._settings = graph.settings
        self._similarity = similarity

    def recall(
        self,
        text: str,
        limit: int = 5,
        agent: str | None = None,
        max_hops: int = HOPS,
        *,
        at: datetime | None = None,
    ) -> Recall:
        """Return what worked on tasks like a text, and what to keep from."""
        asked = searched("text", text)
        check_limit(limit)
        if limit > MOST:
            raise ValidationError("limit", limit, f"must be at most {MOST}")
        if type(max_hops) is not int or not 0 <= max_hops <= MOST_HOPS:
            raise ValidationError("max_hops", max_hops, f"must be from 0 to {MOST_HOPS}")
        now = self._graph.now() if at is None else to_millis(_Asked(at=at).at)
        view = read_view(self._graph, agent)
        hits = self._similarity.search(asked, SEEDS)
        found = {hit.id: min(1.0, hit.similarity**2) for hit in hits if hit.similarity > 0}
        tasks = self._tasks([id_ for id_ in _first(hits, "Task") if id_ in found], view)
        walk = _Walk()
        for id_ in _first(hits, "Strategy"):
            if id_ in found:
                walk.reach(id_, _Found(found[id_], (("strategy", id_),)))
        for id_ in tasks:
            walk.tasks[id_] = _Found(found[id_], (("task", id_),))
        self._walk(walk, view, max_hops)
        counts = self._counts(walk.strategies, view)
        strategies = _as_one(walk.strategies, counts)
        ranked = self._rank(strategies, walk.tried, counts, now, limit)
        chosen = self._varied(ranked, limit)
        return Recall(
            text=asked,
            embedder=self._similarity.searched_with,
            items=tuple(self._items(chosen, strategies, walk.tried, counts, tasks, view)),
            warnings=tuple(self._warnings(strategies, counts, tasks, view)),
            tasks=tuple(
                sorted(
                    (NearTask(**row, relevance=found[row["id"]]) for row in tasks.values()),
                    key=lambda task: (-task.relevance, task.text),
                )[:EVIDENCE]
            ),
        )

    # The way

    def _walk(self, walk: _Walk, view: View, max_hops: int) -> None:
        """Find what was tried on the tasks, and then go further."""
        walk.tried = {row["id"]: row for row in self._tried(walk.tasks, view)}
        if max_hops == 0:
            return
        tasks, strategies = dict(walk.tasks), set(walk.strategies)
        strategies |= self._reach(walk, walk.tried.values(), tasks)
        for _ in range(1, max_hops):
            strategies, tasks = self._further(walk, view, strategies, tasks)
            if not strategies and not tasks:
                return

    def _reach(self, walk: _Walk, rows: Iterable[Row], tasks: Mapping[str, _Found]) -> set[str]:
        """Go from tasks to what was tried on them; return what is new."""
        new = set()
        for row in rows:
            before = tasks[row["task"]]
            edge = f"OUTCOME {row['task_successes']} of {row['task_trials']}"
            way = (*before.way, ("edge", edge), ("strategy", row["id"]))
            if walk.reach(row["id"], _Found(before.relevance, way)):
                new.add(row["id"])
        return new

    def _further(
        self, walk: _Walk, view: View, strategies: set[str], tasks: Mapping[str, _Found]
    ) -> tuple[set[str], dict[str, _Found]]:
        """Go one step from strategies and tasks; return what is new of both."""
        # What agents did together says more than one of them may read.
        query = {"together": view.agents is None, "fan_out": FAN_OUT}
        ids = _most_relevant({id_: walk.strategies[id_] for id_ in strategies})
        reached: set[str] = set()
        for row in self._read("recall.near_strategies", ids=ids, **query) if ids else ():
            before = walk.strategies[row["id"]]
            edge = f"{row['edge']} {row['strength'] ** _ROOT[row['edge']]:.2f}"
            way = (*before.way, ("edge", edge), ("strategy", row["other"]))
            if walk.reach(row["other"], _Found(before.relevance * REST * row["strength"], way)):
                reached.add(row["other"])
        near: dict[str, _Found] = {}
        ids = _most_relevant(tasks)
        for row in self._read("recall.near_tasks", ids=ids) if ids else ():
            before = tasks[row["id"]]
            edge = f"SIMILAR_TO {row['strength'] ** 0.5:.2f}"
            found = _Found(
                before.relevance * REST * row["strength"],
                (*before.way, ("edge", edge), ("task", row["other"])),
            )
            known = walk.tasks.get(row["other"]) or near.get(row["other"])
            if known is None or found.relevance > known.relevance:
                near[row["other"]] = found
        near = {id_: near[id_] for id_ in self._tasks(list(near), view)} if near else near
        walk.tasks |= near
        return reached | self._reach(walk, self._tried(near, view), near), near

    def _tried(self, tasks: Mapping[str, _Found], view: View) -> list[Row]:
        rows = [{"id": id_, "relevance": found.relevance} for id_, found in sorted(tasks.items())]
        agents = view.agents
        query = {"rows": rows, "agents": agents, "fan_out": FAN_OUT}
        return self._read("recall.tried", **query) if rows else []

    def _tasks(self, ids: Sequence[str], view: View) -> dict[str, Row]:
        """Return those of the tasks that may be read: by their types, and by who attempted them."""
        if ids and view.agents is not None:
            own = self._read("recall.tasks_by", ids=list(ids), agents=view.agents)
            ids = [row["id"] for row in own]
        rows = self._read("recall.tasks", ids=list(ids)) if ids else []
        return {row["id"]: row for row in rows if view.allows(row["task_type"])}

    # What came of it

    def _counts(self, strategies: Iterable[str], view: View) -> dict[str, Row]:
        """Return for each strategy what it counts as, with the outcomes that may be read of that.

        A row has ``whole``, the id of what it counts as, and ``members``, the ids of all that does.
        """
        rows = self._read("recall.counts", ids=sorted(strategies)) if strategies else []
        merged = sorted({row["merged_into"] for row in rows if row["merged_into"]})
        of_merged = self._read("recall.counts_of_merged", ids=merged) if merged else []
        wholes = {row["id"]: row | {"members": [row["id"], *row["members"]]} for row in of_merged}
        for row in rows:
            if not row["merged_into"]:
                wholes[row["id"]] = row | {"members": [row["id"]]}
        if view.agents is not None and wholes:
            self._count_for(wholes, view)
        answers = {row["id"]: row["merged_into"] or row["id"] for row in rows}
        answers |= {id_: id_ for id_ in wholes}
        return {
            id_: wholes[whole] | {"whole": whole}
            for id_, whole in answers.items()
            if whole in wholes
        }

    def _count_for(self, wholes: dict[str, Row], view: View) -> None:
        """Count only what may be read; what has no such outcome is not known at all."""
        of = {member: row for row in wholes.values() for member in row["members"]}
        for row in wholes.values():
            row |= {"trials": 0, "successes": 0, "last_at": None}
        query = {"ids": sorted(of), "agents": view.agents}
        for found in self._read("recall.counts_by", **query):
            if view.allows(found["task_type"]):
                row = of[found["id"]]
                row["trials"] += found["trials"]
                row["successes"] += found["successes"]
                dates = (row["last_at"], found["last_at"])
                row["last_at"] = max((date for date in dates if date is not None), default=None)
        for id_ in [id_ for id_, row in wholes.items() if not row["trials"]]:
            del wholes[id_]

    def _rank(
        self,
        strategies: Mapping[str, _Found],
        tried: Mapping[str, Row],
        counts: Mapping[str, Row],
        now: int,
        limit: int,
    ) -> list[Row]:
        rows = [
            {
                "id": id_,
                "relevance": found.relevance,
                "weight": tried[id_]["weight"] if id_ in tried else 0.0,
                "won": tried[id_]["won"] if id_ in tried else 0.0,
                **{name: counts[id_][name] for name in ("trials", "successes", "last_at")},
            }
            for id_, found in sorted(strategies.items())
        ]
        if not rows:
            return []
        settings = self._settings
        ranked = self._read(
            "recall.rank",
            rows=rows,
            strength=STRENGTH,
            z=settings.recall_z,
            now=now,
            half_life=settings.recall_half_life_days * 86_400_000.0,
            limit=max(POOL, limit),
        )
        return sorted(ranked, key=lambda row: (-row["score"], counts[row["id"]]["text"]))

    def _varied(self, ranked: Sequence[Row], limit: int) -> list[Row]:
        """Choose by maximal marginal relevance (Carbonell & Goldstein 1998).

        Each next one has the highest ``(1 - v) * score / best score - v * similarity`` to the most
        similar one that was chosen before; v is the setting ``recall_variety``. What was chosen is
        then shown by score.
        """
        if not ranked:
            return []
        variety, best = self._settings.recall_variety, ranked[0]["score"] or 1.0
        if not variety or limit == 1:
            return list(ranked[:limit])
        near = self._nearness([row["id"] for row in ranked])
        beside = dict.fromkeys((row["id"] for row in ranked), 0.0)
        rest, chosen = list(ranked), list[Row]()
        while rest and len(chosen) < limit:
            taken = max(
                rest,
                key=lambda row: (1 - variety) * row["score"] / best - variety * beside[row["id"]],
            )
            rest.remove(taken)
            for id_, similarity in near(taken["id"]):
                beside[id_] = max(beside[id_], similarity) if chosen else similarity
            chosen.append(taken)
        return sorted(chosen, key=ranked.index)

    def _nearness(self, ids: Sequence[str]) -> Callable[[str], Iterable[tuple[str, float]]]:
        """Return what gives the cosines of one strategy and all that have a vector."""
        import numpy as np

        vectors = self._similarity.vectors("Strategy", ids)
        places = {id_: place for place, id_ in enumerate(vectors)}
        rows = np.array(list(vectors.values()))

        def near(id_: str) -> Iterable[tuple[str, float]]:
            if id_ not in places:
                return ()
            return zip(places, (rows @ rows[places[id_]]).tolist(), strict=True)

        return near

    # What is shown

    def _items(
        self,
        chosen: Sequence[Row],
        strategies: Mapping[str, _Found],
        tried: Mapping[str, Row],
        counts: Mapping[str, Row],
        tasks: Mapping[str, Row],
        view: View,
    ) -> Iterable[RecallItem]:
        ways = {row["id"]: strategies[row["id"]].way for row in chosen}
        passed = {
            kind: sorted({id_ for way in ways.values() for what, id_ in way if what == kind})
            for kind in ("task", "strategy")
        }
        texts = {id_: row["text"] for id_, row in tasks.items()}
        texts |= {id_: row["text"] for id_, row in counts.items()}
        missing = [id_ for id_ in passed["task"] if id_ not in texts]
        texts |= {id_: row["text"] for id_, row in self._tasks(missing, view).items()}
        evidence = self._evidence(ways, tried, view)
        for row in chosen:
            found, near = counts[row["id"]], tried.get(row["id"], {})
            yield RecallItem(
                **row,
                text=found["text"],
                trials=found["trials"],
                successes=found["successes"],
                near_trials=near.get("near_trials", 0),
                near_successes=near.get("near_successes", 0),
                last_at=from_millis(found["last_at"]),
                path=("text", *(_said(step, texts) for step in ways[row["id"]])),
                evidence=tuple(evidence.get(row["id"], ())),
            )

    def _evidence(
        self, ways: Mapping[str, tuple[Step, ...]], tried: Mapping[str, Row], view: View
    ) -> dict[str, list[str]]:
        """Return the latest episodes on the task that led to each, else where it was tried last."""
        agents = view.agents
        rows = []
        for id_, way in ways.items():
            last = [node for kind, node in way if kind == "task"]
            if last or id_ in tried:
                rows.append({"id": id_, "task": last[-1] if last else tried[id_]["task"]})
        rest = sorted(ways.keys() - {row["id"] for row in rows})
        rows += self._read("recall.tasks_of", ids=rest, agents=agents) if rest else []
        found: dict[str, list[str]] = {}
        for row in self._read("recall.episodes", rows=rows, agents=agents) if rows else ():
            found.setdefault(row["id"], []).append(row["episode"])
        return {id_: episodes[:EVIDENCE] for id_, episodes in found.items()}

    def _warnings(
        self,
        strategies: Mapping[str, _Found],
        counts: Mapping[str, Row],
        tasks: Mapping[str, Row],
        view: View,
    ) -> list[AntiPattern]:
        """Return what failed so on such types of tasks, by relevance and certainty."""
        near = _most_relevant(strategies, POOL)
        ids = sorted({member for id_ in near for member in counts[id_]["members"]})
        if not ids or not tasks:
            return []
        settings = self._settings
        rows = self._read(
            "recall.warnings",
            ids=ids,
            types=sorted({row["task_type"] for row in tasks.values()}),
            agents=view.agents,
            at_least=view.failures(settings),
            above=settings.heuristic_above,
        )
        rows = [row for row in rows if view.allows(*row["task_types"])]
        weights = {row["id"]: strategies[row["strategy_id"]].relevance for row in rows}
        rows.sort(key=lambda row: (-weights[row["id"]] * row["lower"], row["strategy"]))
        first: dict[tuple[str, str], Row] = {}
        for row in rows:  # of several agents that failed alike, the one where it is most certain
            first.setdefault((row["strategy_id"], row["error_class"]), row)
        return described(self._graph, list(first.values())[:WARNINGS], view, by_type=False)


_ROOT = {"SIMILAR_TO": 0.5, "CO_OCCURS_WITH": 1.0}
"""What turns the strength of an edge back into what the edge says."""


def _first(hits: Sequence[Hit], label: str) -> list[str]:
    """Return the ids of the best hits with a label."""
    return [hit.id for hit in hits if hit.label == label][:SEEDS]


def _most_relevant(found: Mapping[str, _Found], limit: int = FAN_OUT) -> list[str]:
    return sorted(found, key=lambda id_: (-found[id_].relevance, id_))[:limit]


def _as_one(found: Mapping[str, _Found], counts: Mapping[str, Row]) -> dict[str, _Found]:
    """Return what strategies count as, with the most relevant way to any of them."""
    wholes: dict[str, _Found] = {}
    for id_ in sorted(found.keys() & counts.keys()):
        whole = counts[id_]["whole"]
        if whole not in wholes or found[id_].relevance > wholes[whole].relevance:
            wholes[whole] = found[id_]
    return wholes


def _said(step: Step, texts: Mapping[str, str]) -> str:
    kind, what = step
    return what if kind == "edge" else f"{kind}: {texts.get(what, what)}"
