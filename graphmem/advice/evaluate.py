"""Evaluates other ways to choose, from episodes that say how their strategies were chosen.

``docs/explanation/choosing.md`` has the three estimates. Of each episode they need the success *r*,
the weight *w* (how often the way takes its strategy *a*, over the probability with which that was
chosen), and the predicted *q(b)* of the candidates *b* that the way takes with *t(b)*. Intervals
are percentiles of the estimates on episodes drawn with replacement (Efron 1979).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from graphmem.advice.calibrate import Calibrator, History, Trial
from graphmem.advice.choose import Chances, probabilities
from graphmem.advice.formula import Belief, Floats
from graphmem.errors import NotFoundError, ValidationError
from graphmem.graph.arguments import Progress
from graphmem.graph.graph import Graph
from graphmem.ids import strategy_id
from graphmem.models.advice import Estimate, Evaluation, Explore, LeftOut
from graphmem.models.fields import SomeNames
from graphmem.models.forecasts import PoolingStrengths
from graphmem.search.similarity import Similarity
from graphmem.store.port import Row

FEWEST = 10  # fewest episodes for an estimate: resamples of fewer say too little
_INSIDE = (0.025, 0.975)
_SPARE = 0.01  # how far the sum of a function's probabilities may be from 1
_ALIKE = 500_000  # about so many episodes are drawn at a time, to bound memory
_REMEDY = (
    "choose with `choose` or `attempt`, or learn strategies with the probability with which they "
    "were chosen: StrategyUse(text, propensity=..., candidates={...})"
)


class Asked(Chances):
    """The way in question: None takes each of ``strategies`` alike."""

    explore: Explore | Callable[..., Any] | None = None
    strategies: SomeNames | None = None
    clip: Annotated[float, Field(ge=1.0, allow_inf_nan=False)] | None = None
    """The largest weight; None: any."""
    seed: Annotated[int, Field(ge=0)] = 0
    resamples: Annotated[int, Field(ge=100, le=100_000)] = 1_000


Numbers = tuple[float, ...]
"""Of an episode: success, *w*, the sum of *t(b) q(b)*, *q(a)*, and the probability with which the
way takes candidates that had no chance."""


def evaluate(
    graph: Graph, near: Similarity, asked: Asked, on_progress: Progress | None
) -> Evaluation:
    """Return what a way would have got in a namespace."""
    calibrator = Calibrator(graph, near)
    trials = calibrator.trials()
    chosen = [[one for one in trial.uses if one["propensity"] is not None] for trial in trials]
    once = sum(len(choices) == 1 for choices in chosen)
    nothing = sum(not choices for choices in chosen)

    def check(count: int, which: str, remedy: str) -> None:
        if count < FEWEST:
            raise NotFoundError(
                f"{count:,} of {len(trials):,} episodes in namespace {graph.ns!r} {which}, and an "
                f"estimate needs {FEWEST} at least; {remedy}"
            )

    check(once, "say how one strategy was chosen", _REMEDY)
    wholes = {row["id"]: row["whole"] for row in graph.read("forecasting.wholes")}
    replay = _Replay(graph.ns, wholes, asked)
    history = History(calibrator.similar())
    past = calibrator.replay(trials, history, on_progress)
    for trial, choices in zip(past, chosen, strict=True):
        if len(choices) == 1:
            replay.add(trial, choices[0], history, history.strengths_then())
    left_out = LeftOut(
        no_propensity=nothing,
        several_choices=len(trials) - nothing - once,
        no_candidates=replay.no_candidates,
        none_offered=replay.none_offered,
    )
    remedy = "name strategies that were among the candidates"
    if replay.no_candidates:
        remedy = "give `candidates` with their probabilities"
    check(len(replay.rows), "can be used", remedy)
    return estimated(asked, replay.rows, left_out)


@dataclass
class _Replay:
    """Collects what the estimates need, episode by episode."""

    namespace: str
    merged: Mapping[str, str]
    asked: Asked
    rows: list[Numbers] = field(default_factory=list)
    no_candidates: int = 0
    none_offered: int = 0

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng([self.asked.seed, 1])
        only = self.asked.strategies
        self.only = None if only is None else {self._whole(text) for text in only}

    def add(self, trial: Trial, chosen: Row, history: History, strengths: PoolingStrengths) -> None:
        """Add an episode, with what was known before it."""
        strategies = self.asked.strategies
        whole, propensity = chosen["whole"], chosen["propensity"]
        if chosen["candidates"] is not None:
            offered = json.loads(chosen["candidates"])
        elif self.asked.explore is None and strategies is not None:
            offered = dict.fromkeys(strategies, 1.0)  # each of them is taken to have been there
        else:
            self.no_candidates += 1
            return
        texts = [text for text in offered if self.only is None or self._whole(text) in self.only]
        if not texts:
            self.none_offered += 1
            return
        if chosen["candidates"] is not None:  # with all that counts as one with it
            alike = fsum(p for text, p in offered.items() if self._whole(text) == whole)
            propensity = max(propensity, alike)
        wholes = [self._whole(text) for text in texts]
        belief = history.judge(trial, wholes, strengths)
        met = history.tasks[trial.task].trials if trial.task in history.tasks else 0
        taken = self._read_chances(trial.name, texts, belief, met, strengths.cell)
        mine = np.array([one == whole for one in wholes])
        weight = float(taken[mine].sum()) / propensity
        never = np.array([offered[text] == 0.0 for text in texts])
        self.rows.append(
            (
                float(trial.worked(whole)),
                min(weight, self.asked.clip or weight),
                float((taken * belief.probability).sum()),
                float(history.judge(trial, [whole], strengths).probability[0]),
                float(taken[never].sum()),
            )
        )

    def _read_chances(
        self, task: str, texts: Sequence[str], belief: Belief, met: int, cell: float
    ) -> Floats:
        explore = self.asked.explore
        if explore is None:
            return np.full(len(texts), 1.0 / len(texts))
        if isinstance(explore, str):
            return probabilities(belief, met, cell, explore, self.asked, self.rng)
        given = explore(task, tuple(texts))
        remedy = "return a dict with the probability of each candidate; they sum to 1"
        if not isinstance(given, Mapping) or not given.keys() <= set(texts):
            problem = "returned no probabilities of candidates"
            raise ValidationError("explore", given, problem, remedy)
        values = [given.get(text, 0.0) for text in texts]
        for value in values:
            if type(value) not in (int, float) or not 0.0 <= value <= 1.0:
                raise ValidationError("explore", value, "returned no probability in [0, 1]", remedy)
        if abs(fsum(values) - 1.0) > _SPARE:
            problem = f"returned probabilities that sum to {fsum(values):.6g}"
            raise ValidationError("explore", given, problem, remedy)
        return np.array(values, dtype=np.float64)

    def _whole(self, text: str) -> str:
        identity = strategy_id(self.namespace, text)
        return self.merged.get(identity, identity)


def estimated(asked: Asked, rows: Sequence[Numbers], left_out: LeftOut) -> Evaluation:
    """Return the estimates from what is known of each episode."""
    success, weight, expected, own, unsupported = np.array(rows).T
    if not weight.any():
        raise NotFoundError(
            f"none of {len(weight):,} episodes took a strategy that this way takes, so nothing can "
            "be estimated; learn episodes whose strategies are chosen with some chance for each "
            "candidate (explore='thompson' or 'epsilon')"
        )
    robust = expected + weight * (success - own)
    columns = np.stack([success, weight, weight * success, robust], axis=1)
    all_episodes = _values(columns.mean(axis=0)[None])[0]
    resampled = np.concatenate(
        [_values(means) for means in _resampled(columns, asked.seed, asked.resamples)]
    )
    bounds = np.nanquantile(resampled, _INSIDE, axis=0)
    gains = np.nanquantile(resampled - resampled[:, :1], _INSIDE, axis=0)
    numbers = np.stack([all_episodes, *bounds, all_episodes - all_episodes[0], *gains], axis=1)
    got, *estimates = (
        Estimate(**dict(zip(Estimate.model_fields, row, strict=True))) for row in numbers.tolist()
    )
    return Evaluation(
        explore="own" if callable(asked.explore) else asked.explore,
        strategies=asked.strategies,
        episodes=len(weight),
        left_out=left_out,
        got=got.value,
        got_low=got.low,
        got_high=got.high,
        inverse_propensity=estimates[0],
        self_normalised=estimates[1],
        doubly_robust=estimates[2],
        effective=float(weight.sum() ** 2 / (weight**2).sum()),
        largest_weight=float(weight.max()),
        unsupported=float(unsupported.mean()),
        seed=asked.seed,
        resamples=asked.resamples,
    )


def _values(means: Floats) -> Floats:
    """Return what was got, and the three estimates, from the means of the columns."""
    values = means[:, [0, 2, 2, 3]]
    weights = means[:, 1]
    # A resample in which no weight is over 0 says nothing of the self-normalised estimate.
    values[:, 2] = np.divide(
        means[:, 2], weights, out=np.full(len(means), np.nan), where=weights > 0.0
    )
    return values


def _resampled(columns: Floats, seed: int, resamples: int) -> Iterator[Floats]:
    rng = np.random.default_rng([seed, 2])
    size = len(columns)
    at_once = max(1, _ALIKE // size)
    for begin in range(0, resamples, at_once):
        times = rng.multinomial(size, np.full(size, 1.0 / size), min(at_once, resamples - begin))
        yield times @ columns / size
