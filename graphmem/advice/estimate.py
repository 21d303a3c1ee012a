"""The one estimate: what to expect of strategies on a task, from counts in the graph.

Recall, context, choose, predict, explain and warnings read it from :class:`Estimator`, which reads
the counts; :mod:`graphmem.advice.beliefs` makes beliefs of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from graphmem.advice.changes import change_of, latest_of, read_lately
from graphmem.advice.strengths import DEFAULTS, Strengths
from graphmem.advice.telling import (
    STANDARD_ERRORS,
    conclude,
    describe_evidence,
    is_common,
    is_usual,
)
from graphmem.graph.access import View
from graphmem.graph.graph import Graph
from graphmem.graph.nearness import Conclusion, Near, Question, understood
from graphmem.ids import heuristic_ids, node_id, strategy_id
from graphmem.lessons.skills import priors_of
from graphmem.models.forecasts import Change, PoolingStrengths
from graphmem.models.skills import Prior
from graphmem.numerics import beta_quantile, wilson_lower
from graphmem.store.port import Row
from graphmem.text.words import sequences

if TYPE_CHECKING:
    from graphmem.advice.beliefs import Lately, Own, Shared
    from graphmem.advice.formula import Belief, Turn

NAMED = 8
"""So many near tasks are named."""
KINDS = 64
"""Agents times types of task up to which the heuristics of a strategy are read one by one."""
MOVES = 0.5
"""Outcomes that are worth fewer trials move an estimate by little."""
_ALL = ("trials", "successes")
_OF_TYPE = ("type_trials", "type_successes")
_NEAR = ("near_trials", "near_successes")
_HERE = ("here_trials", "here_successes")
COUNTS = (*_ALL, *_OF_TYPE, *_NEAR, *_HERE)
"""The counts of outcomes that an estimate has."""
_WORTHS = (
    *("n", "k", "all_n", "all_k", "type_n", "type_k", "here_n", "here_k", "near_n", "near_k"),
    *("around_n", "gone_n", "gone_k"),
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
    priors: tuple[Prior, ...]
    """What imported files say of it on such tasks, the nearest first."""
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
    task_type: str | None
    change: Change | None
    """The change that it assumes: on the task, else on all tasks."""
    nearest: Row | None
    """The nearest task where it was tried, with its outcomes: a row of :attr:`Estimates.near`;
    ``others`` tells whether those on less similar tasks are worth half a trial or more."""
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
    def nearby(self) -> bool:
        """Whether it was tried on the task or on near ones."""
        return self.here_trials + self.near_trials > 0

    @property
    def conclusion(self) -> Conclusion:
        """What its outcomes tell of it now."""
        return conclude(self)

    @property
    def evidence(self) -> str:
        """The counts that moved it, and where they are from: ``26 of 30 here``."""
        return describe_evidence(self)

    @property
    def said(self) -> str:
        """The conclusion and the counts that it rests on: ``likely: 26 of 30 here``."""
        return f"{self.conclusion}: {self.evidence}"

    @property
    def order(self) -> tuple[float | str, ...]:
        """Sorts estimates by what is expected (one half if too little is known), then certainty."""
        known = self.conclusion != "too little known"
        return -round(self.probability, 2) if known else -0.5, -self.lower, self.text


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
    strategies: tuple[Estimate, ...]
    """The strategies as they were given, without those that count as an earlier one."""
    probability: float
    """What to expect of all of them used together."""
    concentration: float
    strengths: PoolingStrengths
    belief: Belief
    """What is believed of the strategies; to choose, one draws from it."""
    near: tuple[Row, ...]
    """The few nearest tasks: {id, text, trials, successes, similarity, weight of one outcome}."""


class Estimator:
    """Estimates the outcomes of strategies on tasks, in one namespace."""

    def __init__(self, graph: Graph, strengths: Strengths, near: Near) -> None:
        self._graph = graph
        self._strengths = strengths
        self.near = near
        """Finds what is near a task or strategy."""
        self._embedder = node_id(graph.ns, "Embedder", graph.ns)

    def estimates(
        self, task: str, strategies: Sequence[str], view: View, task_type: str | None = None
    ) -> Estimates:
        """Return what to expect of strategies (texts or ids) on a task (key, id or wording).

        What is not known borrows from what is similar to it.
        """
        question = understood(self._graph, task, view, self.near, task_type)
        return self._estimates(question, strategies, view, self.near)

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
        from graphmem.advice.beliefs import judge

        texts = {key: counts.texts(row["id"]) if row["id"] else (key,) for key, row in rows.items()}
        priors = priors_of(self._graph, question, texts) if question.skills else {}
        owns = [
            _own(row["uses"], lent.get(key, ()), priors.get(key, ())) for key, row in rows.items()
        ]
        keys = list(rows)

        def look_up(places: Sequence[int]) -> Mapping[int, Sequence[Lately]]:
            of = {one: place for place in places for one in counts.members(keys[place])}
            first = {place: owns[place].latest[0] for place in places}
            most: dict[str, float | None] = {**counts.most, **dict.fromkeys(question.tasks)}
            return read_lately(self._graph, view, of, first, question.task_type, most)

        judged = judge(counts.shared, owns, strengths, look_up)
        belief, expected = judged.belief, judged.expected
        worth, concentration = belief.size(belief.elsewhere), belief.size(belief.known)
        runs = counts.task["trials"] + counts.near_trials
        used = {row["text"]: row["uses"] for row in rows.values()}
        tools = sequences(used)
        common = {
            text for text in tools.keys() & used.keys() if is_common(used[text], counts.all, runs)
        }
        estimates = tuple(
            Estimate(
                id=row["id"],
                text=row["text"],
                texts=counts.texts(key) if row["id"] else (),
                **{name: row["uses"][name] for name in COUNTS},
                lenders=_nearest(lent.get(key, ())),
                priors=tuple(priors.get(key, ())),
                strategy_rate=float(expected.strategy_rate[judged.first[place]]),
                prior=float(expected.prior[judged.first[place]]),
                near=float(expected.near[judged.first[place]]),
                probability=(probability := float(belief.probability[place])),
                concentration=float(concentration[place]),
                worth=float(worth[place]),
                weight=1.0 / (row["uses"]["trials"] + 1) ** 2,
                lower=wilson_lower(probability, float(worth[place]), STANDARD_ERRORS),
                task_type=question.task_type,
                change=_change(question, row, owns[place], judged.turns[place]),
                nearest=counts.nearest.get(key),
                usual=is_usual(row["uses"], counts.all),
                common=common.issuperset(tools.get(row["text"], [row["text"]])),
            )
            for place, (key, row) in enumerate(rows.items())
        )
        together = _together(estimates)
        return Estimates(
            question=question,
            **{name: counts.all[name] for name in (*_ALL, *_OF_TYPE)},
            **{f"task_{name}": counts.task[name] for name in _ALL},
            rate=float(expected.rate[0]),
            type_rate=float(expected.type_rate[0]),
            task_rate=float(expected.task_rate[0]),
            strategies=estimates,
            probability=together[0],
            concentration=together[1],
            strengths=strengths,
            belief=belief,
            near=_nearest(counts.near.values()),
        )

    def _counts(self, question: Question, own: list[str], view: View) -> _Counts:
        """Return all counts of strategies (ids) on a task and elsewhere."""
        most = _most(question)
        nearest = dict(question.near[:NAMED])
        asked: dict[str, Any] = {
            "pooling": self._strengths.id,
            "tasks": question.tasks,
            "near_tasks": sorted(most),
            "nearest": sorted(nearest),
            "type": question.task_type,
            **view.filters(self._graph),
        }
        some = ("some",) if view.agents is not None else ()
        rows = self._graph.read("forecasting.counts", *some, own=own, **asked)
        parts: dict[str, list[Any]] = {row["part"]: row["rows"] for row in rows}
        wholes = {row["id"]: row["whole"] for row in parts.get("merged", ())}
        if with_others := {wholes[one] for one in own if one in wholes}:
            own += [one for one, whole in wholes.items() if whole in with_others]
            rows = self._graph.read("forecasting.counts", *some, own=sorted({*own}), **asked)
            parts = {row["part"]: row["rows"] for row in rows}
        everything, strategies = parts["all"][0], parts.get("strategies", ())
        around = {key: row for key, *row in parts.get("near", ())}
        similar = dict(question.near)
        # An agent reads its own wording of a task.
        told = view.tasks(self._graph, sorted({*nearest} & {*around})) if some else {}
        near = {
            key: {"id": key, "text": told[key]["text"] if key in told else around[key][2]}
            | {"trials": around[key][0], "successes": around[key][1]}
            | {"similarity": similarity, "weight": most[key] / (1.0 + most[key])}
            for key, similarity in nearest.items()
            if key in (told if some else around)
        }
        counts = _Counts(
            all=everything,
            task=parts["task"][0],
            shared=_shared(everything, parts["task"][0], parts["here"][0], around, most),
            links=parts.get("links", []),
            strengths=next(iter(parts.get("strengths", ())), None),
            wholes=wholes,
            strategies={row["id"]: row | {"uses": _unused()} for row in strategies},
            some=bool(some),
            near=near,
            near_trials=sum(around[key][0] for key in similar if key in around),
            most=most,
        )
        self._add_uses(counts, question, typed=asked["types"] is not None)
        for row in parts.get("outcomes", ()):
            counts.add(row["id"], row, (*_HERE, "here_n", "here_k"))
            counts.uses(row["id"])["here_latest"] += [one for one in row["here_latest"] if one]
        cells: dict[tuple[str, str], tuple[int, int]] = {}
        for [identity, task, trials, successes] in parts.get("near outcomes", ()):
            n, k = cells.get((identity, task), (0, 0))
            cells[identity, task] = n + trials, k + successes
        counts.add_near(cells, similar)
        return counts

    def _add_uses(self, counts: _Counts, question: Question, *, typed: bool) -> None:
        """Add the uses of strategies on all tasks, and on the type, where agents learned there."""
        strategies, some = counts.strategies.values(), counts.some
        tallies = [(one["agent"], one["type"]) for one in counts.all["tallies"]]
        kinds = tallies
        if len(tallies) > KINDS and not some:
            kinds = [one for one in tallies if one[1] == question.task_type]
        keys = [(row["id"], kind) for row in strategies for _, kind in kinds]
        ids = heuristic_ids(self._graph.ns, kinds, [row["text"] for row in strategies])
        of = dict(zip(ids, keys, strict=True))
        for row in self._graph.read("forecasting.typed", ids=list(of)) if of else ():
            identity, kind = of[row["id"]]
            counts.add(identity, row, ("all_n", "all_k"), ("n", "k"))
            if kind == question.task_type:
                counts.add(identity, row, _OF_TYPE, _ALL)
                counts.add(identity, row, ("type_n", "type_k"), ("n", "k"))
            if some:
                counts.add(identity, row, _ALL)
        for row in strategies:
            if typed:  # edges of strategies do not tell types apart
                uses = counts.uses(row["id"])
                uses["n"], uses["k"] = uses["all_n"], uses["all_k"]
                continue
            counts.add(row["id"], row, ("n", "k"))
            if not some:
                counts.add(row["id"], row, _ALL)
            if kinds is not tallies:
                counts.add(row["id"], row, ("all_n", "all_k"), ("n", "k"))
            counts.uses(row["id"])["latest"] += [one for one in row["latest"] if one]

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

    all: Mapping[str, Any]
    task: Mapping[str, int]
    shared: Shared
    links: Sequence[Row]
    strengths: Row | None
    wholes: Mapping[str, str]
    strategies: Mapping[str, Row]
    """By id: {id, text, uses}."""
    some: bool
    """Whether they are those of some agents alone, who know only what they tried."""
    near: Mapping[str, Row]
    """The few nearest tasks by id, the nearest first: rows of :attr:`Estimates.near`."""
    near_trials: int
    """Episodes of all near tasks."""
    most: Mapping[str, float]
    """What near and less similar tasks (ids) count for, at most, in trials."""
    nearest: dict[str, Row] = field(default_factory=dict)
    """By the id of the whole: its outcomes on the nearest task where it was tried."""

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

    def uses(self, identity: str) -> dict[str, Any]:
        """Return the counts of what a strategy counts as."""
        uses: dict[str, Any] = self.strategies[self.whole(identity)]["uses"]
        return uses

    def add(
        self, identity: str, row: Row, names: Sequence[str], held: Sequence[str] | None = None
    ) -> None:
        """Add columns of a row to the counts of what a strategy counts as."""
        uses = self.uses(identity)
        for name, value in zip(names, held or names, strict=True):
            uses[name] += row[value] or 0

    def add_near(
        self, cells: Mapping[tuple[str, str], tuple[int, int]], similar: Mapping[str, float]
    ) -> None:
        """Add the (trials, successes) of strategies on similar tasks and less similar ones."""
        from graphmem.advice.beliefs import effective

        for (identity, task), (n, k) in cells.items():
            uses, share, gone = self.uses(identity), *_shares(self.most[task], n)
            uses["around_n"] += n
            if task in similar:
                uses["near_trials"] += n
                uses["near_successes"] += k
            uses["near_n"] += n * share
            uses["near_k"] += k * share
            uses["gone_n"] += effective(n, n) * gone
            uses["gone_k"] += effective(k, n) * gone
        told = [cell for cell in cells if cell[1] in self.near]
        for identity, task in sorted(told, key=lambda cell: -similar[cell[1]]):
            n, k = cells[identity, task]
            others = self.uses(identity)["near_n"] - n * _shares(self.most[task], n)[0] >= MOVES
            self.nearest.setdefault(
                self.whole(identity),
                self.near[task] | {"trials": n, "successes": k, "others": others},
            )


def _change(
    question: Question, row: Row, own: Own, turns: tuple[Turn | None, Turn | None]
) -> Change | None:
    """Return the change that is assumed of a candidate: everywhere, else on the task."""
    here, everywhere = turns
    turn = everywhere or here
    if turn is None or not row["id"]:
        return None
    latest = own.latest if everywhere else own.here_latest
    trials, successes = (row["uses"][name] for name in (_ALL if everywhere else _HERE))
    found = {"trials": trials, "successes": successes, "latest": latest}
    return change_of(row["text"], None if everywhere else question.text, found, turn)


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


def _unused() -> dict[str, Any]:
    return {**dict.fromkeys((*COUNTS, *_WORTHS), 0), "latest": [], "here_latest": []}


def _most(question: Question) -> dict[str, float]:
    """Return what near tasks (ids) count for, at most, in trials."""
    from graphmem.advice.beliefs import at_most

    room = max(1.0 - question.edge, 1e-9)
    near = ((key, (cosine - question.edge) / room) for key, cosine in question.around)
    return {key: at_most(weight) for key, weight in near if weight > 0.0}


def _shares(most: float, trials: int) -> tuple[float, float]:
    """Return what an outcome counts for on a near task, and what of it no longer counts elsewhere.

    It is one of so many there, which count for ``most`` together, at most.
    """
    return most / (trials + most), most / (1.0 + most)


def _shared(
    everything: Row, task: Row, here: Row, near: Mapping[str, Sequence[Any]], most: dict[str, float]
) -> Shared:
    from graphmem.advice.beliefs import Shared

    weighed = [(n, k, *_shares(most[key], n)) for key, (n, k, _) in near.items()]
    return Shared(
        all_trials=everything["trials"],
        everything=_pair(everything, "n", "k"),
        type_trials=everything["type_trials"],
        typed=_pair(everything, "type_n", "type_k"),
        episodes=_pair(task, "trials", "successes"),
        here_raw=_pair(here, "trials", "successes"),
        here=_pair(here, "n", "k"),
        near_trials=sum(n for n, *_ in weighed),
        near=(sum(n * one for n, _, one, _ in weighed), sum(k * one for _, k, one, _ in weighed)),
        near_gone=(
            sum(n * one for n, *_, one in weighed),
            sum(k * one for _, k, _, one in weighed),
        ),
    )


def _pair(row: Row, *names: str) -> tuple[float, float]:
    n, k = (float(row[name] or 0.0) for name in names)
    return n, k


def _own(uses: Mapping[str, Any], lenders: Iterable[Row], priors: Sequence[Prior]) -> Own:
    """Return what is known of a candidate."""
    from graphmem.advice.beliefs import Own, lend

    lent = [lend(row["weight"], row["trials"], row["successes"]) for row in lenders]
    lent += [(one.worth, one.worth * one.rate) for one in priors]
    return Own(
        **{name: uses[name] for name in COUNTS if not name.startswith("near")},
        near_trials=uses["around_n"],
        effective=(uses["n"], uses["k"]),
        everything=(uses["all_n"], uses["all_k"]),
        typed=(uses["type_n"], uses["type_k"]),
        here=(uses["here_n"], uses["here_k"]),
        near=(uses["near_n"], uses["near_k"]),
        gone=(uses["gone_n"], uses["gone_k"]),
        lent=(sum(n for n, _ in lent), sum(k for _, k in lent)),
        latest=latest_of(uses["latest"]),
        here_latest=latest_of(uses["here_latest"]),
    )


def _together(estimates: Sequence[Estimate]) -> tuple[float, float]:
    """Return what to expect of several strategies together: the mean of their log odds."""
    weights = sum(one.weight for one in estimates)
    mean = sum(one.weight * log(one.probability / (1.0 - one.probability)) for one in estimates)
    concentration = sum(one.weight * one.concentration for one in estimates) / weights
    if len(estimates) == 1:
        return estimates[0].probability, concentration
    return 1.0 / (1.0 + exp(-mean / weights)), concentration


def _nearest(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return what has trials, the nearest first."""
    lent = [row for row in rows if row["trials"]]
    return tuple(sorted(lent, key=lambda row: (-row["similarity"], row["text"], row["id"])))
