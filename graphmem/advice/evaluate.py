"""Evaluates other ways to choose, from episodes that say how their strategies were chosen.

For each episode: *r* is 1 for a success, else 0; *p* is the probability with which its strategy *a*
was chosen; *t(b)* the probability with which the other way takes a candidate *b*; *w* is
*t(a) / p*; *q(b)* is the probability that *b* succeeds, predicted from the episodes before this
one. The mean over episodes of

- *w r* is the estimate of inverse propensity (Horvitz and Thompson 1952),
- *w r*, divided by the mean of *w*, the self-normalised one (Swaminathan and Joachims 2015),
- *sum of t(b) q(b) + w (r - q(a))* the doubly robust one (Dudik, Langford and Li 2011).

The effective number of episodes is *(sum of w)² / sum of w²* (Kish 1965). Intervals are percentiles
of the estimates on episodes drawn with replacement (Efron 1979).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum

from graphmem.advice.calibrate import GROWTH, Calibrator, History, Progress, Trial
from graphmem.advice.choose import DRAWS, WAYS
from graphmem.advice.pooling import DEFAULTS, LEAST, Floats, Strengths
from graphmem.advice.ways import Chances, lasting, probabilities
from graphmem.arrays import np, product
from graphmem.errors import NotFoundError, ValidationError
from graphmem.graph.arguments import check_choice, checked_number
from graphmem.graph.graph import Graph
from graphmem.ids import strategy_id
from graphmem.models.choices import Estimate, Evaluation, Explore, LeftOut, OwnWay
from graphmem.models.fields import MAX_STRATEGIES, Input, Name
from graphmem.store.paging import pages

FEWEST = 10
"""Fewest episodes for an estimate: resamples of fewer say too little."""
MAX_RESAMPLES = 100_000
_NOTHING = (0, 0)
_INSIDE = (0.025, 0.975)
_SPARE = 0.01
"""How far the sum of a function's probabilities may be from 1."""
_PAGE = 2_000
_ALIKE = 500_000
"""About so many episodes are drawn at a time, to bound memory."""
_REMEDY = (
    "choose with `choose` or `attempt`, or learn strategies with the probability with which they "
    "were chosen: StrategyUse(text, propensity=..., candidates={...})"
)


class _Strategy(Input):
    strategy: Name


@dataclass(frozen=True, slots=True)
class Asked:
    """The way in question, checked.

    ``explore`` None takes each of ``strategies`` alike. ``clip`` is the largest weight (None: any).
    """

    explore: Explore | OwnWay | None
    strategies: tuple[str, ...] | None
    clip: float | None
    seed: int
    resamples: int


@dataclass(frozen=True, slots=True)
class _Chosen:
    """How a strategy was chosen: its whole, and candidates with their propensities."""

    task: str
    whole: str
    propensity: float
    candidates: dict[str, float] | None


@dataclass(slots=True)
class Rows:
    """What the estimates need of each used episode.

    ``weight`` is *w* above, ``expected`` the sum of *t(b) q(b)*, ``own`` *q(a)*; ``unsupported`` is
    the probability with which the way takes candidates that had no chance.
    """

    success: list[float] = field(default_factory=list)
    weight: list[float] = field(default_factory=list)
    expected: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    unsupported: list[float] = field(default_factory=list)


