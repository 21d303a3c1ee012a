"""What the graph tells of strategies on a task: the counts behind an estimate.

Two statements read them, or three if similar strategies are merged, or lend to unknown ones, or are
seen by some agents alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graphmem.advice.beliefs import CLOSEST, Lately, Shared, Tally, lend, plus, weigh_near
from graphmem.advice.changes import latest_of, read_lately
from graphmem.graph.access import View
from graphmem.graph.estimate import ENOUGH, Estimate, NearCell, Pair
from graphmem.graph.graph import Graph
from graphmem.ids import heuristic_ids, strategy_id
from graphmem.lessons.priors import priors_of
from graphmem.search.similarity import Question, Similarity
from graphmem.store.port import Row

NAMED = 8
"""So many near tasks are named."""
KINDS = 64
"""Agents times types of task up to which the heuristics of a strategy are read one by one."""
MOVES = 0.5
"""Outcomes that are worth fewer trials move an estimate by little."""
AS_NEAR = 0.75
"""A task whose outcomes weigh this share of those of the nearest one is told with it."""


class Evidence:
    """What the graph tells of strategies on a task, in one view."""

    def __init__(self, graph: Graph, near: Similarity, question: Question, view: View) -> None:
        self._graph = graph
        self._near = near
        self._question = question
        self._view = view
        self._some = ("some",) if view.agents is not None else ()
        self._seen = view.filters(graph)
        edge = question.near.edge
        self._weights = {
            key: min((cosine - edge) / (1.0 - edge), CLOSEST)
            for key, cosine in question.near.around
            if cosine > edge
        }
        """What one outcome counts for, by near task (id)."""
        self._texts: dict[str, str] = {}
        """Of the known strategies, by id."""
        self._wholes: dict[str, str] = {}
        self._members: dict[str, list[str]] = {}
        self._known: dict[str, Estimate] = defaultdict(Estimate)
        """By the id of the whole."""

    def read(self, strategies: Sequence[str], pooling: str, *, search: bool) -> list[Estimate]:
        """Return strategies (texts or ids), without those that count as an earlier one.

        What is not known borrows from what is similar to it, if that may be searched for.
        """
        ids = {text: strategy_id(self._graph.ns, text) for text in strategies}
        parts = self._read_parts(sorted({*ids, *ids.values()}), pooling)
        self.everything: Row = parts["all"][0]
        """The sums of all tallies."""
        self.strengths: Row | None = next(iter(parts["strengths"]), None)
        similar = dict(self._question.near.tasks)
        self.runs: int = parts["task"][0]["trials"]
        """Episodes of the task and near ones."""
        self.runs += sum([trials for key, trials, _ in parts["near"] if key in similar])
        self.near = self._name_tasks(parts["near"], dict(parts["nearest"]))
        """The few nearest tasks by id, the nearest first: {id, text, trials, successes, similarity,
        weight of one outcome}."""
        near = weigh_near([NearCell(n, k, self._weights[key]) for key, n, k in parts["near"]])
        everything, typed = _tally(self.everything), _tally(self.everything, "type_")
        task, here = Tally(**parts["task"][0]), _tally(parts["here"][0])
        self.shared = Shared(everything, typed, task, here, near)
        self._add_uses(parts["strategies"])
        self._add_here(parts["outcomes"])
        self._add_near(parts["near outcomes"])
        candidates: dict[str, Estimate] = {}
        for text, identity in ids.items():
            one = self._find(text, identity)
            candidates.setdefault(one.id or text, one)
        self._lend(candidates, parts["links"], search=search)
        if self._question.skills:
            texts = {key: one.texts for key, one in candidates.items()}
            for key, priors in priors_of(self._graph, self._question, texts).items():
                one = candidates[key]
                one.priors = priors
                for prior in priors:
                    one.lent = plus(one.lent, prior.worth, prior.worth * prior.rate)
        self.candidates = list(candidates.values())
        return self.candidates

    def _read_parts(self, own: list[str], pooling: str) -> dict[str, Sequence[Any]]:
        """Return the parts of ``forecasting.counts``, with what counts as one with the given."""
        question = self._question
        asked: dict[str, Any] = {
            "pooling": pooling,
            "tasks": question.tasks,
            "near_tasks": sorted(self._weights),
            "nearest": [] if self._some else [key for key, _ in question.near.tasks[:NAMED]],
            "type": question.task_type,
            **self._seen,
        }

        def read(ids: list[str]) -> dict[str, Sequence[Any]]:
            rows = self._graph.read("forecasting.counts", *self._some, own=ids, **asked)
            return defaultdict(list, {row["part"]: row["rows"] for row in rows})

        parts = read(own)
        self._wholes = dict(parts["merged"])
        for one, whole in self._wholes.items():
            self._members.setdefault(whole, []).append(one)
        if with_others := {self._wholes[one] for one in own if one in self._wholes}:
            others = (one for whole in with_others for one in self._members[whole])
            parts = read(sorted({*own, *others}))
        return parts

    def _name_tasks(self, around: Sequence[Any], texts: Mapping[str, str]) -> dict[str, Row]:
        """Return the few nearest tasks that may be read, the nearest first."""
        counts = {key: {"trials": n, "successes": k} for key, n, k in around}
        nearest = {key: one for key, one in self._question.near.tasks[:NAMED] if key in counts}
        if self._some:  # an agent reads its own wording of a task
            told = self._view.tasks(self._graph, sorted(nearest))
            texts = {key: row["text"] for key, row in told.items()}
        return {
            key: {"id": key, "text": texts[key], "similarity": one}
            | {"weight": self._weights[key], **counts[key]}
            for key, one in nearest.items()
            if key in texts
        }

    def _own(self, identity: str) -> Estimate:
        """Return what a strategy counts as."""
        return self._known[self._wholes.get(identity, identity)]

    def _add_uses(self, strategies: Sequence[Any]) -> None:
        """Add the uses of strategies on all tasks, and on the type, where agents learned there."""
        some, kind = bool(self._some), self._question.task_type
        self._texts = {identity: text for identity, text, *_ in strategies}
        kinds = [(agent, typed) for agent, typed in self.everything["tallies"]]
        if many := len(kinds) > KINDS and not some:
            kinds = [one for one in kinds if one[1] == kind]
        keys = [(one, typed) for one in self._texts for _, typed in kinds]
        ids = heuristic_ids(self._graph.ns, kinds, self._texts.values())
        of = dict(zip(ids, keys, strict=True))
        rows = self._graph.read("forecasting.typed", ids=ids)[0]["rows"] if ids else ()
        for heuristic, trials, successes, n, k in rows:
            identity, typed = of[heuristic]
            own = self._own(identity)
            own.everything = plus(own.everything, n, k)
            if typed == kind:
                own.type_trials += trials
                own.type_successes += successes
                own.typed = plus(own.typed, n, k)
            if some:
                own.trials += trials
                own.successes += successes
        for identity, _, trials, successes, n, k, latest in strategies:
            own = self._own(identity)
            if self._seen["types"] is not None:  # edges of strategies do not tell types apart
                own.effective = own.everything
                continue
            own.effective = plus(own.effective, n or 0.0, k or 0.0)
            if not some:
                own.trials += trials
                own.successes += successes
            if many:
                own.everything = plus(own.everything, n or 0.0, k or 0.0)
            own.latest = latest_of([own.latest, *latest])

    def _add_here(self, outcomes: Sequence[Any]) -> None:
        for identity, trials, successes, n, k, latest in outcomes:
            own = self._own(identity)
            own.here_trials += trials
            own.here_successes += successes
            own.here = plus(own.here, n, k)
            own.here_latest = latest_of([own.here_latest, *latest])

    def _add_near(self, outcomes: Sequence[Any]) -> None:
        """Add the outcomes of strategies on near tasks and less similar ones."""
        similar = dict(self._question.near.tasks)
        cells: dict[str, dict[str, NearCell]] = defaultdict(dict)
        for identity, task, trials, successes, latest in outcomes:
            there = cells[self._wholes.get(identity, identity)]
            n, k, weight, known = there.get(task) or (0, 0, self._weights[task], ())
            both = latest_of([known, latest]) if known else latest or ()
            there[task] = NearCell(n + trials, k + successes, weight, both)
        for identity, there in cells.items():
            own = self._own(identity)
            own.cells = [*there.values()]
            own.around_trials, own.around, own.gone, _ = weigh_near(own.cells)
            near = [cell for key, cell in there.items() if key in similar]
            own.near_trials, own.near_successes = _sum_outcomes(near)
            if nearest := [task for task in self.near if task in there]:
                own.nearest = self.near[nearest[0]] | _describe_nearest(own, there[nearest[0]])

    def _find(self, text: str, identity: str) -> Estimate:
        """Return a strategy by the id of its text, else by its id."""
        for one in (identity, text):
            known = self._own(one)
            tried = known.trials or not self._some  # agents know what they tried
            if one in self._texts and tried:
                if known.id is None:
                    known.id, known.text = self._wholes.get(one, one), self._texts[one]
                    members = self._members.get(known.id, [known.id])
                    known.texts = tuple([self._texts[member] for member in members])
                return known
        return Estimate(text=text, texts=(text,))

    def _lend(
        self, candidates: Mapping[str, Estimate], links: Sequence[Any], *, search: bool
    ) -> None:
        """Add what similar strategies lend.

        Of strategies that are merged, the most similar one stands for all.
        """
        wholes, near = self._wholes, self._near
        known = {} if self._some else {row[1]: row[3:] for row in links}
        similar = [(wholes.get(one, one), other, cosine) for one, other, cosine, *_ in links]
        for key, one in candidates.items():
            if search and one.id is None:
                similar += [(key, *pair) for pair in near.near_strategies(one.text, self._view)]
        nearest: dict[tuple[str, str], tuple[float, str]] = {}
        for borrower, lender, cosine in similar:
            pair = borrower, wholes.get(lender, lender)
            if cosine > 0.0 and pair[0] != pair[1] and borrower in candidates:
                nearest[pair] = max(nearest.get(pair, (0.0, "")), (float(cosine), lender))
        wanted = {one for _, whole in nearest for one in self._members.get(whole, [whole])}
        if missing := sorted(wanted - known.keys()):
            query = {"ids": missing, **self._seen}
            rows = self._graph.read("forecasting.lenders", *self._some, **query)
            known |= {row["id"]: (row["text"], row["trials"], row["successes"]) for row in rows}
        counts: dict[str, Pair] = defaultdict(lambda: (0, 0))
        for one, (_, n, k) in known.items():
            counts[wholes.get(one, one)] = plus(counts[wholes.get(one, one)], n, k)
        least = near.similar_from if nearest else 1.0
        for (borrower, whole), (cosine, lender) in nearest.items():
            n, k = counts[whole]
            if n and lender in known:
                weight = min(max((cosine - least) / max(1.0 - least, 1e-9), 0.0), 1.0)
                row = {"id": lender, "text": known[lender][0], "similarity": cosine}
                row |= {"weight": weight, "trials": n, "successes": k}
                candidates[borrower].lenders.append(row)
        for one in candidates.values():
            one.lenders = nearest_first(one.lenders)
            for row in one.lenders:
                one.lent = plus(one.lent, *lend(row["weight"], row["trials"], row["successes"]))

    def look_up(self, places: Sequence[int]) -> Mapping[int, Sequence[Lately]]:
        """Return the latest outcomes of candidates (places)."""
        ids = {place: self.candidates[place].id or "" for place in places}
        of = {one: place for place, id_ in ids.items() for one in self._members.get(id_, [id_])}
        first = {place: self.candidates[place].latest[0] for place in places}
        weights: dict[str, float | None] = {**self._weights}
        weights |= dict.fromkeys(self._question.tasks)
        return read_lately(self._graph, self._view, of, first, self._question.task_type, weights)


def _tally(row: Row, of: str = "") -> Tally:
    worth = row[f"{of}n"], row[f"{of}k"]
    return Tally(row[f"{of}trials"], row[f"{of}successes"], worth)


def _describe_nearest(own: Estimate, nearest: NearCell) -> Row:
    """Return what is told of the nearest task of a strategy, and of those about as near."""
    near = [nearest]
    if nearest.trials < ENOUGH:
        near = [cell for cell in own.cells if cell.weight >= AS_NEAR * nearest.weight]
    told = dict(zip(("trials", "successes"), _sum_outcomes(near), strict=True))
    others = own.around[0] - weigh_near(near)[1][0] >= MOVES
    return told | {"tasks": len(near), "others": others}


def _sum_outcomes(cells: Iterable[NearCell]) -> tuple[int, int]:
    trials, successes = 0, 0
    for cell in cells:
        trials, successes = trials + cell.trials, successes + cell.successes
    return trials, successes


def nearest_first(rows: Iterable[Row]) -> list[Row]:
    """Return similar tasks or strategies in order."""
    return sorted(rows, key=lambda row: (-row["similarity"], row["text"], row["id"]))
