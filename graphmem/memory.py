"""Memory: the one object that a user needs. It delegates and holds no logic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pydantic import JsonValue

from graphmem.advice.explain import Explainer
from graphmem.advice.predict import Forecaster
from graphmem.advice.recall import HOPS, Recaller
from graphmem.config import DEFAULT_NAMESPACE, Settings
from graphmem.episodes.learning import Learner, OnError
from graphmem.graph.graph import Graph
from graphmem.graph.lookup import HasId
from graphmem.graph.reads import Reads
from graphmem.lessons import Lessons
from graphmem.lessons.prompt import ContextWriter
from graphmem.models import (
    Episode,
    Evidence,
    Learned,
    LearnReport,
    Rejection,
    Stats,
    Step,
    StrategyRow,
    StrategyUse,
    VerifyReport,
)
from graphmem.models.explanations import Explanation
from graphmem.models.forecasts import Calibration, CalibrationOrder, OutcomePrediction
from graphmem.models.recall import Recall
from graphmem.models.similarity import SimilarStrategy
from graphmem.people import People
from graphmem.people.scopes import LearningScopes
from graphmem.policies import Policies
from graphmem.policies.cycles import Cycles
from graphmem.policies.events import Events
from graphmem.policies.ledger import Predictions
from graphmem.search.similarity import Similarity
from graphmem.store import Row, Store, open_store, queries
from graphmem.upkeep import Upkeep
from graphmem.upkeep.verifying import Maintainer

if TYPE_CHECKING:
    from graphmem.search.embedding import Embedder

Uses = str | StrategyUse | Sequence[str | StrategyUse]


class Memory:
    """A memory of what works: one namespace of one store.

    Safe to use from several threads. Close it, or use it in a ``with`` block.
    """

    def __init__(
        self, store: Store, namespace: str, settings: Settings, embedder: Embedder | None = None
    ) -> None:
        self.store = store
        """The engine below, for what this class does not offer."""
        self.namespace = namespace
        self.settings = settings
        self._graph = graph = Graph(store, namespace, settings)
        self._reads = reads = Reads(graph)
        self._similarity = similarity = Similarity(graph, embedder)
        self._learner = learner = Learner(graph)
        self._context = ContextWriter(graph)
        self.lessons = Lessons(graph)
        """What works, what fails, which rules hold: see :class:`graphmem.lessons.Lessons`."""
        self.policies = Policies(graph, reads)
        """What to do in a state: see :class:`graphmem.policies.Policies`."""
        self.people = People(graph)
        """What users want, and what is known: see :class:`graphmem.people.People`."""
        self.scopes = LearningScopes(graph)
        """What agents may learn: see :class:`graphmem.people.scopes.LearningScopes`."""
        self.events = Events(graph)
        """Every change, as a stream: see :class:`graphmem.policies.events.Events`."""
        self.predictions = Predictions(graph)
        """What was expected, and what came: see :class:`graphmem.policies.ledger.Predictions`."""
        self.cycles = Cycles(graph)
        """When things happen: see :class:`graphmem.policies.cycles.Cycles`."""
        self._recaller = Recaller(graph, similarity, self.lessons)
        self._explainer = Explainer(graph, self.lessons)
        self._forecaster = forecaster = Forecaster(graph)
        self._maintainer = Maintainer(graph, similarity, forecaster)
        self.upkeep = Upkeep(graph, self._maintainer, similarity, learner, reads)
        """Mending, erasing, moving what is there: see :class:`graphmem.upkeep.Upkeep`."""

    @classmethod
    def open(
        cls,
        url: str | Path | None = None,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        settings: Settings | None = None,
        embedder: Embedder | None = None,
    ) -> Self:
        """Open a memory; a folder that is not there is created at the first write.

        Args:
            url: a folder, ``file:``, ``memory:``, ``neo4j://`` or ``bolt://``; None takes
                ``GRAPHMEM_URL``, else a folder in the user's data directory.
            namespace: what is read and written; others in the same store stay untouched.
                "default" means that of the settings (``GRAPHMEM_NAMESPACE``).
            settings: default: from the environment.
            embedder: what turns texts into vectors, an object of your own; default: what the
                setting ``embedder`` names, else what the memory was built with.

        Raises:
            SettingsError: a setting, the url or the namespace is wrong.
            ValidationError: the embedder is none.
            StoreError: the engine cannot be opened; see :mod:`graphmem.errors`.
        """
        settings = settings or Settings()
        if namespace == DEFAULT_NAMESPACE:
            namespace = settings.namespace
        else:
            Settings(namespace=namespace)
        if embedder is not None:
            from graphmem.search.embedding import checked

            embedder = checked(embedder)
        return cls(open_store(url, settings), namespace, settings, embedder)

    def close(self) -> None:
        """Let go of the engine; what was learned is kept."""
        self._reads.close()
        self.store.close()

    def learn(
        self,
        task: str,
        strategy: Uses,
        *,
        success: bool | None = None,
        score: float | None = None,
        reward: float | None = None,
        agent: str = "default",
        task_type: str | None = None,
        task_key: str | None = None,
        steps: Iterable[Step] = (),
        error: str | None = None,
        feedback: str | None = None,
        summary: str | None = None,
        started_at: datetime | None = None,
        ended_at: datetime | None = None,
        duration: float | None = None,
        source_key: str | None = None,
        source: str | None = None,
        extra: Mapping[str, JsonValue] | None = None,
    ) -> Learned:
        """Learn what came of one attempt, in one durable transaction.

        The same ``source_key`` again (or, without one, the same content) changes nothing and
        answers ``created=False``; so give a key or a time where one thing happens repeatedly.

        Args:
            task: what was attempted.
            strategy: a text, a StrategyUse, or a list of them, the main one first.
            success: whether it worked. Give this or ``score``.
            score: how well it worked, in [0, 1].
            reward: any finite number; default: the score.
            agent: who did it.
            task_type: a class of tasks; default: what is known of the task, else "general".
            task_key: a stable key of the task where its wording varies; default: the wording.
            steps: what was done, in order.
            error: the error that ended it.
            feedback: what a person or a judge said of it.
            summary: what happened, in short.
            started_at: with time zone.
            ended_at: with time zone.
            duration: seconds.
            source_key: what it is known by, unique in the namespace.
            source: where it came from, for people; no part of the content.
            extra: anything else, as JSON.

        Raises:
            ValidationError: a field is wrong; it names the field, the value and the remedy.
            ConflictError: the source key was learned with other content.
            StoreError: the engine failed; nothing was written.
        """
        episode = Episode(
            task=task,
            strategy=strategy,
            success=success,
            score=score,
            reward=reward,
            agent=agent,
            task_type=task_type,
            task_key=task_key,
            steps=tuple(steps) if isinstance(steps, Iterator) else steps,
            error=error,
            feedback=feedback,
            summary=summary,
            started_at=started_at,
            ended_at=ended_at,
            duration=duration,
            source_key=source_key,
            source=source,
            extra=dict(extra or {}),
        )
        return self._learner.learn(episode)

    def learn_many(
        self,
        episodes: Iterable[Episode | Mapping[str, Any]],
        *,
        batch_size: int = 500,
        on_error: OnError = "raise",
        on_progress: Callable[[int], None] | None = None,
        on_reject: Callable[[Rejection], None] | None = None,
    ) -> LearnReport:
        """Learn many episodes, ``batch_size`` in a transaction.

        Args:
            episodes: any iterable; it is read lazily, a batch at a time.
            batch_size: from 1 to 100000.
            on_error: "raise" stops at the first bad record (its batch is not written, those
                before it stay); "collect" reports bad records and learns the others.
            on_progress: called with the number of records that became durable.
            on_reject: called for each refused record, as it is found.

        Raises:
            ValidationError, ConflictError: with ``on_error="raise"``.
            StoreError: the engine failed; the batches before stay.
        """
        return self._learner.learn_many(
            episodes,
            batch_size=batch_size,
            on_error=on_error,
            on_progress=on_progress,
            on_reject=on_reject,
        )

    def record_episode(self, form: Mapping[str, Any]) -> Learned:
        """Learn an episode in the Sentinel form, as it is, in one durable transaction.

        A form has ``task_id``, ``score`` in [0, 1], and may have ``trajectory_summary``,
        ``successes``, ``mistakes`` and ``mistake_cards``; see the format ``sentinel``. ``steps``
        and all fields that are not known are kept in ``extra``. With an ``episode_id`` (or ``id``)
        the episode is known by that, and the same id with other content is an error; without one,
        an equal form changes nothing.

        Raises:
            ValidationError: a field is wrong; it is named as it is in the form.
            ConflictError: the id was learned with other content.
            StoreError: the engine failed; nothing was written.
        """
        from graphmem.seeding import sentinel

        episode = sentinel.episode(form, source_key=sentinel.identity(form))
        return self._learner.learn(episode)

    def context(
        self,
        task: str,
        *,
        max_tokens: int = 200,
        agent: str | None = None,
        count: Callable[[str], int] | None = None,
    ) -> str:
        """Return what is known before a task, as text for a system prompt.

        Rules of the task, general rules, mistakes, what works and what fails on its type, the
        latest episodes and their mean score, the most valuable per token first
        (:mod:`graphmem.lessons.prompt`). Text of episodes is behind a fence that it cannot close,
        without characters that are not seen. "" where nothing is known, or nothing fits.

        Args:
            task: its key or wording. Of one that is not known yet, what is known of its type.
            max_tokens: never exceeded, from 1.
            agent: read as this agent; None reads everything.
            count: how many tokens a text has; default: :func:`graphmem.text.tokens.count_tokens`.

        Raises:
            ValidationError: an argument is wrong.
        """
        return self._context.write(task, max_tokens=max_tokens, agent=agent, count=count)

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
        return self._forecaster.predict(task, strategy, agent, self._similarity.lenders)

    def explain(
        self, item: HasId | str, *, kind: str | None = None, agent: str | None = None
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

    def strategies(
        self,
        task: str | None = None,
        *,
        task_type: str | None = None,
        agent: str | None = None,
        limit: int = 10,
    ) -> list[StrategyRow]:
        """Return what works, best lower bound of the success rate first.

        Args:
            task: the key or the wording of a task; None: over all tasks.
            task_type: only tasks of this type.
            agent: only what this agent did.
            limit: rows at most.
        """
        rows = self._learner.best(task, task_type, agent, limit)
        self._reads.note_all("Strategy", [row.id for row in rows])
        return rows

    def evidence(self, strategy: str, *, limit: int = 5) -> list[Evidence]:
        """Return the latest episodes in which a strategy (its text or id) was applied."""
        return self._learner.evidence(strategy, limit)

    def similar(self, strategy: str, limit: int = 10) -> list[SimilarStrategy]:
        """Return the strategies that say most nearly the same as one, the nearest first.

        They are linked (SIMILAR_TO) where the similarity is over the embedder's threshold, and
        never merged by themselves; ``memory.lessons.merge`` does that. What is new is embedded
        before.

        Args:
            strategy: its id or text.
            limit: rows at most.

        Raises:
            NotFoundError: there is no such strategy.
            SettingsError: the memory was built with another embedder.
            ValidationError: an argument is wrong.
        """
        return self._similarity.similar(strategy, limit)

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
        return self._forecaster.calibrate(by, folds, on_progress)

    def query(
        self, cypher: str, params: Mapping[str, JsonValue] | None = None, /, **named: JsonValue
    ) -> list[Row]:
        """Run Cypher that only reads, or a procedure by name, and return its rows.

        ``$ns`` is always there: filter by it, for a plain query sees the whole store.

        Raises:
            ReadOnlyError: it writes.
            QueryError: the engine does not understand it.
        """
        query = queries.readable(cypher)
        given = {**(params or {}), **named}
        if "ns" in query.params or not query.checked:
            given.setdefault("ns", self.namespace)
        return self.store.read(query, **given)

    def stats(self) -> Stats:
        """Return the counts of the namespace, and the engine that holds it."""
        return self._maintainer.stats()

    def verify(self, *, on_progress: Callable[[int, int], None] | None = None) -> VerifyReport:
        """Recompute every derived number from the facts and compare; also check the facts."""
        return self._maintainer.verify(on_progress)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
