"""The one estimate: what to expect of strategies on a task, from counts in the graph.

Recall, context, choose, predict, explain and warnings read it from :class:`Estimator`, which reads
the counts; :mod:`graphmem.advice.beliefs` makes beliefs of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import TYPE_CHECKING

from graphmem.advice.changes import change_of
from graphmem.advice.strengths import DEFAULTS, Strengths
from graphmem.graph.access import View
from graphmem.graph.estimate import STANDARD_ERRORS, Estimate, is_common, is_usual
from graphmem.graph.graph import Graph
from graphmem.graph.nearness import Question, understood
from graphmem.models.forecasts import Change, PoolingStrengths
from graphmem.numerics import beta_quantile, wilson_lower
from graphmem.search.similarity import Similarity
from graphmem.store.port import Row
from graphmem.text.words import sequences

if TYPE_CHECKING:
    from graphmem.advice.beliefs import Own
    from graphmem.advice.evidence import Candidate
    from graphmem.advice.formula import Belief, Turn

_ALL = ("trials", "successes")
_OF_TYPE = ("type_trials", "type_successes")
COUNTS = (*(*_ALL, *_OF_TYPE), *("near_trials", "near_successes", "here_trials", "here_successes"))
"""The counts of outcomes that an estimate has."""


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

    def __init__(self, graph: Graph, strengths: Strengths, near: Similarity) -> None:
        self._graph = graph
        self._strengths = strengths
        self.near = near
        """Finds what is near a task or strategy."""

    def estimates(
        self, task: str, strategies: Sequence[str], view: View, task_type: str | None = None
    ) -> Estimates:
        """Return what to expect of strategies (texts or ids) on a task (key, id or wording).

        What is not known borrows from what is similar to it.
        """
        question = understood(self._graph, task, view, self.near, task_type)
        return self._estimates(question, strategies, view, search=True)

    def each(
        self, question: Question, strategies: Sequence[str], view: View
    ) -> tuple[Estimate, ...]:
        """Return what to expect of known strategies (texts or ids) on a task that was found."""
        return self._estimates(question, strategies, view, search=False).strategies

    def _estimates(
        self, question: Question, strategies: Sequence[str], view: View, *, search: bool
    ) -> Estimates:
        from graphmem.advice.beliefs import judge
        from graphmem.advice.evidence import Evidence

        found = Evidence(self._graph, self.near, question, view)
        several = found.read(strategies, self._strengths.id, search=search)
        everything = found.everything
        strengths = DEFAULTS  # they are fitted to the outcomes of all agents
        if view.agents is None:
            strengths = self._strengths.in_force(everything["trials"], found.strengths)
        judged = judge(found.shared, several, strengths, found.look_up)
        belief, expected = judged.belief, judged.expected
        worth, concentration = (
            belief.size(rest).tolist() for rest in (belief.elsewhere, belief.known)
        )
        probabilities = belief.probability.tolist()
        before = [
            values[judged.first].tolist()
            for values in (expected.strategy_rate, expected.prior, expected.near)
        ]
        counts = [_counts(one) for one in several]
        texts = [one.text for one in several]
        tools = sequences(texts)
        common = {
            text
            for text, uses in zip(texts, counts, strict=True)
            if text in tools and is_common(uses, everything, found.runs)
        }
        estimates = tuple(
            Estimate(
                id=one.id,
                text=one.text,
                texts=one.texts,
                **counts[place],
                lenders=tuple(one.lenders),
                priors=tuple(one.priors),
                strategy_rate=before[0][place],
                prior=before[1][place],
                near=before[2][place],
                probability=probabilities[place],
                concentration=concentration[place],
                worth=worth[place],
                weight=1.0 / (one.trials + 1) ** 2,
                lower=wilson_lower(probabilities[place], worth[place], STANDARD_ERRORS),
                task_type=question.task_type,
                change=_change(question, one, judged.turns[place]),
                nearest=one.nearest,
                usual=is_usual(counts[place], everything),
                common=common.issuperset(tools.get(one.text, [one.text])),
            )
            for place, one in enumerate(several)
        )
        together = _together(estimates)
        task_trials, task_successes = map(int, found.shared.episodes)
        return Estimates(
            question=question,
            **{name: everything[name] for name in (*_ALL, *_OF_TYPE)},
            task_trials=task_trials,
            task_successes=task_successes,
            rate=float(expected.rate[0]),
            type_rate=float(expected.type_rate[0]),
            task_rate=float(expected.task_rate[0]),
            strategies=estimates,
            probability=together[0],
            concentration=together[1],
            strengths=strengths,
            belief=belief,
            near=_nearest(found.near.values()),
        )


def _counts(own: Own) -> dict[str, int]:
    """Return the counts of outcomes of a strategy, by the names of :data:`COUNTS`."""
    near = map(int, own.seen)
    values = own.trials, own.successes, own.type_trials, own.type_successes, *near
    return dict(zip(COUNTS, (*values, own.here_trials, own.here_successes), strict=True))


def _change(
    question: Question, one: Candidate, turns: tuple[Turn | None, Turn | None]
) -> Change | None:
    """Return the change that is assumed of a candidate: everywhere, else on the task."""
    here, everywhere = turns
    turn = everywhere or here
    if turn is None:
        return None
    task, found = None, (one.trials, one.successes, one.latest)
    if not everywhere:
        task, found = question.text, (one.here_trials, one.here_successes, one.here_latest)
    row = dict(zip(("trials", "successes", "latest"), found, strict=True))
    return change_of(one.text, task, row, turn)


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
