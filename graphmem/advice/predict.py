"""Predicts the outcome of strategies on a task: the one estimate, and what it rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from graphmem.advice.estimate import Estimator, interval
from graphmem.advice.strengths import Strengths
from graphmem.errors import ValidationError
from graphmem.graph.access import read_view
from graphmem.graph.arguments import Progress, check_function
from graphmem.graph.graph import Graph
from graphmem.models.fields import Input, Name, SomeNames
from graphmem.models.forecasts import (
    Borrowed,
    Calibration,
    OutcomeCounts,
    OutcomePrediction,
    PredictionBasis,
    StrategyBasis,
    TaskBasis,
)
from graphmem.store.port import Row

_OWN = ("near", "prior", "priors", "probability", "change", *OutcomeCounts.model_fields)


class _Asked(Input):
    task: Name
    strategy: Name | None
    together: SomeNames | None


class Forecaster:
    """Predicts outcomes in one namespace."""

    def __init__(
        self,
        graph: Graph,
        strengths: Strengths,
        estimator: Estimator,
        past: Callable[[datetime], Any],
    ) -> None:
        self._graph = graph
        self._strengths = strengths
        self._estimator = estimator
        self._past = past
        """Gives a memory of what was recorded by a time."""

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
            past = self._past(as_of).predict(task, strategy, agent, together=together)
            return past
        given: Any = together
        asked = _Asked(task=task, strategy=strategy, together=given)
        texts = list(dict.fromkeys(asked.together or (asked.strategy or "",)))
        view = read_view(self._graph, agent)
        question = self._estimator.near.understand(asked.task, view)
        found = self._estimator.estimates(question, texts, view)
        weights = sum(one.weight for one in found.strategies)
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
                    weight=one.weight / weights,
                    borrowed=_borrowed(one.lenders),
                )
                for one in found.strategies
            ),
            agents=view.agents,
        )
        low, high = interval(found.probability, found.concentration)
        return OutcomePrediction(
            probability=found.probability,
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

        calibrator = Calibrator(self._graph, self._estimator.near)
        return calibrator.calibrate(self._strengths.refit, on_progress)


def _borrowed(rows: Iterable[Row]) -> tuple[Borrowed, ...]:
    return tuple(Borrowed(**row | {"similarity": min(1.0, row["similarity"])}) for row in rows)
