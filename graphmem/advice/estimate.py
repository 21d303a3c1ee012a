"""The one estimate: what to expect of strategies on a task, from counts in the graph.

It is made here alone; recall, context, choose, predict, explain and warnings read it from
:class:`Estimator`. Every rate is shrunk toward the next wider one. For a task: that of near tasks,
of its type, of all tasks; for a strategy likewise. ``forecasting.pool`` computes it from the counts
that are read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from operator import itemgetter
from typing import Any

from graphmem.advice.strengths import DEFAULTS, Strengths, parameters
from graphmem.graph.access import View
from graphmem.graph.graph import Graph
from graphmem.graph.nearness import Near, Question, understood
from graphmem.graph.rates import PRIOR
from graphmem.ids import heuristic_ids, node_id, strategy_id
from graphmem.models.forecasts import PoolingStrengths
from graphmem.numerics import beta_quantile
from graphmem.store.port import Row
from graphmem.text.tools import sequences

STANDARD_ERRORS = 1.0
"""The normal quantile of the lower bound by which recall sorts."""
NEARLY_ALL = 0.9
"""A tool that this share of runs use tells runs apart by little."""
_ALL = ("trials", "successes")
_OF_TYPE = ("type_trials", "type_successes")
_NEAR = ("near_trials", "near_successes")
_HERE = ("here_trials", "here_successes")
_WEIGHED = ("near_weight", "near_won")
COUNTS = (*_ALL, *_OF_TYPE, *_NEAR, *_HERE)
"""The counts of outcomes that an estimate has."""
_MADE = (
    *("strategy_rate", "prior", "near", "probability", "concentration", "worth", "weight"),
    "lower",
)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What to expect of one strategy on a task; a rate is the one before it, moved by outcomes."""

    id: str | None
    """Id of the strategy, or of what it is merged into; None if the memory does not have it."""
    text: str
    texts: tuple[str, ...]
    """The texts of all strategies that count as this one."""
    trials: int
    successes: int
    type_trials: int
    type_successes: int
    near_trials: int
    near_successes: int
    here_trials: int
    here_successes: int
    lenders: tuple[Row, ...]
    """Similar strategies that lend their outcomes, the most similar first."""
    strategy_rate: float
    prior: float
    near: float
    probability: float
    """The estimate."""
    concentration: float
    """How many trials on this task the estimate is worth; it makes the interval."""
    worth: float
    """The same worth, with tasks that look alike counted as one."""
    lower: float
    """The Wilson bound of the estimate at :data:`STANDARD_ERRORS`, with that worth."""
    weight: float
    """Its weight among several strategies that are used together."""
    usual: bool
    """Whether it worked at times, and no less often than others on the type, else on all tasks.

    What every run uses fails as often as the runs do, with the same errors, and is not their cause.
    """
    common: bool
    """Whether it is a tool (or tools alone) that nearly every run on the task and near ones uses,
    and works no better and no worse than the others, at two standard errors: then it is no advice.
    """

    @property
    def seen(self) -> tuple[int, int]:
        """Its successes and trials on the task and near ones, or on the type if there are more."""
        won = self.here_successes + self.near_successes
        near = won, self.here_trials + self.near_trials
        return max(near, (self.type_successes, self.type_trials), key=itemgetter(1))

    @property
    def said(self) -> str:
        """The counts that moved it, in words: ``26 of 30 here; 37 of 60 on tasks like it``."""
        here, near = self.here_trials, self.near_trials
        told = here + near
        typed = told if self.type_trials <= told else self.type_trials
        parts = (
            (self.here_successes, here, "here", here),
            (self.near_successes, near, "on tasks like it", near),
            (self.type_successes, self.type_trials, "on its type", typed > told),
            (self.successes, self.trials, "in all", self.trials > typed),
        )
        said = [f"{won} of {trials} {where}" for won, trials, where, tells in parts if tells]
        return "; ".join(said) or "never tried"


