"""What a memory answers before an agent acts: recall, prediction, explanation, similarity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from graphmem.advice.recall import HOPS
from graphmem.graph.lookup import Item
from graphmem.memory.base import MemoryBase
from graphmem.models.explanations import Explanation
from graphmem.models.forecasts import Calibration, CalibrationOrder, OutcomePrediction
from graphmem.models.recall import Recall
from graphmem.models.similarity import RelinkReport, SimilarStrategy

if TYPE_CHECKING:
    from graphmem.search.embedding import Embedder


class Recalling(MemoryBase):
    """Methods of a memory that ask it what to do, how sure it is, and why."""

    def recall(
        self,
        text: str,
        limit: int = 5,
        agent: str | None = None,
        max_hops: int = HOPS,
        *,
        at: datetime | None = None,
    ) -> Recall:
        """Return what worked on tasks like one that is to be done, and what to keep from.

        The nearest known tasks and strategies are found by meaning and by words; what was tried on
        these tasks is ranked by how relevant it is, the lower bound of the success rate to expect
        of it, and how fresh that is; of what says the same, the first is shown
        (:mod:`graphmem.advice.recall`). New texts are embedded before, and an empty memory gives an
        empty answer without loading a model.

        Args:
            text: what is to be done, in words; at most 100,000 characters.
            limit: items at most, from 1 to 100; there are at most 5 warnings.
            agent: by the outcomes alone that this agent may read; None: all of them.
            max_hops: from 0 to 4. 0: only strategies whose own text fits; 1: what was tried on
                the tasks that were found; from 2 on also what is linked to these by SIMILAR_TO and
                CO_OCCURS_WITH, one step each.
            at: the time that freshness counts from; default: now.

        Raises:
            ValidationError: an argument is wrong; the text is empty, or holds a lone surrogate.
            SettingsError: the memory was built with another embedder.
        """
        found = self._recaller.recall(text, limit, agent, max_hops, at=at)
        self._reads.note_all("Strategy", [item.id for item in found.items])
        return found

    def similar(self, strategy: str, limit: int = 10) -> list[SimilarStrategy]:
        """Return the strategies that say most nearly the same as one, the nearest first.

        They are linked (SIMILAR_TO) where the similarity is over the embedder's threshold, and
        never merged by themselves; :meth:`merge` does that. What is new is embedded before.

        Args:
            strategy: its id or text.
            limit: rows at most.

        Raises:
            NotFoundError: there is no such strategy.
            SettingsError: the memory was built with another embedder.
            ValidationError: an argument is wrong.
        """
        return self._similarity.similar(strategy, limit)

    def relink(
        self,
        embedder: Embedder | str | None = None,
        *,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> RelinkReport:
        """Embed the texts that have no vector, and draw all edges SIMILAR_TO anew.

        New texts are embedded at the next recall by themselves; this does it beforehand, mends
        vectors that were damaged, and changes the embedder.

        Args:
            embedder: the one from now on, by name or an object of your own; all texts are then
                embedded anew. None: the one that the memory was built with.
            on_progress: called with how many steps are done, and of how many.

        Raises:
            NotFoundError: there is no embedder of that name.
            SettingsError: none is given, and the memory was built with another than that in force.
        """
        if isinstance(embedder, str):
            from graphmem.search.embedding import open_embedder

            embedder = open_embedder(embedder)
        elif embedder is not None:
            from graphmem.search.embedding import checked

            embedder = checked(embedder)
        return self._similarity.relink(embedder, on_progress)

    def embedded_with(self) -> str | None:
        """Return the name of the embedder that the memory was built with; None: nothing was."""
        return self._similarity.built_with()

    def pending(self) -> dict[str, int]:
        """Return how many strategies and tasks wait to be embedded and linked, by label."""
        return self._similarity.pending()

    def explain(
        self, item: Item | str, *, kind: str | None = None, agent: str | None = None
    ) -> Explanation:
        """Return why something is believed: ``print(memory.explain("refund"))``.

        Counts and bounds, since when, whether it gets better or worse, the latest episodes for and
        against, where it works and where it fails, what is near, and how many trials in a row
        would change the verdict. Strategies that were merged count as one.

        Args:
            item: what the memory returned (a strategy, heuristic, anti-pattern, rule, policy or
                recalled item), the id of one, or a text: of a strategy, else of the one heuristic,
                anti-pattern or rule that has it.
            kind: "strategy", "heuristic", "anti-pattern", "rule" or "policy", where a text could
                be that of several kinds.
            agent: by the episodes alone that this agent may read; None: all episodes.

        Raises:
            NotFoundError: there is no such item, or the agent may read no evidence of it.
            ValidationError: an argument is wrong, or a text fits several items; it lists them.
        """
        return self._explainer.explain(item, kind=kind, agent=agent)

    def predict(
        self, task: str, strategy: str | Sequence[str], agent: str | None = None
    ) -> OutcomePrediction:
        """Return how likely it is that a strategy works on a task, and what that rests on.

        The rates of the task and of the strategy, each drawn to the rate of all, add up as
        logits; how the strategy did on this very task comes on top. What was never tried borrows
        from similar tasks or strategies, whether the memory has it or not. Strategies that were
        merged count as one. An empty memory answers 0.5, with wide bounds.

        Args:
            task: its key, id or wording.
            strategy: its text or id, or several that are used together: then the mean of the
                logits of each, in which those that were tried seldom weigh more.
            agent: by the episodes alone that this agent may read; None: all episodes.

        Raises:
            ValidationError: an argument is wrong.
            SettingsError: similar ones are to be searched for, and the memory was built with
                another embedder.
        """
        return self._forecaster.predict(task, strategy, agent, self._near)

    def calibrate(
        self,
        by: CalibrationOrder = "order",
        folds: int | None = None,
        *,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Calibration:
        """Return how well outcomes are predicted, over the history, beside simple predictions.

        Every episode is predicted from those before it, as :meth:`predict` would have done then
        with all its strategies. The strengths of pooling are fitted to the whole history at the
        end, and stored.

        Args:
            by: "order" as the episodes were recorded, or "time" as they ended (else began, else
                were recorded); of one moment in the order of recording.
            folds: in place of that, as many parts, drawn by a hash of the source key or content:
                each is predicted from the others. From 2 to 1000.
            on_progress: called with how many episodes are predicted, and of how many.

        Raises:
            ValidationError: an argument is wrong.
        """
        from graphmem.advice.calibrate import Calibrator

        calibrator = Calibrator(
            self._store, self.namespace, self._forecaster.prior, self.settings.z
        )
        found = calibrator.calibrate(by, folds, on_progress)
        return found.model_copy(update={"strengths": self._forecaster.refit()})

    def _near(self, label: str, text: str) -> list[tuple[str, float]]:
        """Return the ids and similarities of nodes that lend to one with a text."""
        from graphmem.search.similarity import LINKS

        hits = self._similarity.search(text, LINKS)
        if not hits:
            return []
        thresholds = self._similarity.embedder.thresholds
        least = thresholds.near if label == "Task" else thresholds.similar
        found = [(hit.id, hit.similarity) for hit in hits if hit.label == label]
        return [(key, similarity) for key, similarity in found if similarity >= least]
