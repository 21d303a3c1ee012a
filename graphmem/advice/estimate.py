"""The one estimate: what to expect of strategies on a task, and what that rests on.

Recall, context, choose, predict, explain and warnings read it from :class:`Estimator`, which reads
the counts; :mod:`graphmem.advice.beliefs` makes beliefs of them.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import mul
from typing import TYPE_CHECKING, Any

import pydantic

from graphmem.advice.changes import change_of
from graphmem.errors import StoreError, ValidationError
from graphmem.graph.access import View, read_view
from graphmem.graph.arguments import Progress, check_function
from graphmem.graph.estimate import MOVED, STANDARD_ERRORS, Estimate, is_common, is_usual, mean_of
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import node_id
from graphmem.models.fields import Input, Name, SomeNames
from graphmem.models.forecasts import (
    Borrowed,
    Calibration,
    Change,
    OutcomeCounts,
    OutcomePrediction,
    PoolingStrengths,
    PredictionBasis,
    StrategyBasis,
    TaskBasis,
)
from graphmem.models.reports import Difference
from graphmem.numerics import beta_quantile, wilson_lower
from graphmem.search.similarity import Question, Similarity
from graphmem.store.paging import pages
from graphmem.store.port import Row
from graphmem.text.words import sequences

if TYPE_CHECKING:
    from graphmem.advice.beliefs import Course
    from graphmem.advice.formula import Belief, Turn, Uses

_PAGE = 1_000
_COLUMNS = {name: f"{name}_strength" for name in ("task", "strategy", "cell")}
"""The properties of ``Pooling`` whose names are not those of the model."""
_ALL = ("trials", "successes")
_OWN = ("near", "prior", "priors", "probability", "change", *OutcomeCounts.model_fields)

_log = logging.getLogger(__name__)


class Strengths:
    """The strengths of pooling of a namespace, fitted to its history, on a node ``Pooling``.

    When the number of trials has changed by a tenth, they are fitted again.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.id = node_id(graph.ns, "Pooling")
        self._unsaved: PoolingStrengths | None = None

    def in_force(self, trials: int, stored: Row | None) -> PoolingStrengths:
        """Return the strengths in force; fit them if the trials changed by a tenth.

        ``stored`` is what the graph holds of them. They are stored now if this process has the
        lease, else after its next write.
        """
        for known in (_from_row(stored), self._unsaved):
            if known is not None and abs(trials - known.trials) * 10 <= known.trials:
                return known
        from graphmem.advice.formula import DEFAULTS, LEAST

        if trials < LEAST:
            return DEFAULTS
        fitted = self._fit()
        if fitted.trials:
            self._keep(fitted)
        return fitted

    def refit(self) -> PoolingStrengths:
        """Fit the strengths to the whole history now, store them, and return them.

        If another process writes the memory, this process keeps them until its next write.
        """
        fitted, stored = self._fit(), self._stored()
        if (fitted.trials or stored) and fitted != _from_row(stored):
            self._graph.store.try_writing()
            self._keep(fitted)
        return fitted

    def verify(self, checked: Counter[str]) -> Iterator[Difference]:
        """Compare the stored strengths with fitted ones; yield differences, and count the checked.

        If the history has grown since, they are not compared: they stay in force for a while.
        """
        stored = self._stored()
        if stored is None:
            return
        checked.update(pooling=0)
        trials = self._graph.read("forecasting.totals")[0]["trials"]
        if isinstance(stored["trials"], int) and stored["trials"] != trials:
            return
        checked.update(pooling=1)
        for name, value in _to_row(self._fit()).items():
            held = stored[name]
            # The likelihood is flat there: another version's search may end a little elsewhere.
            if not isinstance(held, int | float) or not math.isclose(
                held, value, rel_tol=0.01, abs_tol=1e-9
            ):
                yield Difference(
                    kind="pooling", key=self.id, field=name, stored=held, expected=value
                )

    def _stored(self) -> Row | None:
        return next(iter(self._graph.read("forecasting.pooling", ids=[self.id])), None)

    def _keep_unsaved(self) -> None:
        if self._unsaved is not None:
            self._keep(self._unsaved)

    def _keep(self, strengths: PoolingStrengths) -> None:
        self._unsaved = strengths
        if not self._graph.store.writing:
            if self._keep_unsaved not in self._graph.after_write:
                self._graph.after_write.append(self._keep_unsaved)
            return

        def work(tx: Transaction) -> None:
            tx.run("forecasting.drop_pooling")
            if strengths.trials:
                tx.run("forecasting.put_pooling", id=self.id, strengths=_to_row(strengths))

        try:
            self._graph.transact(work)
        except StoreError as error:  # the prediction is still valid, and storing can be retried
            _log.info("strengths of pooling were not stored: %s", error)
            return
        self._unsaved = None

    def _fit(self) -> PoolingStrengths:
        from graphmem.advice.formula import LEAST, fit_strengths

        trials = self._graph.read("forecasting.totals")[0]["trials"]
        return fit_strengths(self._cells() if trials >= LEAST else (), trials)

    def _cells(self) -> list[Uses]:
        from graphmem.advice.formula import MAX_CELLS, Uses

        tasks = self._graph.read("forecasting.task_keys")
        tasks.sort(key=lambda row: (hashlib.sha256(row["key"].encode()).digest(), row["id"]))
        cells: list[Uses] = []
        for ids in pages([row["id"] for row in tasks], _PAGE):
            cells += [Uses(**row) for row in self._graph.read("forecasting.cells", ids=ids)]
            if len(cells) >= MAX_CELLS:
                break
        return cells


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
    strengths: PoolingStrengths
    belief: Belief
    """What is believed of the strategies; to choose, one draws from it."""
    near: Sequence[Row]
    """The few nearest tasks: {id, text, trials, successes, similarity, weight of one outcome}."""


