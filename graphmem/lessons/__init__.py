"""Lessons: conclusions from the strategies, errors and sentences of episodes.

The procedures of ``cypher/lessons/lessons.cypher`` compute bounds, means and verdicts. A merged
strategy points to its whole (the edge ``MERGED_INTO``, and the property ``merged_into`` with its
id), and reading procedures add up the strategies of one whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphmem.errors import SettingsError, ValidationError
from graphmem.graph.access import EVERYTHING, ChangeFinder, View, read_view
from graphmem.graph.arguments import MOST, check_flag, check_limit, checked_text
from graphmem.graph.estimate import HEURISTIC_ABOVE, follow, mean_of
from graphmem.graph.graph import Graph, Transaction
from graphmem.graph.lookup import find_strategy, known_tasks
from graphmem.ids import rule_id, strategy_id, task_id
from graphmem.lessons.anti_patterns import SAMPLE, dated, describe, failures_since, read_failing
from graphmem.lessons.general_rules import consolidate, count_new, renew_preferred
from graphmem.lessons.priors import PriorReader
from graphmem.lessons.proposals import Proposal, propose
from graphmem.models.fields import Unit, checked
from graphmem.models.lessons import (
    AntiPattern,
    ConsolidationReport,
    Heuristic,
    MemorySummary,
    Mistake,
    Rule,
    TaskScore,
)
from graphmem.notebook import Listed
from graphmem.store.port import Row
from graphmem.text.task_types import infer_task_type

RECENT = 20  # latest episodes of a task (as in the procedures)
RULES = 10  # rules of a task that are shown, the newest
CARDS = 30  # mistakes that are shown
TASKS = 100  # tasks whose scores a summary has: those with the most episodes


class Lessons:
    """Reads the lessons of one namespace, consolidates them, merges strategies: ``memory.lessons``.

    ``docs/explanation/lessons.md`` explains the counts and the thresholds of lessons.
    """

    def __init__(self, graph: Graph, link: Callable[[], object], changed: ChangeFinder) -> None:
        """``link`` draws the edges SIMILAR_TO of new strategies."""
        self._graph = graph
        self._link = link
        self._changed = changed
        self._priors = PriorReader(graph)

    def heuristics(
        self,
        task_type: str | None = None,
        agent: str | None = None,
        min_confidence: float = 0.0,
        *,
        pooled: bool = False,
    ) -> Listed[Heuristic]:
        """Return what works for agents on types of tasks, the best lower bound first.

        A heuristic counts all outcomes of one strategy for one agent on one type of task. It is
        shown from 3 trials on, while its confidence is over 0.5 (the setting
        ``min_occurrences``). So a strategy that worked and then failed is no longer shown; if it
        changed for certain, its outcomes since then decide.

        Args:
            task_type: only tasks of this type.
            agent: read as this agent: its own lessons and those that others share with it; None
                reads everything.
            min_confidence: posterior mean of the success rate, in [0, 1].
            pooled: also count the trials of the same agent, on the same type of task, with
                strategies that are similar by meaning, each trial times the similarity. So several
                wordings count together; ``pooled`` of a row names them. The trials that a heuristic
                needs, its confidence, bounds and status include them; ``trials`` and ``successes``
                are those of the strategy itself.
        """
        check_flag("pooled", pooled)
        if pooled:
            self._link()
        checked("min_confidence", min_confidence, Unit)
        view = read_view(self._graph, agent)
        statement = "lessons.pooled_heuristics" if pooled else "lessons.heuristics"
        asked = {"agents": view.agents, "task_type": checked_text("task_type", task_type)}
        least = view.trials(self._graph.settings)
        rows = self._graph.read(statement, **asked, at_least=least, above=0.0)  # some changed since
        rows = [row for row in rows if view.allows(row["task_type"])]
        if not pooled:
            for row in rows:
                row["whole"] = strategy_id(self._graph.ns, row["strategy"])
            changes = self._changed({row["whole"] for row in rows}, view)
            rows = follow(self._graph, rows, "whole", "confidence", changes)
        rows = [row for row in rows if row["confidence"] > HEURISTIC_ABOVE]
        rows = [row for row in rows if row["confidence"] >= min_confidence]
        whole = {member: row["id"] for row in rows for member in row["members"]}
        samples = defaultdict[tuple[str, bool], list[str]](list)
        ids = sorted(whole)
        for row in self._graph.read("lessons.evidence_of_heuristics", ids=ids) if ids else ():
            samples[whole[row["id"]], row["supports"]].append(row["episode"])
        return Listed(
            Heuristic(
                **dated(row),
                supporting=tuple(samples[row["id"], True][:SAMPLE]),
                opposing=tuple(samples[row["id"], False][:SAMPLE]),
            )
            for row in rows
        )

    def anti_patterns(
        self, task_type: str | None = None, agent: str | None = None, min_confidence: float = 0.0
    ) -> Listed[AntiPattern]:
        """Return what fails for agents, and what to do instead, the most certain first.

        An anti-pattern is one strategy that failed twice or more (setting
        ``anti_pattern_failures``) with one class of errors. ``better_alternative`` is a strategy
        that did better on the same tasks, else on the same type of task, or None.

        Args:
            task_type: only failures on tasks of this type.
            agent: read as this agent; None reads everything.
            min_confidence: share of these failures among them and the successes, in [0, 1]; if the
                strategy changed for certain, among its outcomes since then.
        """
        checked("min_confidence", min_confidence, Unit)
        view = read_view(self._graph, agent)
        rows = read_failing(self._graph, view, task_type=checked_text("task_type", task_type))
        changes = self._changed({row["strategy_id"] for row in rows}, view)
        rows = follow(self._graph, rows, "strategy_id", "confidence", changes, failures_since)
        rows = [row for row in rows if row["confidence"] >= min_confidence]
        return Listed(describe(self._graph, rows, view))

    def rules(
        self, task: str | None = None, agent: str | None = None, *, limit: int | None = None
    ) -> Listed[Rule]:
        """Return the rules of a task (its key or wording), the newest 10, or at most ``limit``.

        Without a task they are those of all tasks and the general ones, the best supported first.
        Rules come from the successes of episodes with a score of .85 or more, and from the mistakes
        of those under .5; with an ``agent`` only from episodes that it may read. A rule that more
        episodes contradict than support is not shown.
        """
        if limit is not None:
            check_limit(limit)
        view = read_view(self._graph, agent)
        seen = view.filters(self._graph)
        limit = RULES if limit is None and task is not None else limit
        rows = self._rule_rows(checked_text("task", task), view, limit)
        samples = defaultdict[str, list[str]](list)
        query = {"ids": [row["id"] for row in rows], **seen}
        found = self._graph.read("lessons.evidence_of_rules", **query) if rows else []
        for row in sorted(found, key=lambda row: (row["at"], row["episode"]), reverse=True):
            samples[row["id"]].append(row["episode"])
        return Listed(
            Rule(
                **dated(row),
                confidence=mean_of(row["supporting"], row["supporting"] + row["opposing"]),
                evidence=tuple(samples[row["id"]][:SAMPLE]),
            )
            for row in rows
        )

    def _rule_rows(self, task: str | None, view: View, limit: int | None) -> list[Row]:
        known = None if task is None else known_tasks(self._graph, task, view)
        keys = None if known is None else [row["key"] for row in known] or [str(task)]
        if view.agents is None:
            rows = self._graph.read("lessons.rules", tasks=keys, limit=limit or MOST)
        else:
            ids = None if known is None else [str(row["id"]) for row in known]
            rows, _ = self._priors.said(view, ids)
        priors = self._priors.read(view)
        rows = self._priors.merge_rules(priors, rows, keys, view)
        if keys is None:
            general = [row for row in rows if row["task"] is None]
            rows = [row for row in rows if row["task"] is not None] + priors.merge_general(general)
            rows.sort(key=lambda row: row["opposing"] - row["supporting"])
        else:
            rows.sort(key=lambda row: -(row["at"] or 0))
        return sorted(rows, key=lambda row: bool(row["source"] == "model"))[:limit]

    def mistakes(
        self,
        task: str | None = None,
        worker: str | None = None,
        agent: str | None = None,
        *,
        limit: int = CARDS,
    ) -> Listed[Mistake]:
        """Return mistakes of mistake cards: the one seen most often first, then the latest.

        Sentences that episodes list as mistakes come after them, marked as weak, unless they are a
        rule: only those of a score under .50 make one to avoid. The mistakes can be those in one
        task, of one worker, or in episodes that ``agent`` may read; ``limit`` shortens the list.
        """
        check_limit(limit)
        view = read_view(self._graph, agent)
        given = {"task": checked_text("task", task), "worker": checked_text("worker", worker)}
        priors = self._priors.read(view)
        rows = self._priors.cards(priors, view, **given, limit=limit)
        found = [Mistake(**dated(row)) for row in rows]
        if worker is None and len(found) < limit:
            tasks = None if task is None else [task_id(self._graph.ns, task)]
            _, rows = self._priors.said(view, tasks, *(("open",) if view.agents is None else ()))
            found += [Mistake(**dated(row), weak=True) for row in rows]
            said = {row["type"] for row in rows}
            others = [text for text in priors.mistakes if text not in said] if task is None else []
            found += [
                Mistake(id=rule_id(self._graph.ns, "", text), type=text, seen=1, weak=True)
                for text in reversed(others)
            ]
        return Listed(found[:limit])

    def summary(self, *, top: int = 5) -> MemorySummary:
        """Return what the lessons hold: counts, top mistakes, scores of tasks."""
        check_limit(top, "top")
        counts = self._graph.read("lessons.counts")[0]
        rules = self._rule_rows(None, EVERYTHING, None)
        general = sum(row["task"] is None for row in rules)
        priors = self._priors.read(EVERYTHING)
        if priors.cards:
            counts["mistakes"] = len(self._priors.cards(priors, EVERYTHING))
        scores = self._graph.read("lessons.task_scores", limit=MOST if priors.scores else TASKS)
        scores = _with_earlier(scores, priors.scores)
        return MemorySummary(
            **counts,
            heuristics=len(self.heuristics()),
            anti_patterns=len(read_failing(self._graph, EVERYTHING)),
            rules=len(rules) - general,
            general_rules=general,
            top_mistakes=tuple(self.mistakes(limit=top)),
            scores=tuple(TaskScore(**row) for row in scores),
        )

    def consolidation_due(self) -> bool:
        """Return whether there are 20 new episodes (the setting ``consolidate_every``)."""
        return count_new(self._graph) >= self._graph.settings.consolidate_every

    def consolidate(self, model: bool = False, *, force: bool = False) -> ConsolidationReport:
        """Derive general rules, which hold for more than one task, if that is due.

        General rules come from strategies and sentences that repeat in episodes of several tasks.
        With ``model`` that of the settings (``GRAPHMEM_MODEL_BASE_URL`` and others) adds its own
        rules, which are marked. If it gives no usable answer, the report has the reason. Earlier
        general rules are replaced. ``force`` runs it also if it is not due.

        Raises:
            SettingsError: ``model`` is True, and the settings name no model.
        """
        check_flag("model", model)
        check_flag("force", force)
        settings = self._graph.settings
        if model and (settings.model_base_url is None or settings.model_name is None):
            raise SettingsError(
                "no model is set; give GRAPHMEM_MODEL_BASE_URL and GRAPHMEM_MODEL_NAME, "
                "or consolidate without a model"
            )
        since, every = count_new(self._graph), settings.consolidate_every
        due = since >= every
        told: dict[str, Any] = {"due": due, "since": since, "every": every}
        if not due and not force:
            return ConsolidationReport(done=False, **told)
        proposal = propose(self._graph) if model else Proposal()
        counts, reason = self._graph.transact(lambda tx: consolidate(tx, proposal))
        told["how"] = "model" if model and reason is None else "repetition"
        return ConsolidationReport(done=True, reason=reason, **told, **counts)

    def merge(self, strategy: str, other: str) -> str:
        """Count a second strategy as the first (texts or ids) wherever lessons are read.

        Return the id of the whole, which stands for both. Recorded data does not change, and
        :meth:`unmerge` undoes it. An episode that used both counts twice.

        Raises:
            NotFoundError: there is no such strategy.
            ValidationError: they are merged already, or the first is merged into another.
        """
        return self._graph.transact(lambda tx: self._merge(tx, strategy, other))

    def _merge(self, tx: Transaction, strategy: str, other: str) -> str:
        given = {"strategy": strategy, "other": other}
        ids = sorted({find_strategy(tx, *item)["id"] for item in given.items()})
        tx.run("maintenance.lock_strategies", ids=ids)
        whole, part = (find_strategy(tx, *item) for item in given.items())
        if whole["id"] == part["id"]:
            raise ValidationError("other", other, "is the same strategy", "name two strategies")
        # A whole points to itself.
        if whole["merged_into"] not in (None, whole["id"]):
            remedy = "name that one, or unmerge it"
            raise ValidationError("strategy", strategy, "was merged into another", remedy)
        if part["merged_into"] not in (None, part["id"]):
            raise ValidationError("other", other, "was merged already", "unmerge it first")
        tx.run("lessons.merge", whole=whole["id"], part=part["id"])
        renew_preferred(tx)
        return str(whole["id"])

    def unmerge(self, strategy: str) -> int:
        """Undo the merging of a strategy: it and those merged into it count separately again.

        Return the number of strategies that had been merged.

        Raises:
            NotFoundError: there is no such strategy.
        """

        def work(tx: Transaction) -> int:
            identity = find_strategy(tx, "strategy", strategy)["id"]
            tx.run("maintenance.lock_strategies", ids=[identity])
            rows = tx.run("lessons.unmerge", ids=[identity])
            renew_preferred(tx)
            return sum(int(row["unmerged"]) for row in rows)

        return self._graph.transact(work)


def _with_earlier(rows: list[Row], earlier: Mapping[str, Sequence[float]]) -> list[Row]:
    """Return the mean scores of tasks with those that files have of earlier episodes."""
    by_task = {row["task"]: row for row in rows}
    for task, scores in earlier.items():
        if scores:
            new = {"task": task, "task_type": infer_task_type(task).name, "episodes": 0}
            row = by_task.setdefault(task, {**new, "mean_score": 0.0})
            total = row["mean_score"] * row["episodes"] + sum(scores)
            row["episodes"] += len(scores)
            row["mean_score"] = total / row["episodes"]
    return sorted(by_task.values(), key=lambda row: (-row["episodes"], row["task"]))[:TASKS]