@dataclass(frozen=True, slots=True)
class Estimates:
    """What to expect of strategies on a task, and the rates that all of them share."""

    question: Question
    trials: int
    successes: int
    rate: float
    type_trials: int
    type_successes: int
    type_rate: float
    task_trials: int
    task_successes: int
    task_rate: float
    lenders: tuple[Row, ...]
    """Near tasks, the nearest first."""
    strategies: tuple[Estimate, ...]
    """The strategies as they were given, without those that count as an earlier one."""
    probability: float
    """What to expect of all of them used together."""
    concentration: float
    strengths: PoolingStrengths


class Estimator:
    """Estimates the outcomes of strategies on tasks, in one namespace."""

    def __init__(self, graph: Graph, strengths: Strengths, near: Near) -> None:
        self._graph = graph
        self._strengths = strengths
        self._near = near
        """Finds what is near an unknown task or strategy."""
        self._embedder = node_id(graph.ns, "Embedder", graph.ns)

    def estimates(
        self, task: str, strategies: Sequence[str], view: View, task_type: str | None = None
    ) -> Estimates:
        """Return what to expect of strategies (texts or ids) on a task (key, id or wording).

        What is not known borrows from what is similar to it.
        """
        question = understood(self._graph, task, view, self._near, task_type)
        return self._estimates(question, strategies, view, self._near)

    def each(
        self, question: Question, strategies: Sequence[str], view: View
    ) -> tuple[Estimate, ...]:
        """Return what to expect of known strategies (texts or ids) on a task that was found."""
        return self._estimates(question, strategies, view, None).strategies

    def _estimates(
        self, question: Question, strategies: Sequence[str], view: View, near: Near | None
    ) -> Estimates:
        ids = {text: strategy_id(self._graph.ns, text) for text in strategies}
        counts = self._counts(question, sorted({*ids, *ids.values()}), view)
        similar = [
            (counts.whole(row["id"]), row["other"], row["similarity"]) for row in counts.links
        ]
        unknown = [text for text, identity in ids.items() if counts.of(identity, text) is None]
        if near is not None:
            similar += [
                (text, *pair) for text in unknown for pair in near.near_strategies(text, view)
            ]
        lent = self._lent(similar, counts, view, near.similar_from if near and unknown else None)
        strengths = DEFAULTS  # they are fitted to the outcomes of all agents
        if view.agents is None:
            strengths = self._strengths.in_force(counts.all["trials"], counts.strengths)
        rows: dict[str, Row] = {}
        for text, identity in ids.items():
            known = counts.of(identity, text)
            if known is None:
                rows[text] = {"id": None, "text": text, "uses": _unused()}
            else:  # what is merged with an earlier one counts as that
                rows.setdefault(known["id"], known)
        shared = {**counts.all, **{f"task_{name}": counts.task[name] for name in _ALL}}
        answer = self._graph.read(
            "forecasting.pool",
            **shared,
            task_borrowed=counts.near,
            rows=[
                {
                    "place": place,
                    **{name: row["uses"][name] for name in (*_ALL, *_OF_TYPE, *_WEIGHED, *_HERE)},
                    "borrowed": lent.get(key, ()),
                }
                for place, (key, row) in enumerate(rows.items())
            ],
            **parameters(strengths),
            z=STANDARD_ERRORS,
        )[0]
        parts = answer["parts"]
        runs = counts.task["trials"] + sum(row["trials"] for row in counts.near)
        used = {row["text"]: row["uses"] for row in rows.values()}
        tools = sequences(used)
        common = {
            text for text in tools.keys() & used.keys() if _is_common(used[text], counts.all, runs)
        }
        return Estimates(
            question=question,
            **shared,
            **{name: parts[0][name] for name in ("rate", "type_rate", "task_rate")},
            lenders=_nearest(counts.near),
            strategies=tuple(
                Estimate(
                    id=row["id"],
                    text=row["text"],
                    texts=counts.texts(key) if row["id"] else (),
                    **{name: row["uses"][name] for name in COUNTS},
                    **{name: part[name] for name in _MADE},
                    lenders=_nearest(lent.get(key, ())),
                    usual=_is_usual(row["uses"], counts.all),
                    common=common.issuperset(tools.get(row["text"], [row["text"]])),
                )
                for (key, row), part in zip(rows.items(), parts, strict=True)
            ),
            probability=answer["probability"],
            concentration=answer["concentration"],
            strengths=strengths,
        )

    def _counts(self, question: Question, own: list[str], view: View) -> _Counts:
        """Return all counts of strategies (ids) on a task and elsewhere."""
        near = {key: min(cosine, 1.0) for key, cosine in question.near}
        asked: dict[str, Any] = {
            "pooling": self._strengths.id,
            "tasks": question.tasks,
            "near_tasks": sorted(near),
            "cosines": near,
            "edge": question.edge,
            "type": question.task_type,
            **view.filters(self._graph),
        }
        some = ("some",) if view.agents is not None else ()
        rows = self._graph.read("forecasting.counts", *some, own=own, **asked)
        parts: dict[str, list[Row]] = {row["part"]: row["rows"] for row in rows}
        wholes = {row["id"]: row["whole"] for row in parts.get("merged", ())}
        if with_others := {wholes[one] for one in own if one in wholes}:
            own += [one for one, whole in wholes.items() if whole in with_others]
            rows = self._graph.read("forecasting.counts", *some, own=sorted({*own}), **asked)
            parts = {row["part"]: row["rows"] for row in rows}
        everything, strategies = parts["all"][0], parts.get("strategies", ())
        counts = _Counts(
            all={name: value for name, value in everything.items() if name != "tallies"},
            task=parts["task"][0],
            near=parts.get("near", []),
            links=parts.get("links", []),
            strengths=next(iter(parts.get("strengths", ())), None),
            wholes=wholes,
            strategies={row["id"]: row | {"uses": _unused()} for row in strategies},
            some=bool(some),
        )
        kinds = [(one["agent"], one["type"]) for one in everything["tallies"]]
        if kinds and strategies:
            keys = [(row["id"], kind) for row in strategies for _, kind in kinds]
            ids = heuristic_ids(self._graph.ns, kinds, [row["text"] for row in strategies])
            of = dict(zip(ids, keys, strict=True))
            for row in self._graph.read("forecasting.typed", ids=list(of)):
                identity, kind = of[row["id"]]
                if kind == question.task_type:
                    counts.add(identity, row, _OF_TYPE)
                if some:
                    counts.add(identity, row, _ALL)
        for row in () if some else strategies:
            counts.add(row["id"], row, _ALL)
        for row in parts.get("outcomes", ()):
            counts.add(row["id"], row, _HERE, _HERE)
        for row in parts.get("near outcomes", ()):
            for names in (_NEAR, _WEIGHED):
                counts.add(row["id"], row, names, names)
        return counts

    def _lent(
        self,
        similar: Iterable[tuple[str, str, float]],
        counts: _Counts,
        view: View,
        edge: float | None,
    ) -> dict[str, list[Row]]:
        """Return what similar strategies lend, by borrower: (borrower, lender, similarity).

        Of strategies that are merged, the most similar one stands for all.
        """
        nearest: dict[tuple[str, str], tuple[float, str]] = {}
        for borrower, lender, similarity in similar:
            key = borrower, counts.whole(lender)
            if similarity > 0.0 and key[0] != key[1]:
                nearest[key] = max(nearest.get(key, (0.0, "")), (float(similarity), lender))
        if not nearest:
            return {}
        rows = [
            {
                "borrower": borrower,
                "id": lender,
                "similarity": similarity,
                "members": counts.members(whole),
            }
            for (borrower, whole), (similarity, lender) in nearest.items()
        ]
        some = ("some",) if view.agents is not None else ()
        asked = {"id": self._embedder, "rows": rows, "similar": edge, **view.filters(self._graph)}
        lent: dict[str, list[Row]] = {}
        for row in self._graph.read("forecasting.lent", *some, **asked):
            lent.setdefault(row.pop("borrower"), []).append(row)
        return lent


