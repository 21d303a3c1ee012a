"""What a memory teaches: heuristics, anti-patterns, rules, mistakes, and a text for a prompt."""

from __future__ import annotations

from collections.abc import (
    Callable,
)

from graphmem.errors import ValidationError
from graphmem.lessons.counting import RECENT
from graphmem.memory.base import MemoryBase
from graphmem.models import ConsolidationReport, ModelSettings
from graphmem.models.lessons import AntiPattern, Heuristic, MemorySummary, Mistake, Rule, Score


class Teaching(MemoryBase):
    """Methods of a memory that read lessons."""

    def heuristics(
        self,
        task_type: str | None = None,
        agent: str | None = None,
        min_confidence: float = 0.0,
    ) -> list[Heuristic]:
        """Return what works for agents on types of tasks, the best lower bound first.

        A heuristic counts all outcomes of one strategy for one agent on one type of task. It is
        shown from 3 trials on, while its confidence is over 0.5 (settings ``min_occurrences`` and
        ``heuristic_above``); what worked and then failed is no longer shown.

        Args:
            task_type: only tasks of this type.
            agent: read as this agent: its own lessons and those that others share with it; None
                reads everything.
            min_confidence: posterior mean of the success rate, in [0, 1].

        Raises:
            ValidationError: an argument is wrong.
        """
        return self._lessons.heuristics(task_type, agent, min_confidence)

    def anti_patterns(
        self,
        task_type: str | None = None,
        agent: str | None = None,
        min_confidence: float = 0.0,
    ) -> list[AntiPattern]:
        """Return what fails for agents, and what to do instead, the most certain first.

        An anti-pattern is one strategy that failed twice or more (setting
        ``anti_pattern_failures``) with one class of errors. ``better_alternative`` is a strategy
        that did better on the same tasks, else on the same type of task, or None.

        Args:
            task_type: only failures on tasks of this type.
            agent: read as this agent; None reads everything.
            min_confidence: share of these failures among them and the successes, in [0, 1].

        Raises:
            ValidationError: an argument is wrong.
        """
        return self._lessons.anti_patterns(task_type, agent, min_confidence)

    def rules(
        self, task: str | None = None, agent: str | None = None, *, limit: int | None = None
    ) -> list[Rule]:
        """Return the rules of a task (its key or wording), the newest 10, or all rules.

        Rules come from the successes of episodes with a score of .85 or more, and the mistakes of
        those under .5; one that more episodes contradict than support is not shown.

        Args:
            task: None: the rules of all tasks and the general ones, the best supported first.
            agent: only what the episodes say that this agent may read; None: all episodes.
            limit: rows at most.
        """
        return self._lessons.rules(task, agent, limit=limit)

    def mistakes(
        self,
        task: str | None = None,
        worker: str | None = None,
        agent: str | None = None,
        *,
        limit: int = 30,
    ) -> list[Mistake]:
        """Return mistakes of mistake cards, the one seen most first, then the latest.

        Args:
            task: only mistakes in this task.
            worker: only mistakes of this worker.
            agent: only what the episodes say that this agent may read; None: all episodes.
            limit: rows at most; nothing is ever deleted.
        """
        return self._lessons.mistakes(task, worker, agent, limit=limit)

    def scores(self, task: str, *, last: int | None = None) -> list[Score]:
        """Return the scores of a task (its key or wording), the earliest first.

        Args:
            task: whose episodes.
            last: only the latest so many, at most 20 (found without looking at the others).

        Raises:
            ValidationError: ``last`` is not from 1 to 20.
        """
        if last is None:
            return self._lessons.scores(task)
        if type(last) is not int or not 1 <= last <= RECENT:
            raise ValidationError("last", last, f"must be from 1 to {RECENT}", "or leave it out")
        return self._lessons.recent(task, limit=last)[::-1]

    def memory_summary(self, *, top: int = 5) -> MemorySummary:
        """Return what the memory holds in lessons: counts, top mistakes, scores of tasks."""
        return self._lessons.summary(top)

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

    def consolidate(
        self, model: ModelSettings | bool | None = None, *, force: bool = False
    ) -> ConsolidationReport:
        """Find what holds for more than one task, if that is due.

        General rules come from strategies and sentences that repeat in episodes of several tasks;
        with a model there are its rules as well, marked as such. Where the model gives no answer
        that can be used, the report has the reason. The general rules found before are replaced.

        Args:
            model: an endpoint that answers as OpenAI's does; True takes that of the settings
                (``GRAPHMEM_MODEL_BASE_URL`` and so on); None asks no model.
            force: also where it is not due.

        Raises:
            SettingsError: a model is asked for, and the settings name none.
        """
        return self._consolidator.consolidate(model, force=force)

    def consolidation_due(self) -> bool:
        """Return whether there are 20 episodes (setting ``consolidate_every``) since the last."""
        return self._consolidator.due()
