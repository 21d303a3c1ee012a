"""Predicts the outcome of strategies on a task: the one estimate, and what it rests on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphmem.advice.estimate import Estimator
from graphmem.advice.strengths import Strengths
from graphmem.errors import ValidationError
from graphmem.graph.access import read_view
from graphmem.graph.arguments import check_function, checked_text
from graphmem.graph.graph import Graph
from graphmem.graph.nearness import Near
from graphmem.models.fields import MAX_STRATEGIES
from graphmem.models.forecasts import (
    Calibration,
    CalibrationOrder,
    OutcomePrediction,
    PredictionBasis,
    StrategyBasis,
    TaskBasis,
)

Progress = Callable[[int, int], None]
"""Called with the number of predicted episodes, and of all episodes."""


class Forecaster:
    """Predicts outcomes in one namespace."""

    def __init__(
        self, graph: Graph, strengths: Strengths, estimator: Estimator, near: Near | None = None
    ) -> None:
        self._graph = graph
        self._near = near
        """Finds nodes similar to an unknown task or strategy."""
        self._strengths = strengths
        self._estimator = estimator

    def predict(
        self, task: str, strategy: str | Sequence[str], agent: str | None = None
    ) -> OutcomePrediction:
        """Return the probability that a strategy works on a task, and the data behind it.

        The rates of the task and of the strategy, each shrunk toward the overall rate, add up as
        logits; the strategy's outcomes on this very task update that. An untried or unknown task or
        strategy borrows from similar ones. Merged strategies count as one. An empty memory answers
        0.5, with wide bounds.

        Args:
            task: its key, id or wording.
            strategy: its text or id, or several used together: then the mean of their logits, in
                which rarely tried ones weigh more.
            agent: use only episodes that this agent may read; None: all.

        Raises:
            ValidationError: an argument is wrong.
            SettingsError: it must search for similar ones, and the memory was built with another
                embedder.
        """
        text = _named("task", task)
        texts = _strategies(strategy)
        view = read_view(self._graph, agent)
        found = self._estimator.estimates(text, texts, view, self._near, each=True)
        weights = sum(one.weight for one in found.strategies)
        basis = PredictionBasis(
            trials=found.trials,
            successes=found.successes,
            rate=found.rate,
            task_type=found.task_type,
            type_trials=found.type_trials,
            type_successes=found.type_successes,
            type_rate=found.type_rate,
            task=TaskBasis(
                text=text,
                known=bool(found.tasks),
                trials=found.task_trials,
                successes=found.task_successes,
                rate=found.task_rate,
                borrowed=found.near,
            ),
            strategies=tuple(
                StrategyBasis(
                    text=one.text,
                    known=one.id is not None,
                    trials=one.trials,
                    successes=one.successes,
                    type_trials=one.type_trials,
                    type_successes=one.type_successes,
                    rate=one.strategy_rate,
                    near_trials=one.near_trials,
                    near_successes=one.near_successes,
                    near=one.near,
                    here_trials=one.here_trials,
                    here_successes=one.here_successes,
                    prior=one.prior,
                    probability=one.probability,
                    weight=one.weight / weights,
                    borrowed=one.borrowed,
                )
                for one in found.strategies
            ),
            strengths=found.strengths,
            agents=found.agents,
        )
        from graphmem.advice.pooling import interval

        low, high = interval(found.probability, found.concentration)
        return OutcomePrediction(
            probability=found.probability,
            low=low,
            high=high,
            trials=min(one.here_trials for one in found.strategies),
            basis=basis,
        )

    def calibrate(
        self,
        by: CalibrationOrder = "order",
        folds: int | None = None,
        *,
        on_progress: Progress | None = None,
    ) -> Calibration:
        """Return how well past outcomes are predicted, compared with simple predictors.

        It predicts every episode from earlier ones, as :meth:`predict` would have done at that time
        with all its strategies. At the end it fits the strengths of pooling to the whole history,
        and stores them.

        Args:
            by: "order" of recording, or "time" of the end (else the start, else the recording);
                ties are in order of recording.
            folds: instead, split the episodes into so many parts (2 to 1000) by a hash of the
                source key or content, and predict each part from the others.
            on_progress: called with the number of predicted episodes, and of all episodes.

        Raises:
            ValidationError: an argument is wrong.
        """
        check_function("on_progress", on_progress)
        from graphmem.advice.calibrate import Calibrator

        calibration = Calibrator(self._graph).calibrate(by, folds, on_progress)
        return calibration.model_copy(update={"strengths": self._strengths.refit()})


def _named(name: str, value: object) -> str:
    text = checked_text(name, value)  # type: ignore[arg-type]
    if not text:
        raise ValidationError(name, value, "is empty", "name it by its text, key or id")
    return text


def _strategies(given: object) -> list[str]:
    several = [given] if isinstance(given, str) else given
    if not isinstance(several, Sequence) or not 0 < len(several) <= MAX_STRATEGIES:
        raise ValidationError(
            "strategy", given, f"must be a text, or a list of 1 to {MAX_STRATEGIES} texts"
        )
    return list(dict.fromkeys(_named("strategy", one) for one in several))