class _Asked(Input):
    task: Name
    strategy: Name | None
    together: SomeNames | None


class Estimator:
    """Estimates the outcomes of strategies on tasks, in one namespace."""

    def __init__(self, graph: Graph, near: Similarity, past: Callable[[datetime], Any]) -> None:
        self._graph = graph
        self.strengths = Strengths(graph)
        self.near = near
        """Finds what is near a task or strategy."""
        self.past = past
        """Gives a memory of what was recorded by a time."""

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
        from graphmem.advice.formula import DEFAULTS

        found = Evidence(self._graph, self.near, question, view)
        several = found.read(strategies, self.strengths.id, search=search)
        everything = found.everything
        strengths = DEFAULTS  # they are fitted to the outcomes of all agents
        if view.agents is None:
            strengths = self.strengths.in_force(everything["trials"], found.strengths)
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
        task = {name: getattr(found.shared.episodes, name) for name in _ALL}
        task |= {"uses": found.shared.here.trials, "worked": found.shared.here.successes}
        rates = {"rate": float(expected.rate[0]), "type_rate": float(expected.type_rate[0])}
        return Estimates(
            question=question,
            everything=everything | rates,
            task=task | {"rate": float(expected.task_rate[0])},
            strategies=several,
            strengths=strengths,
            belief=belief,
            near=nearest_first([row for row in found.near.values() if row["trials"]]),
        )

    def predict(
        self,
        task: str,
        strategy: str | None = None,
        agent: str | None = None,
        *,
        together: Sequence[str] | None = None,
        as_of: datetime | None = None,
    ) -> OutcomePrediction:
        """Return the probability that a strategy works on a task, and the data behind it.

        The rates of the task and of the strategy, each shrunk toward the overall rate, add up as
        logits; the strategy's outcomes on this very task update that. An untried or unknown task or
        strategy borrows from similar ones. Merged strategies count as one. An empty memory answers
        0.5, with wide bounds.

        Args:
            task: its key, id or wording.
            strategy: its text or id. :meth:`choose` compares alternatives.
            agent: use only episodes that this agent may read; None: all.
            together: instead, several strategies that one episode uses: the mean of their logits,
                in which rarely tried ones weigh more.
            as_of: what was believed at this time, with time zone: only episodes that were recorded
                by then count, whatever their own dates. Rights, merges and settings are those of
                today. The first question about a time learns these episodes again, in this process.

        Raises:
            ValidationError: an argument is wrong; ``as_of`` is in the future.
            NotFoundError: nothing was recorded by ``as_of``.
            SettingsError: it must search for similar ones, and the memory was built with another
                embedder.
        """
        if isinstance(strategy, list | tuple) or (strategy is None) == (together is None):
            problem, remedy = "is not one strategy", "give one, or together=[...]; choose compares"
            raise ValidationError("strategy", strategy, problem, remedy)
        if as_of is not None:
            past: OutcomePrediction
            past = self.past(as_of).predict(task, strategy, agent, together=together)
            return past
        asked = _Asked.from_arguments(locals())
        texts = list(dict.fromkeys(asked.together or (asked.strategy or "",)))
        view = read_view(self._graph, agent)
        question = self.near.understand(asked.task, view)
        found = self.estimates(question, texts, view)
        weights = [one.weight for one in found.strategies]
        total = sum(weights)
        probability = combine_rates([one.probability for one in found.strategies], weights)
        worths = [one.concentration for one in found.strategies]
        low, high = interval(probability, sum(map(mul, weights, worths)) / total)
        basis = PredictionBasis(
            **found.everything,
            strengths=found.strengths,
            task_type=question.task_type,
            task=TaskBasis(
                text=asked.task,
                known=bool(question.known),
                **found.task,
                borrowed=_borrowed(found.near),
            ),
            strategies=tuple(
                StrategyBasis(
                    **{name: getattr(one, name) for name in _OWN},
                    known=one.id is not None,
                    rate=one.strategy_rate,
                    weight=one.weight / total,
                    borrowed=_borrowed(one.lenders),
                )
                for one in found.strategies
            ),
            agents=view.agents,
        )
        return OutcomePrediction(
            probability=probability,
            low=low,
            high=high,
            trials=min(one.here_trials for one in found.strategies),
            basis=basis,
        )

    def calibrate(self, *, on_progress: Progress | None = None) -> Calibration:
        """Return how well past outcomes are predicted, compared with simple predictors.

        It predicts every episode from those recorded before it, as :meth:`predict` would have done
        at that time with all its strategies. At the end it fits the strengths of pooling to the
        whole history, and stores them.

        Args:
            on_progress: called with the number of predicted episodes, and of all episodes.

        Raises:
            ValidationError: an argument is wrong.
        """
        check_function("on_progress", on_progress)
        from graphmem.advice.calibrate import Calibrator

        calibrator = Calibrator(self._graph, self.near)
        return calibrator.calibrate(self.strengths.refit, on_progress)


def _borrowed(rows: Iterable[Row]) -> tuple[Borrowed, ...]:
    return tuple(Borrowed(**row | {"similarity": min(1.0, row["similarity"])}) for row in rows)


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


def combine_rates(rates: Sequence[float], weights: Sequence[float]) -> float:
    """Return what to expect of several strategies together: the mean of their log odds."""
    if len(rates) == 1:
        return rates[0]
    total = sum([w * math.log(p / (1.0 - p)) for p, w in zip(rates, weights, strict=True)])
    return 1.0 / (1.0 + math.exp(-total / sum(weights)))


def _from_row(row: Row | None) -> PoolingStrengths | None:
    """Return strengths from their row, or None if there is none, or one of a wrong type."""
    if row is None:
        return None
    try:
        return PoolingStrengths.model_validate(
            {name: row[_COLUMNS.get(name, name)] for name in PoolingStrengths.model_fields},
            strict=True,
        )
    except pydantic.ValidationError:
        return None


def _to_row(strengths: PoolingStrengths) -> Row:
    return {_COLUMNS.get(name, name): value for name, value in strengths.model_dump().items()}