class Evaluator:
    """Evaluates ways to choose in one namespace."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._calibrator = Calibrator(graph)

    def evaluate(self, asked: Asked, chances: Chances, on_progress: Progress | None) -> Evaluation:
        """Return what a way would have got.

        Raises:
            NotFoundError: there are too few episodes from which that can be estimated.
        """
        logged = {row["choices"]: row for row in self._graph.read("evaluation.logged")}
        once = logged.get(1, {"episodes": 0, "with_candidates": 0})
        total = sum(row["episodes"] for row in logged.values())
        nothing = logged.get(0, {"episodes": 0})["episodes"]
        several = total - nothing - once["episodes"]
        if once["episodes"] < FEWEST:
            raise self._too_few(once["episodes"], total, "say how one strategy was chosen", _REMEDY)
        replay = _Replay(self._graph.ns, self._merged(), asked, chances)
        choices = self._choices()
        history = self._calibrator.history(self._calibrator.similar())
        strengths, due = DEFAULTS, float(LEAST)
        trials = self._calibrator.trials("order")
        for place, trial in enumerate(trials, 1):
            chosen = choices.get(trial.id)
            if chosen is not None:
                if history.total[0] >= due:
                    strengths, due = history.strengths(), history.total[0] * GROWTH
                replay.add(trial, chosen, history, strengths)
            history.add(trial)
            if on_progress and (place % 500 == 0 or place == len(trials)):
                on_progress(place, len(trials))
        left_out = LeftOut(
            no_propensity=nothing,
            several_choices=several,
            no_candidates=replay.no_candidates,
            none_offered=replay.none_offered,
        )
        used = len(replay.rows.success)
        if used < FEWEST:
            remedy = "give `candidates` with their probabilities" if replay.no_candidates else ""
            remedy = remedy or "name strategies that were among the candidates"
            raise self._too_few(used, total, "can be used", remedy)
        return estimated(asked, replay.rows, left_out)

    def _too_few(self, count: int, total: int, which: str, remedy: str) -> NotFoundError:
        return NotFoundError(
            f"{count:,} of {total:,} episodes in namespace {self._graph.ns!r} {which}, and an "
            f"estimate needs {FEWEST} at least; {remedy}"
        )

    def _choices(self) -> dict[str, _Chosen]:
        """Return how the strategy of each episode was chosen, where one was."""
        known: dict[str, list[_Chosen]] = {}
        ids = [row["id"] for row in self._graph.read("calibration.ids")]
        for page in pages(ids, _PAGE):
            for row in self._graph.read("evaluation.choices", ids=page):
                given = row["candidates"]
                candidates = None if given is None else json.loads(given)
                chosen = _Chosen(row["task"], row["whole"], row["propensity"], candidates)
                known.setdefault(row["id"], []).append(chosen)
        return {key: found[0] for key, found in known.items() if len(found) == 1}

    def _merged(self) -> dict[str, str]:
        return {row["id"]: row["whole"] for row in self._graph.read("evaluation.merged")}


class _Replay:
    """Collects what the estimates need, episode by episode."""

    def __init__(
        self, namespace: str, merged: Mapping[str, str], asked: Asked, chances: Chances
    ) -> None:
        self._namespace = namespace
        self._merged = merged
        self._asked = asked
        self._chances = chances
        self._rng = np.random.default_rng([asked.seed, 1])
        self._wholes: dict[str, str] = {}
        self._only = None
        if asked.strategies is not None:
            self._only = {self._whole(text) for text in asked.strategies}
        self.rows = Rows()
        self.no_candidates = 0
        self.none_offered = 0

    def add(self, trial: Trial, chosen: _Chosen, history: History, strengths: Strengths) -> None:
        """Add an episode, with what was known before it."""
        if chosen.candidates is None:
            if self._asked.explore is not None or self._asked.strategies is None:
                self.no_candidates += 1
                return
            # Each of the strategies is taken to have been there.
            offered = dict.fromkeys(self._asked.strategies, 1.0)
        else:
            offered = chosen.candidates
        texts = [text for text in offered if self._only is None or self._whole(text) in self._only]
        if not texts:
            self.none_offered += 1
            return
        wholes = [self._whole(text) for text in texts]
        posteriors = [history.posterior(trial, whole, strengths) for whole in wholes]
        means, known = (np.array(part) for part in zip(*posteriors, strict=True))
        here = [history.cells.get((trial.task, whole), _NOTHING)[0] for whole in wholes]
        met = history.tasks.get(trial.task, _NOTHING)[0]
        worth = lasting(known, np.array(here), met, strengths.cell)
        taken = self._taken(chosen.task, texts, means, worth)
        mine = np.array([whole == chosen.whole for whole in wholes])
        weight = float(taken[mine].sum()) / self._propensity(chosen)
        if self._asked.clip is not None:
            weight = min(weight, self._asked.clip)
        rows = self.rows
        rows.success.append(float(trial.success))
        rows.weight.append(weight)
        rows.expected.append(float((taken * means).sum()))
        rows.own.append(history.posterior(trial, chosen.whole, strengths)[0])
        never = np.array([offered[text] == 0.0 for text in texts])
        rows.unsupported.append(float(taken[never].sum()))

    def _propensity(self, chosen: _Chosen) -> float:
        """Return the probability of what was chosen, with all that counts as one with it."""
        if chosen.candidates is None or not self._merged:
            return chosen.propensity
        alike = (p for text, p in chosen.candidates.items() if self._whole(text) == chosen.whole)
        return max(chosen.propensity, fsum(alike))

    def _taken(self, task: str, texts: Sequence[str], means: Floats, worth: Floats) -> Floats:
        explore = self._asked.explore
        if explore is None:
            return np.full(len(texts), 1.0 / len(texts))
        if isinstance(explore, str):
            return probabilities(means, worth, explore, self._chances, self._rng)
        return _own(explore, task, texts)

    def _whole(self, text: str) -> str:
        found = self._wholes.get(text)
        if found is None:
            identity = strategy_id(self._namespace, text)
            found = self._wholes[text] = self._merged.get(identity, identity)
        return found


def _own(explore: OwnWay, task: str, texts: Sequence[str]) -> Floats:
    """Return the probabilities that a function gives, checked."""
    given = explore(task, tuple(texts))
    remedy = "return a dict with the probability of each candidate; they sum to 1"
    if not isinstance(given, Mapping) or not given.keys() <= set(texts):
        raise ValidationError("explore", given, "returned no probabilities of candidates", remedy)
    values = [given.get(text, 0.0) for text in texts]
    for value in values:
        if type(value) not in (int, float) or not 0.0 <= value <= 1.0:
            raise ValidationError("explore", value, "returned no probability in [0, 1]", remedy)
    if abs(fsum(values) - 1.0) > _SPARE:
        problem = f"returned probabilities that sum to {fsum(values):.6g}"
        raise ValidationError("explore", given, problem, remedy)
    return np.array(values, dtype=np.float64)


def estimated(asked: Asked, rows: Rows, left_out: LeftOut) -> Evaluation:
    """Return the estimates from what is known of each episode.

    Raises:
        NotFoundError: all weights are 0.
    """
    success, weight, expected, own, unsupported = (
        np.array(part)
        for part in (rows.success, rows.weight, rows.expected, rows.own, rows.unsupported)
    )
    if not weight.any():
        raise NotFoundError(
            f"none of {len(weight):,} episodes took a strategy that this way takes, so nothing can "
            "be estimated; learn episodes whose strategies are chosen with some chance for each "
            "candidate (explore='thompson' or 'epsilon')"
        )
    columns = np.stack(
        [success, weight, weight * success, expected + weight * (success - own)], axis=1
    )
    all_episodes = _values(columns.mean(axis=0)[None])[0]
    resampled = np.concatenate(
        [_values(means) for means in _resampled(columns, asked.seed, asked.resamples)]
    )
    low, high = np.nanquantile(resampled, _INSIDE, axis=0)
    gains = resampled - resampled[:, :1]
    gain_low, gain_high = np.nanquantile(gains, _INSIDE, axis=0)
    estimates = [
        Estimate(
            value=float(all_episodes[at]),
            low=float(low[at]),
            high=float(high[at]),
            gain=float(all_episodes[at] - all_episodes[0]),
            gain_low=float(gain_low[at]),
            gain_high=float(gain_high[at]),
        )
        for at in range(1, 4)
    ]
    explore = asked.explore if asked.explore is None or isinstance(asked.explore, str) else "own"
    return Evaluation(
        explore=explore,
        strategies=asked.strategies,
        episodes=len(weight),
        left_out=left_out,
        got=float(all_episodes[0]),
        got_low=float(low[0]),
        got_high=float(high[0]),
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
    """Yield the means of the columns over episodes that are drawn with replacement."""
    rng = np.random.default_rng([seed, 2])
    size = len(columns)
    at_once = max(1, _ALIKE // size)
    for begin in range(0, resamples, at_once):
        count = min(at_once, resamples - begin)
        times = np.empty((count, size))
        for place in range(count):
            times[place] = np.bincount(rng.integers(size, size=size), minlength=size)
        yield product(times, columns) / size


def checked(
    explore: object,
    strategies: object,
    clip: object,
    seed: object,
    resamples: object,
) -> Asked:
    """Return the way in question.

    Raises:
        ValidationError: an argument is wrong.
    """
    if explore is None and strategies is None:
        raise ValidationError(
            "explore", None, "is missing", f"give {', '.join(WAYS)} or a function, or strategies"
        )
    if explore is not None and not callable(explore):
        check_choice("explore", explore, WAYS)
    texts = None if strategies is None else _texts(strategies)
    if clip is not None and (type(clip) not in (int, float) or not clip >= 1.0):  # type: ignore[operator]
        raise ValidationError("clip", clip, "must be a number from 1, or None")
    if type(seed) is not int or seed < 0:
        raise ValidationError("seed", seed, "must be a whole number from 0")
    if type(resamples) is not int or not 100 <= resamples <= MAX_RESAMPLES:
        problem = f"must be a whole number from 100 to {MAX_RESAMPLES:,}"
        raise ValidationError("resamples", resamples, problem)
    return Asked(explore, texts, clip, seed, resamples)  # type: ignore[arg-type]


def checked_chances(epsilon: float, width: float, sharpness: float) -> Chances:
    """Return the settings of the ways.

    Raises:
        ValidationError: one is wrong.
    """
    return Chances(
        sharpness,
        checked_number("epsilon", epsilon, 0, 1),
        checked_number("width", width, 0),
        DRAWS,
    )


def _texts(given: object) -> tuple[str, ...]:
    several = [given] if isinstance(given, str) else given
    if not isinstance(several, Sequence) or not 0 < len(several) <= MAX_STRATEGIES:
        raise ValidationError(
            "strategies", given, f"must be a text, or a list of 1 to {MAX_STRATEGIES} texts"
        )
    return tuple(dict.fromkeys(_Strategy(strategy=one).strategy for one in several))
