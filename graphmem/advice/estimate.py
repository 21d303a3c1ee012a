"""The one estimate: what to expect of strategies on a task, from counts in the graph.

Recall, context, choose, predict, explain and warnings read it from :class:`Estimator`, which reads
the counts; :mod:`graphmem.advice.beliefs` makes beliefs of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from operator import mul
from typing import TYPE_CHECKING

from graphmem.advice.changes import change_of
from graphmem.advice.strengths import DEFAULTS, Strengths
from graphmem.graph.access import View
from graphmem.graph.estimate import MOVED, STANDARD_ERRORS, Estimate, is_common, is_usual, mean_of
from graphmem.graph.graph import Graph
from graphmem.models.forecasts import Change, PoolingStrengths
from graphmem.numerics import beta_quantile, wilson_lower
from graphmem.search.similarity import Question, Similarity
from graphmem.store.port import Row
from graphmem.text.words import sequences

if TYPE_CHECKING:
    from graphmem.advice.beliefs import Course
    from graphmem.advice.formula import Belief, Turn

_ALL = ("trials", "successes")


@dataclass(frozen=True, slots=True)
class Estimates:
    """What to expect of strategies on a task."""

    question: Question
    everything: Row
    """The outcomes and rates of all strategies: on all tasks, and on the type of the task."""
    task: Row
    """Those of the task: {trials, successes, uses, worked, rate}."""
    strategies: Sequence[Estimate]
    """The strategies as they were given, without those that count as an earlier one."""
    probability: float
    """What to expect of all of them used together."""
    concentration: float
    strengths: PoolingStrengths
    belief: Belief
    """What is believed of the strategies; to choose, one draws from it."""
    near: Sequence[Row]
    """The few nearest tasks: {id, text, trials, successes, similarity, weight of one outcome}."""


class Estimator:
    """Estimates the outcomes of strategies on tasks, in one namespace."""

    def __init__(self, graph: Graph, strengths: Strengths, near: Similarity) -> None:
        self._graph = graph
        self._strengths = strengths
        self.near = near
        """Finds what is near a task or strategy."""

    def each(self, question: Question, strategies: Sequence[str], view: View) -> Sequence[Estimate]:
        """Return what to expect of known strategies (texts or ids) on a task that was found."""
        return self.estimates(question, strategies, view, search=False).strategies

    def estimates(
        self, question: Question, strategies: Sequence[str], view: View, *, search: bool = True
    ) -> Estimates:
        """Return what to expect of strategies (texts or ids) on the task of a question.

        What is not known borrows from what is similar to it, if that may be searched for.
        """
        from graphmem.advice.beliefs import judge
        from graphmem.advice.evidence import Evidence, nearest_first

        found = Evidence(self._graph, self.near, question, view)
        several = found.read(strategies, self._strengths.id, search=search)
        everything = found.everything
        strengths = DEFAULTS  # they are fitted to the outcomes of all agents
        if view.agents is None:
            strengths = self._strengths.in_force(everything["trials"], found.strengths)
        judged = judge(found.shared, several, strengths, found.look_up)
        belief, expected = judged.belief, judged.expected
        worths = belief.size(belief.elsewhere).tolist()
        concentrations = belief.size(belief.known).tolist()
        for place, one in enumerate(several):
            row = judged.first[place]
            one.strategy_rate = float(expected.strategy_rate[row])
            one.prior, one.near = float(expected.prior[row]), float(expected.near[row])
            one.probability = float(belief.probability[place])
            one.worth, one.concentration = worths[place], concentrations[place]
            one.lower = wilson_lower(one.probability, one.worth, STANDARD_ERRORS)
            one.task_type = question.task_type
            one.change = _change(question, one, judged.turns[place], judged.nearby.get(place))
        tools = sequences([one.text for one in several])
        common = set()
        for one in several:
            one.usual = is_usual(one, everything)
            if one.text in tools and is_common(one, everything, found.runs):
                common.add(one.text)
        for one in several:
            one.common = common.issuperset(tools.get(one.text, [one.text]))
        weights = [one.weight for one in several]
        task = {name: getattr(found.shared.episodes, name) for name in _ALL}
        task |= {"uses": found.shared.here.trials, "worked": found.shared.here.successes}
        counted = (*_ALL, "type_trials", "type_successes")
        rates = {"rate": float(expected.rate[0]), "type_rate": float(expected.type_rate[0])}
        return Estimates(
            question=question,
            everything={name: everything[name] for name in counted} | rates,
            task=task | {"rate": float(expected.task_rate[0])},
            strategies=several,
            probability=together([one.probability for one in several], weights),
            concentration=sum(map(mul, weights, concentrations)) / sum(weights),
            strengths=strengths,
            belief=belief,
            near=nearest_first([row for row in found.near.values() if row["trials"]]),
        )


def _change(
    question: Question, one: Estimate, turns: Sequence[Turn | None], course: Course | None
) -> Change | None:
    """Return the change that is assumed of a candidate: a certain one, else a possible one."""
    here, nearby, everywhere = turns
    found = []
    for turn, task, where in ((everywhere, None, ""), (here, question.text, "here_")):
        if turn:
            row = {name: getattr(one, where + name) for name in (*_ALL, "latest")}
            found.append(change_of(one.text, task, row, turn))
    if nearby and course:
        found.append(change_of(one.text, question.text, course._asdict(), nearby))
    moving = [change for change in found if _moves(change, one)]
    certain = [change for change in found if change.certain]
    return next(iter(certain), max(moving, key=lambda change: change.certainty, default=None))


def _moves(change: Change, one: Estimate) -> bool:
    """Return whether a change moves what is expected away from the rate before and since."""
    rate = mean_of(change.successes_before + change.successes_since, change.trials)
    since = mean_of(change.successes_since, change.trials_since)
    moved = one.probability - rate
    return abs(moved) >= MOVED and (moved > 0.0) == (since > rate)


def interval(probability: float, concentration: float, level: float = 0.95) -> tuple[float, float]:
    """Return the central credible interval of an expected rate, around it.

    The interval is that of a Beta distribution whose parameters sum up to the concentration, with
    half a success and half a failure more (Jeffreys 1946, Proc. R. Soc. A 186:453-461). Without
    these, few outcomes that agree would leave nothing between the bounds.
    """
    a, b = probability * concentration + 0.5, (1.0 - probability) * concentration + 0.5
    low, high = beta_quantile((1 - level) / 2, a, b), beta_quantile((1 + level) / 2, a, b)
    # Of a very skewed distribution the expected rate may be outside.
    return min(low, probability), max(high, probability)


def together(rates: Sequence[float], weights: Sequence[float]) -> float:
    """Return what to expect of several strategies together: the mean of their log odds."""
    if len(rates) == 1:
        return rates[0]
    total = sum([w * log(p / (1.0 - p)) for p, w in zip(rates, weights, strict=True)])
    return 1.0 / (1.0 + exp(-total / sum(weights)))
