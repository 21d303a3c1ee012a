"""Choosing a strategy: by what is expected of each, and by chance where little is known.

``choosing.weigh`` computes the posteriors, and the probabilities of the ways without draws;
Thompson sampling draws from the posteriors here. ``docs/explanation/choosing.md`` has the formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_args

from pydantic import BeforeValidator, Field

from graphmem.advice.estimate import Estimate, Estimator
from graphmem.advice.pooling import interval
from graphmem.advice.recall import Recaller
from graphmem.errors import NotFoundError, ValidationError
from graphmem.graph.access import View, read_view
from graphmem.graph.arguments import check_choice
from graphmem.graph.graph import Graph
from graphmem.graph.lookup import task_ids
from graphmem.ids import strategy_id
from graphmem.lessons.anti_patterns import described
from graphmem.models.choices import Choice, Considered, Explore
from graphmem.models.fields import MAX_CANDIDATES, Input, Name, TypeName
from graphmem.models.lessons import AntiPattern
from graphmem.policies.base import positive, unit
from graphmem.search.similarity import Similarity
from graphmem.store.port import Row
from graphmem.text.task_types import GENERAL, infer_task_type

WAYS: tuple[Explore, ...] = get_args(Explore)
DRAWS = 1_000
"""Draws for Thompson sampling."""
FOUND = 15
"""Most candidates where the caller gives none."""
RECALLED = 10
"""Most of these that come from recall."""


def _tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


class _Asked(Input):
    task: Name
    candidates: (
        Annotated[
            tuple[Name, ...],
            BeforeValidator(_tuple),
            Field(min_length=1, max_length=MAX_CANDIDATES),
        ]
        | None
    )
    task_type: TypeName | None


@dataclass(frozen=True, slots=True)
class Posterior:
    """What is expected of a candidate on the task.

    ``mean`` is the estimate, ``low`` and ``high`` are its central 95 %. For choosing it is worth
    ``worth`` trials: Beta(mean * worth, (1 - mean) * worth). ``said`` are its counts in words.
    """

    id: str
    text: str
    known: bool
    mean: float
    worth: float
    low: float
    high: float
    here: tuple[int, int]
    all: tuple[int, int]
    said: str


class Chooser:
    """Chooses strategies in one namespace."""

    def __init__(
        self, graph: Graph, similarity: Similarity, estimator: Estimator, recaller: Recaller
    ) -> None:
        self._graph = graph
        self._similarity = similarity
        self._estimator = estimator
        self._recaller = recaller

    def choose(
        self,
        task: str,
        candidates: Sequence[str] | None,
        *,
        agent: str | None,
        task_type: str | None,
        explore: Explore,
        epsilon: float,
        width: float,
        seed: int | None,
    ) -> Choice:
        """Return one of the candidates; see :meth:`graphmem.memory.Memory.choose`."""
        given: Any = candidates
        asked = _Asked(task=task, candidates=given, task_type=task_type)
        check_choice("explore", explore, WAYS)
        chances = {"epsilon": unit("epsilon", epsilon), "width": positive("width", width)}
        _check_seed(seed)
        view = read_view(self._graph, agent)
        texts = asked.candidates or self._found(asked.task, agent, view)
        posteriors = self._posteriors(asked.task, texts, view, asked.task_type)
        odds = self._graph.read(
            "choosing.weigh",
            rows=[
                {"place": place, "mean": one.mean, "concentration": one.worth}
                for place, one in enumerate(posteriors)
            ],
            sharpness=self._graph.settings.choice_sharpness,
            **chances,
        )
        propensities, taken = _taken(explore, odds, seed)
        warnings = self._warnings(asked.task, asked.task_type, posteriors, view)
        considered = [
            _considered(one, propensity, explore, tuple(warnings.get(one.id, ())))
            for one, propensity in zip(posteriors, propensities, strict=True)
        ]
        chosen = considered.pop(taken)
        considered.sort(key=lambda one: (-one.propensity, -one.probability, one.text))
        return Choice(
            **{name: getattr(chosen, name) for name in Considered.model_fields},
            task=asked.task,
            explore=explore,
            others=tuple(considered),
        )

    # Candidates

    def _found(self, task: str, agent: str | None, view: View) -> list[str]:
        """Return what recall finds for a task, and what worked best anywhere.

        Raises:
            NotFoundError: the memory has no strategy that was tried and may be read.
        """
        recalled = self._recaller.recall(task, RECALLED, agent)
        texts = [item.text for item in recalled.items]
        options = () if view.agents is None else ("agents",)
        filters = view.filters(self._graph)
        best = self._graph.read("choosing.best", *options, limit=FOUND, **filters)
        found = list(dict.fromkeys([*texts, *(row["text"] for row in best)]))[:FOUND]
        if not found:
            who = "" if agent is None else f" that agent {agent!r} may read"
            raise NotFoundError(
                f"there are no candidates: namespace {self._graph.ns!r} has no strategy that was "
                f"tried{who}; give candidates, or learn an episode first"
            )
        return found

    def _posteriors(
        self, task: str, texts: Sequence[str], view: View, task_type: str | None
    ) -> list[Posterior]:
        """Return what is expected of candidates, in their order; what counts as one is one."""
        near = self._similarity.lenders
        found = self._estimator.estimates(task, texts, view, near, task_type)
        return [_posterior(self._graph.ns, one) for one in found.strategies]

    # Warnings

    def _warnings(
        self, task: str, task_type: str | None, posteriors: Sequence[Posterior], view: View
    ) -> dict[str, list[AntiPattern]]:
        """Return the anti-patterns of candidates on the type of the task, by id."""
        ids = sorted(one.id for one in posteriors if one.known)
        warned = self._graph.read("choosing.warned", ids=ids, agents=view.agents) if ids else []
        if not warned:
            return {}
        settings = self._graph.settings
        rows = self._graph.read(
            "recall.warnings",
            ids=sorted({row["member"] for row in warned}),
            types=self._types(task, task_type, view),
            agents=view.agents,
            at_least=view.failures(settings),
            above=settings.heuristic_above,
        )
        whole = {row["id"]: row["whole"] for row in warned}
        rows = [row for row in rows if view.allows(*row["task_types"])]
        wholes = [row["strategy_id"] for row in rows]
        found = described(self._graph, rows, view, by_type=False)
        return {
            id_: [one for one, of in zip(found, wholes, strict=True) if of == whole[id_]]
            for id_ in whole
        }

    def _types(self, task: str, given: str | None, view: View) -> list[str] | None:
        """Return the types of a task: the given one, those known, or that of its wording."""
        if given is not None:
            return [given]
        own = view.tasks(self._graph, task_ids(self._graph, task, view), untried=True)
        types = {row["task_type"] for row in own.values()} or {infer_task_type(task).name}
        return sorted(types - {GENERAL}) or None


def _posterior(ns: str, one: Estimate) -> Posterior:
    low, high = interval(one.probability, one.concentration)
    told = one.said
    if not one.trials:
        like = ", ".join(f"{it.successes} of {it.trials} of {it.text!r}" for it in one.borrowed)
        told += f"; like it: {like}" if like else "; taken to be like all others"
    return Posterior(
        id=strategy_id(ns, one.text),
        text=one.text,
        known=one.id is not None,
        mean=one.probability,
        worth=one.worth,
        low=low,
        high=high,
        here=(one.here_trials, one.here_successes),
        all=(one.trials, one.successes),
        said=told,
    )


def _considered(
    one: Posterior, propensity: float, explore: Explore, warnings: tuple[AntiPattern, ...]
) -> Considered:
    return Considered(
        id=one.id,
        text=one.text,
        known=one.known,
        probability=one.mean,
        low=one.low,
        high=one.high,
        worth=one.worth,
        propensity=propensity,
        here_trials=one.here[0],
        here_successes=one.here[1],
        trials=one.all[0],
        successes=one.all[1],
        why=(
            f"{one.said}: expected {one.mean:.0%} ({one.low:.0%} to {one.high:.0%}); "
            f"{explore} takes it with probability {propensity:.3f}"
        ),
        warnings=warnings,
    )


def _check_seed(seed: object) -> None:
    if seed is not None and (type(seed) is not int or seed < 0):
        raise ValidationError(
            "seed", seed, "must be a whole number from 0", "give one, or None for fresh chance"
        )


def _taken(explore: Explore, odds: Sequence[Row], seed: int | None) -> tuple[list[float], int]:
    """Return the probabilities with which a way takes the candidates, and which one it takes.

    Thompson sampling draws a rate for each candidate :data:`DRAWS` times. One of these times,
    taken by chance, decides; so the share of the times in which a candidate has the highest rate is
    exactly the probability with which it is taken, and never 0 for the one that is.
    """
    from graphmem.arrays import np

    rng = np.random.default_rng(seed)
    if explore != "thompson":
        chances = np.array([row[explore] for row in odds])
        place = int(np.searchsorted(np.cumsum(chances), rng.random() * chances.sum(), "right"))
        return chances.tolist(), min(place, len(odds) - 1)
    order = rng.permutation(len(odds))  # so that equal rates do not always go to the first
    alpha, beta = (np.array([odds[at][name] for at in order]) for name in ("alpha", "beta"))
    winners = order[rng.beta(alpha, beta, (DRAWS, len(odds))).argmax(axis=1)]
    shares = np.bincount(winners, minlength=len(odds)) / DRAWS
    return shares.tolist(), int(winners[0])