@dataclass(frozen=True, slots=True)
class _Counts:
    """The parts of ``forecasting.counts``, and the uses of strategies."""

    all: Mapping[str, int]
    task: Mapping[str, int]
    near: Sequence[Row]
    links: Sequence[Row]
    strengths: Row | None
    wholes: Mapping[str, str]
    strategies: Mapping[str, Row]
    """By id: {id, text, uses}."""
    some: bool
    """Whether they are those of some agents alone, who know only what they tried."""

    def whole(self, identity: str) -> str:
        """Return the id of what a strategy counts as."""
        return self.wholes.get(identity, identity)

    def members(self, whole: str) -> list[str]:
        """Return the ids of the strategies that count as one."""
        return [one for one, other in self.wholes.items() if other == whole] or [whole]

    def texts(self, whole: str) -> tuple[str, ...]:
        """Return the texts of the strategies that count as one."""
        return tuple(self.strategies[one]["text"] for one in self.members(whole))

    def of(self, *ids: str) -> Row | None:
        """Return the first known of some strategies, with the id and uses of what it counts as."""
        for row in (self.strategies[one] for one in ids if one in self.strategies):
            whole = self.strategies[self.whole(row["id"])]
            if whole["uses"]["trials"] or not self.some:
                return {**whole, "text": row["text"]}
        return None

    def add(
        self, identity: str, row: Row, names: tuple[str, str], held: tuple[str, str] = _ALL
    ) -> None:
        """Add trials and successes of a strategy to what it counts as."""
        uses = self.strategies[self.whole(identity)]["uses"]
        for name, value in zip(names, held, strict=True):
            uses[name] += row[value]


