"""Choosing a strategy: by what is expected of each, with more chance where little is known.

``docs/explanation/choosing.md`` has the formulas; :func:`probabilities` computes them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from math import log
from typing import TYPE_CHECKING, Annotated, get_args

from pydantic import Field

from graphmem.advice.estimate import Estimates, Estimator, interval
from graphmem.advice.recall import Recaller, Wanted
from graphmem.errors import NotFoundError
from graphmem.graph.access import View, read_view
from graphmem.graph.arguments import check_choice, check_function
from graphmem.graph.estimate import Estimate
from graphmem.graph.graph import Graph
from graphmem.graph.lookup import describe_unshared
from graphmem.ids import strategy_id
from graphmem.lessons.anti_patterns import describe, is_told, read_failing
from graphmem.models.advice import Choice, Considered, Evaluation, Explore, OwnWay
from graphmem.models.fields import Amount, Input, Name, SomeNames, TypeName, Unit
from graphmem.models.forecasts import OutcomeCounts
from graphmem.models.lessons import AntiPattern
from graphmem.printable import percent

if TYPE_CHECKING:
    from numpy.random import Generator as Rng

    from graphmem.advice.formula import Belief, Floats

WAYS: tuple[Explore, ...] = get_args(Explore)
FOUND = 15
"""Most candidates if the caller gives none."""
RECALLED = 10
"""Most of these that recall finds."""
DRAWS = 1_000
"""Draws for Thompson sampling."""
_EQUAL = 1e-12
"""Rates that are no further apart count as equal."""
_SHOWN = ("probability", "worth", "change", *OutcomeCounts.model_fields)


class Chances(Input):
    """What the ways need besides the posteriors."""

    epsilon: Unit = 0.1
    width: Amount = 1.0
    sharpness: float = 3.0


class _Asked(Chances):
    task: Name
    candidates: SomeNames | None
    task_type: TypeName | None
    seed: Annotated[int, Field(ge=0)] | None


class Chooser:
    """Chooses strategies in one namespace."""

    def __init__(self, graph: Graph, estimator: Estimator, recaller: Recaller) -> None:
        self._graph = graph
        self._estimator = estimator
        self._recaller = recaller

    def choose(
        self,
        task: str,
        candidates: Sequence[str] | None = None,
        *,
        agent: str | None = None,
        task_type: str | None = None,
        explore: Explore = "thompson",
        epsilon: float = 0.1,
        width: float = 1.0,
        seed: int | None = None,
    ) -> Choice:
        """Return the strategy to try now: mostly what works, at times what may work better.

        :meth:`predict` says what to expect of each candidate. Thompson sampling draws a success
        rate for each from its posterior, with the counts times the setting ``choice_sharpness``,
        and takes the highest. So it mostly takes what is known to work, and from time to time tries
        what is not known well. It writes nothing; pass the choice on:
        ``memory.learn(task, choice, success=True)``.

        Args:
            task: its key, id or wording.
            candidates: texts or ids of strategies, at most 200, tried or not; merged ones are one
                candidate. Default: up to 15 that :meth:`recall` finds (also what imported
                files say to do), or that worked best anywhere.
            agent: use only episodes that this agent may read; None: all.
            task_type: the type of the task; default: the known one, else that of the wording, else
                that of the nearest known task if that is near.
            explore: "thompson"; "greedy" takes the highest expected rate; "ucb" takes the highest
                bound, ``width`` standard deviations over it; "epsilon" takes a random candidate
                with probability ``epsilon``, else it is "greedy". Equal candidates share the
                probability.
            epsilon: in [0, 1].
            width: from 0.
            seed: a whole number from 0, which repeats a choice while the memory stays the same;
                None: a new random choice.

        Raises:
            NotFoundError: no candidates are given, and the memory has none.
            ValidationError: an argument is wrong.
            SettingsError: it must search for similar ones, and the memory was built with another
                embedder.
        """
        given = {**locals(), "sharpness": self._graph.settings.choice_sharpness}
        asked = _Asked.from_arguments(given)
        check_choice("explore", explore, WAYS)
        view = read_view(self._graph, agent)
        texts = asked.candidates or self._find_candidates(asked.task, view)
        question = self._estimator.near.understand(asked.task, view, asked.task_type)
        found = self._estimator.estimates(question, texts, view)
        several = found.strategies
        import numpy as np

        rng = np.random.default_rng(asked.seed)
        met, cell = found.task["trials"], found.strengths.cell
        odds = probabilities(found.belief, met, cell, explore, asked, rng)
        taken = int(np.searchsorted(odds.cumsum(), rng.random() * odds.sum(), "right"))
        warnings = self._warnings(found, view)
        chosen, *considered = [
            self._considered(one, propensity, explore, found, warnings[one.id])
            for place, one, propensity in sorted(
                zip(range(len(several)), several, odds.tolist(), strict=True),
                key=lambda each: (each[0] != min(taken, len(several) - 1), each[1].order),
            )
        ]
        fields = {name: getattr(chosen, name) for name in Considered.model_fields}
        if not met and (note := describe_unshared(self._graph, asked.task, view)):
            fields["why"] += f"; {note}"
        return Choice(**fields, task=asked.task, explore=explore, others=tuple(considered))

    def evaluate(
        self,
        explore: Explore | OwnWay | None = None,
        strategies: str | Sequence[str] | None = None,
        *,
        epsilon: float = 0.1,
        width: float = 1.0,
        clip: float | None = None,
        seed: int = 0,
        resamples: int = 1_000,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Evaluation:
        """Estimate from past episodes which success rate another way to choose would have had.

        It needs at least 10 episodes that say with which probability a strategy was chosen
        (``propensity``), best with the probabilities of all ``candidates``. For each of them, the
        evaluated way uses only what was recorded before the episode.

        Args:
            explore: the way to choose among the candidates of each episode: "thompson", "greedy",
                "ucb", "epsilon", or a function of the task and the texts of the candidates that
                returns a dict with the probability of each. None: each of ``strategies`` with the
                same probability.
            strategies: a strategy that is always taken, or several to choose from. Episodes without
                any of them are left out; episodes with unknown candidates count as if they had had
                all. None: all candidates.
            epsilon: in [0, 1], how often "epsilon" takes any candidate.
            width: from 0, how many standard deviations "ucb" adds.
            clip: the largest weight of an episode, from 1 (None: any). It makes estimates vary
                less, and biases them toward 0 (if doubly robust: toward the prediction).
            seed: from 0; the same seed gives the same answer.
            resamples: resamples for the intervals, from 100 to 100,000.
            on_progress: called with the number of replayed episodes, and of all episodes.

        Raises:
            NotFoundError: fewer than 10 episodes can be used, or none took a strategy that the
                evaluated way takes.
            ValidationError: an argument is wrong, or a function returned no probabilities.
        """
        from graphmem.advice.evaluate import Asked, evaluate

        check_function("on_progress", on_progress)
        if not callable(explore) and (explore is not None or strategies is None):
            check_choice("explore", explore, WAYS)
        strategies = (strategies,) if isinstance(strategies, str) else strategies
        given = {**locals(), "sharpness": self._graph.settings.choice_sharpness}
        asked = Asked.from_arguments(given)
        return evaluate(self._graph, self._estimator.near, asked, on_progress)

    def _considered(
        self,
        one: Estimate,
        propensity: float,
        explore: Explore,
        found: Estimates,
        warnings: tuple[AntiPattern, ...],
    ) -> Considered:
        low, high = interval(one.probability, one.concentration)
        expected = f"expected {percent(one.probability)} ({percent(low)} to {percent(high)})"
        said = one.said
        trials, successes = found.everything["trials"], found.everything["successes"]
        if not one.trials and trials and not any(row["weight"] for row in one.lenders):
            said += f"; {successes} of {trials} by all others"
        often = f"picks it in {percent(propensity, 1)} of draws"
        if propensity in (0.0, 1.0):
            often = f"{'always' if propensity else 'never'} picks it"
        way = "Thompson sampling" if explore == "thompson" else explore
        return Considered(
            **{name: getattr(one, name) for name in _SHOWN},
            id=one.id or strategy_id(self._graph.ns, one.text),
            known=one.id is not None,
            low=low,
            high=high,
            propensity=propensity,
            why=f"{said}; {expected}; {way} {often}",
            warnings=warnings,
        )

    # Candidates

    def _find_candidates(self, task: str, view: View) -> list[str]:
        """Return what recall finds for a task, what files say of it, what worked best anywhere."""
        wanted = Wanted(limit=RECALLED)
        recalled = self._recaller.find(task, wanted, view, self._graph.now())
        texts = [item.text for item in recalled.items if item.verdict != "AVOID"]
        name, seen = "choosing.best", {}
        if view.agents is not None:
            name, seen = "choosing.best_of", view.filters(self._graph)
        best = self._graph.read(name, limit=FOUND, **seen)
        best.sort(key=lambda row: (-row["mean"], row["text"]))
        found = list(dict.fromkeys([*texts, *(row["text"] for row in best)]))[:FOUND]
        if not found:
            who = "" if view.reader is None else f" that agent {view.reader!r} may read"
            note = describe_unshared(self._graph, task, view)
            raise NotFoundError(
                f"there are no candidates: namespace {self._graph.ns!r} has no strategy that was "
                f"tried{who}; give candidates, or learn an episode first{note and f' ({note})'}"
            )
        return found

    def _warnings(self, found: Estimates, view: View) -> dict[str | None, tuple[AntiPattern, ...]]:
        """Return the anti-patterns of candidates on the type of the task (or any), by id.

        Candidates that fail no more often than others, or are expected to work here, have none.
        """
        known = {one.id: one for one in found.strategies if one.id is not None}
        kind = found.question.task_type
        warnings = defaultdict[str | None, tuple[AntiPattern, ...]](tuple)
        if not known:
            return warnings
        rows = read_failing(
            self._graph,
            view,
            "recall.warnings",
            ids=sorted(known),
            texts=sorted({text for one in known.values() for text in one.texts}),
            types=None if kind is None else [kind],
            untyped=sorted(known) if kind is None else [],
        )
        rows = [row for row in rows if is_told(row, known)]
        described = describe(self._graph, rows, view, found.question, known)
        for row, one in zip(rows, described, strict=True):
            warnings[row["strategy_id"]] += (one,)
        return warnings


def probabilities(
    belief: Belief, met: int, cell: float, way: Explore, chances: Chances, rng: Rng
) -> Floats:
    """Return the probability of taking each of some candidates; equal ones share.

    Thompson sampling draws a run of outcomes and then a rate for all candidates :data:`DRAWS`
    times, and takes one of these draws by chance; one more draw gives each candidate the same
    chance, so none is ever given up. Of more draws the highest is further out, so they lie closer
    to what is expected, or many candidates would be tried for too long. ``met`` is how often the
    task was met: one that came often will come again, so it pays to find out how it differs.
    ``cell`` is how many trials what is expected of it counts for.
    """
    import numpy as np

    means, count = belief.probability, len(belief.probability)
    rest = belief.elsewhere / (1.0 + belief.elsewhere * met / ((met + 4.0 * count) * cell))
    if way == "thompson":
        order = rng.permutation(count)  # so that equal rates do not always go to the first
        ends = belief.drawn[order].cumsum(axis=1)
        drawn = rng.random((DRAWS, count)) * ends[:, -1]
        parts = np.stack(
            [np.searchsorted(row, column) for row, column in zip(ends, drawn.T, strict=True)]
        ).T.clip(0, ends.shape[1] - 1)
        at = np.broadcast_to(order, parts.shape), parts
        sharpness = chances.sharpness * max(log(count + 1, 4), 1.0)
        known, rates = (belief.here + rest)[at] * sharpness, belief.rates[at]
        best = rng.beta(rates * known, (1.0 - rates) * known).argmax(axis=1)
        won = np.bincount(order[best], minlength=count)
        taken: Floats = (won + 1.0 / count) / (DRAWS + 1)
        return taken
    if way == "ucb":
        worth = belief.size(rest)
        means = means + chances.width * np.sqrt(means * (1.0 - means) / (worth + 1.0))
    highest = means >= means.max() - _EQUAL
    greedy: Floats = highest / highest.sum()
    if way == "epsilon":
        return chances.epsilon / count + (1.0 - chances.epsilon) * greedy
    return greedy
