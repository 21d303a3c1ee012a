"""What a memory is told of episodes, and what it answers of strategies."""

from __future__ import annotations

from collections.abc import (
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from datetime import datetime
from typing import Any

from pydantic import JsonValue

from graphmem.episodes.learning import OnError
from graphmem.memory.base import MemoryBase
from graphmem.models import (
    CrystallizeReport,
    Episode,
    Learned,
    LearnReport,
    Rejection,
    Step,
    StrategyRow,
    StrategyUse,
)
from graphmem.store import Row

Uses = str | StrategyUse | Sequence[str | StrategyUse]


class Experience(MemoryBase):
    """Methods of a memory that learn episodes and rank strategies."""

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

    def evidence(self, strategy: str, *, limit: int = 5) -> list[Row]:
        """Return the latest episodes in which a strategy (its text or id) was applied."""
        return self._learner.evidence(strategy, limit)

    def crystallize(
        self,
        agent: str | None = None,
        *,
        min_events: int | None = None,
        threshold: float | None = None,
        z: float | None = None,
    ) -> CrystallizeReport:
        """Make policies of actions that worked often enough, and take back those that no longer do.

        Counted are episodes with steps that have a state (each once for every action that it
        took in a state), outcomes given to ``policies.observe``, and updates with ``success``.
        A policy that was never updated nor set gets its lower bound as its value.

        Args:
            agent: only this agent's; default: all agents, each by itself.
            min_events: trials that it needs; default: the setting (3).
            threshold: its Wilson lower bound must be over this; default: the setting (0.6).
            z: normal quantile of the bound; default: the setting (1.96). 3 successes of 3 have a
                lower bound of .438 at 1.96; the report says how many trials a threshold needs.

        Raises:
            ValidationError: a threshold is out of range.
        """
        return self._crystallizer.crystallize(agent, min_events, threshold, z)

    def merge(self, strategy: str, other: str) -> str:
        """Count a second strategy as the first (texts or ids) wherever lessons are read.

        Nothing that was recorded changes, and :meth:`unmerge` undoes it. An episode that used
        both counts for both.

        Returns the id of the strategy that stands for both.

        Raises:
            NotFoundError: there is no such strategy.
            ValidationError: they are one already, or the first was merged into another.
        """
        return self._merger.merge(strategy, other)

    def unmerge(self, strategy: str) -> int:
        """Let strategies count by themselves again: this one, and those merged into it.

        Returns how many were merged until now.

        Raises:
            NotFoundError: there is no such strategy.
        """
        return self._merger.unmerge(strategy)