def interval(probability: float, concentration: float, level: float = 0.95) -> tuple[float, float]:
    """Return the central credible interval of an expected rate, around it.

    The interval is that of a Beta distribution whose parameters sum up to the concentration, with
    half a success and half a failure more (Jeffreys 1946, Proc. R. Soc. A 186:453-461). Without
    these, few outcomes that agree would leave nothing between the bounds.
    """
    a, b = probability * concentration + 0.5, (1.0 - probability) * concentration + 0.5
    low, high = (beta_quantile(tail, a, b) for tail in ((1 - level) / 2, (1 + level) / 2))
    # Of a very skewed distribution the expected rate may be outside.
    return min(low, probability), max(high, probability)


def _unused() -> dict[str, float]:
    return dict.fromkeys((*COUNTS, *_WEIGHED), 0)


def _nearest(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return what has trials, the nearest first."""
    lent = [row for row in rows if row["trials"]]
    return tuple(sorted(lent, key=lambda row: (-row["similarity"], row["text"], row["id"])))


def _is_common(uses: Mapping[str, float], everything: Mapping[str, int], runs: int) -> bool:
    """Return whether nearly all runs used a tool, and it is no better and no worse than others."""
    if not uses["trials"] or uses["here_trials"] + uses["near_trials"] < NEARLY_ALL * runs:
        return False
    trials, successes = _OF_TYPE if uses["type_trials"] else _ALL
    n, k, others = uses[trials], uses[successes], everything[trials] - uses[trials]
    if not others:
        return True
    rate = (everything[successes] + PRIOR[0]) / (everything[trials] + sum(PRIOR))
    error = sqrt(rate * (1.0 - rate) * (1.0 / n + 1.0 / others))
    return abs(k / n - (everything[successes] - k) / others) <= 2.0 * error


def _is_usual(uses: Mapping[str, float], everything: Mapping[str, int]) -> bool:
    """Return whether a strategy worked at times, and no less often than the others, if any.

    That is on the type of the task, if it was used there. What never worked is not usual, even
    where nothing else worked either.
    """
    trials, successes = _OF_TYPE if uses["type_trials"] else _ALL
    others, won = everything[trials] - uses[trials], everything[successes] - uses[successes]
    better = uses[successes] * others >= won * uses[trials]
    return others > 0 and uses[successes] > 0 and bool(better)
