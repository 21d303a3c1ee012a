"""Memory, the entry point of the library. It only delegates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import JsonValue

from graphmem.advice.recall import HOPS
from graphmem.config import Settings
from graphmem.episodes.attempts import Attempt, Attempts
from graphmem.episodes.learning import OnError
from graphmem.episodes.looking import Sort
from graphmem.episodes.recording import Terms
from graphmem.graph.arguments import check_function, listed
from graphmem.graph.lookup import HasId
from graphmem.kinds import NodeKind
from graphmem.levels.producers import Extract, Producers, Watch
from graphmem.models import (
    Episode,
    Evidence,
    Learned,
    LearnReport,
    MistakeCard,
    Rejection,
    Step,
    StrategyRow,
    StrategyUse,
)
from graphmem.models.choices import Choice, Explore
from graphmem.models.communities import Community
from graphmem.models.evaluations import Evaluation, OwnWay
from graphmem.models.explanations import Explanation
from graphmem.models.forecasts import Calibration, CalibrationOrder, OutcomePrediction
from graphmem.models.looking import EpisodeRow, Item, TaskRow
from graphmem.models.recall import Kind, Recall
from graphmem.models.similarity import SimilarStrategy
from graphmem.network.selection import NODES
from graphmem.notebook.frames import Listed
from graphmem.parts import Parts
from graphmem.store import Store

if TYPE_CHECKING:
    from networkx import MultiDiGraph

    from graphmem.search.embedding import Embedder

F = TypeVar("F", bound=Callable[..., Any])
Uses = str | StrategyUse | Choice | Sequence[str | StrategyUse | Choice]


class Memory(Parts):
    """A memory of what works for agents: one namespace of one store.

    Thread-safe. Close it, or use it in a ``with`` block.
    """

    def __init__(
        self, store: Store, namespace: str, settings: Settings, embedder: Embedder | None = None
    ) -> None:
        super().__init__(store, namespace, settings, embedder)
        self._attempts = Attempts(
            self._graph,
            self._learner,
            lambda task, **how: self.context(task, **how),  # noqa: PLW0108 - looked up when called
            lambda task, *args, **how: self.choose(task, *args, **how),  # noqa: PLW0108
        )
        self._producers = Producers(self.levels)

    def close(self) -> None:
        """Close the engine. Everything learned is stored."""
        self._attempts.close()
        super().close()

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
        successes: Iterable[str] = (),
        mistakes: Iterable[str] = (),
        mistake_cards: Iterable[MistakeCard] = (),
        started_at: datetime | None = None,
        ended_at: datetime | None = None,
        duration: float | None = None,
        source_key: str | None = None,
        source: str | None = None,
        extra: Mapping[str, JsonValue] | None = None,
    ) -> Learned:
        """Learn one episode that just happened, in one durable transaction.

        Every call adds an episode, also one that equals an earlier call. An episode with a
        ``source_key`` is learned once; the same key with the same content changes nothing and
        returns ``created=False``. An episode without a time ended now.

        Args:
            task: the attempted task, in words.
            strategy: a text, a StrategyUse, what :meth:`choose` returned, or a list of them, the
                main one first.
            success: whether it worked. Give this or ``score``.
            score: degree of success, in [0, 1].
            reward: any finite number; default: the score.
            agent: name of the agent.
            task_type: a class of tasks; default: the known type of the task, else one inferred from
                its wording.
            task_key: a stable key for a task whose wording varies; default: the wording.
            steps: the steps, in order.
            error: the error that ended it.
            feedback: the comment of a person or a judge.
            summary: a short summary.
            successes: sentences about what went well, at most 200. Rules come from them.
            mistakes: sentences about what went badly, at most 200.
            mistake_cards: mistakes, described so that a repetition is recognised; at most 200.
            started_at: with time zone.
            ended_at: with time zone; default: now, unless ``started_at`` is given.
            duration: seconds. If the episode ended now, it started this long before.
            source_key: a key of the episode, unique in the namespace. A call without a time, and
                with a known key, takes the stored time.
            source: its origin, as information for people; not part of the content.
            extra: any other data, as JSON.

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
            steps=listed(steps),
            error=error,
            feedback=feedback,
            summary=summary,
            successes=listed(successes),
            mistakes=listed(mistakes),
            mistake_cards=listed(mistake_cards),
            started_at=started_at,
            ended_at=ended_at,
            duration=duration,
            source_key=source_key,
            source=source,
            extra={} if extra is None else extra,
        )
        return self._learner.learn(episode)

    def attempt(
        self,
        task: str | Callable[..., str],
        *,
        agent: str | None = None,
        task_type: str | None = None,
        task_key: str | None = None,
        source: str | None = None,
        extra: Mapping[str, JsonValue] | None = None,
        max_tokens: int = 200,
        judge: Callable[[Any], bool | float | None] | None = None,
        strict: bool = False,
        started_at: datetime | None = None,
    ) -> Attempt:
        """Return an attempt at a task, for a ``with`` block or as a decorator of functions.

        At its end one episode is learned, with its times, steps and strategies. ``succeed``,
        ``fail`` or the judge says the outcome. If none of them does, an exception makes it a
        failure; the exception goes on. An attempt without any outcome is stored as abandoned, and
        counts nowhere. So is an attempt that was interrupted (cancelled, Ctrl-C, a closed
        generator), or that an error of graphmem ended.

        A decorator takes functions, coroutine functions, generators and asynchronous generators.
        Each call is an attempt of its own; :meth:`current_attempt` returns it within the function.

        Args:
            task: the task in words; for a decorator also a function that takes the arguments of
                the call and returns it.
            agent: name of the agent; the context has its access rights. None: the episode belongs
                to "default", and the context has everything.
            task_type: a class of tasks, as in :meth:`learn`.
            task_key: a stable key for a task whose wording varies.
            source: its origin, as information for people.
            extra: any other data, as JSON.
            max_tokens: length limit of the context, at least 1.
            judge: for a decorator: takes what the function returned (None for an asynchronous
                generator), and returns True, False, a score in [0, 1], or None for no outcome.
            strict: raise if an attempt ends without an outcome, and do not store it.
            started_at: when it began, with time zone, if that was before the block; default: when
                the block is entered.

        Raises:
            ValidationError: an argument is wrong; at the end: there is no outcome (``strict``).
            ScopeError: at the end: the agent may not learn this type of task.
            ForkedError: at the end: the attempt was begun in a parent process.
            StoreError: at the end: the engine failed; nothing was written. If the block raised,
                that error goes on instead, with a note.
        """
        return self._attempts.open(
            Terms(
                task=task,
                agent=agent,
                task_type=task_type,
                task_key=task_key,
                source=source,
                extra=extra,
                max_tokens=max_tokens,
                judge=judge,
                strict=strict,
                started_at=started_at,
            )
        )

    def current_attempt(self) -> Attempt:
        """Return the attempt of the innermost decorated function of this memory that runs here.

        A ``with`` block gives its attempt itself.

        Raises:
            NotFoundError: no function that :meth:`attempt` of this memory decorates runs here.
        """
        return self._attempts.current()

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

        The episodes come from a record, so one without a time stays without one. Equal episodes
        without a ``source_key`` all count: their order in this call tells them apart. So the same
        call again, for instance after a crash, adds nothing.

        Args:
            episodes: any iterable; it is read lazily, a batch at a time.
            batch_size: from 1 to 100000.
            on_error: "raise" stops at the first bad record (its batch is not written, earlier
                batches stay); "collect" reports bad records and learns the others.
            on_progress: called with the number of durable records so far.
            on_reject: called at once for each refused record.

        Raises:
            ValidationError, ConflictError: with ``on_error="raise"``.
            StoreError: the engine failed; earlier batches stay.
        """
        return self._learner.learn_many(
            episodes,
            batch_size=batch_size,
            on_error=on_error,
            on_progress=on_progress,
            on_reject=on_reject,
        )

    def record_episode(self, form: Mapping[str, Any]) -> Learned:
        """Learn an episode in the Sentinel form, in one durable transaction.

        A form has ``task_id`` and ``score`` in [0, 1], and may have ``trajectory_summary``,
        ``successes``, ``mistakes`` and ``mistake_cards``; see the format ``sentinel``. ``steps``
        and all unknown fields are stored in ``extra``. An ``episode_id`` (or ``id``) identifies the
        episode; the same id with other content is an error. Without an id, every call is an
        outcome. Without a ``timestamp`` the episode ended now.

        Raises:
            ValidationError: a field is wrong; the error names it as the form does.
            ConflictError: the id was learned with other content.
            StoreError: the engine failed; nothing was written.
        """
        from graphmem.seeding import sentinel

        episode = sentinel.episode(form, source_key=sentinel.identity(form))
        return self._learner.learn(episode, dated=sentinel.is_live(form))

    def remember(
        self,
        level: str,
        *,
        extract: Extract | None = None,
        ttl: float | None = None,
        errors: bool = False,
        agent: str | None = None,
    ) -> Callable[[F], F]:
        """Return a decorator that stores each call of a function as an entry of a level.

        It takes functions, coroutine functions, generators, asynchronous generators, methods, and
        static and class methods. The result of a generator is the list of what it yielded (at most
        10,000 items). A generator that its caller leaves early is not remembered, nor is a
        cancelled call.

        An error with the entry never breaks the call. It is logged without contents, and counted at
        the level (``levels.statistics().failed``).

        Args:
            level: the name of the level.
            extract: takes the call (``name``, ``args``, ``kwargs``, ``arguments`` by name, and
                ``error``) and the result. It returns a content, a tuple of content, tags and
                metadata, a ``NewEntry``, or None to remember nothing. Default: the name, the
                arguments and the result, with the tag ``call:NAME``.
            ttl: seconds that entries stay, unless the extractor says it; default: the level's.
            errors: also remember calls that raise, with the ``error`` and the result None. The
                error goes on.
            agent: who writes; an agent may write its own levels and those for all. None: anybody.

        Raises:
            NotFoundError: there is no such level.
            ValidationError: an argument is wrong, the level is a view, or the decorated object is a
                builtin or no function.
            ScopeError: it is the level of another agent.
        """
        return self._producers.remember(level, extract=extract, ttl=ttl, errors=errors, agent=agent)

    def watch(
        self,
        target: object,
        pattern: str,
        *,
        level: str,
        extract: Extract | None = None,
        ttl: float | None = None,
        errors: bool = False,
        agent: str | None = None,
    ) -> Watch:
        """Remember the calls of methods as :meth:`remember` does; return a handle that undoes it.

        To undo it, call the handle, or use it in a ``with`` block. You can undo several in any
        order; after the last one, everything is as it was before.

        Args:
            target: an object, to watch its methods; a class, to watch those of all its objects; or
                a module, to watch its functions.
            pattern: the names of the methods; ``*`` stands for any letters. Names that begin with
                ``_`` match only a pattern that begins with it. Names of Python, such as
                ``__init__``, never match.
            level: the name of the level.
            extract: as in :meth:`remember`.
            ttl: as in :meth:`remember`.
            errors: as in :meth:`remember`.
            agent: as in :meth:`remember`.

        Raises:
            NotFoundError: there is no such level.
            ValidationError: an argument is wrong, or no method written in Python matches.
            ScopeError: it is the level of another agent.
        """
        return self._producers.watch(
            target, pattern, level=level, extract=extract, ttl=ttl, errors=errors, agent=agent
        )

    def context(
        self,
        task: str,
        *,
        max_tokens: int = 200,
        agent: str | None = None,
        count: Callable[[str], int] | None = None,
        lens: str | None = None,
    ) -> str:
        """Return the lessons for a task as text for a system prompt.

        The text has rules of the task, general rules, mistakes, what works and what fails on its
        type (without a type: on the task and on similar ones), the latest episodes and their mean
        score. The most valuable lines per token come first (:mod:`graphmem.lessons.prompt`). A
        fence surrounds the texts of episodes, which cannot close it; invisible characters are
        removed. The text is "" if nothing is known, or nothing fits into ``max_tokens``.

        Args:
            task: its key or wording. An unknown task gets what is known of similar tasks, and the
                lessons of its type: the type of its wording, else that of the nearest task.
            max_tokens: length limit of the text, at least 1; never exceeded.
            agent: apply the access rights of this agent; None reads everything.
            count: a function that counts the tokens of a text; default:
                :func:`graphmem.text.tokens.count_tokens`.
            lens: a lens of the levels (``levels.lens``), such as ``planning``: the text also has
                what it shows, if that is relevant to the task.

        Raises:
            NotFoundError: there is no such lens, or none of the levels that it looks at.
            ScopeError: the agent may not look through the lens.
            ValidationError: an argument is wrong.
            SettingsError: similar tasks cannot be found, because the memory was built with another
                embedder.
        """
        return self._context.write(task, max_tokens=max_tokens, agent=agent, count=count, lens=lens)

    def recall(
        self,
        text: str,
        limit: int = 5,
        agent: str | None = None,
        max_hops: int = HOPS,
        *,
        at: datetime | None = None,
        kinds: Sequence[Kind] | None = None,
    ) -> Recall:
        """Return strategies that worked on similar tasks, and strategies to avoid.

        A search by meaning and words finds the nearest known tasks and strategies. Strategies tried
        on these tasks rank by relevance, the lower bound of what :meth:`predict` expects of them,
        and freshness; similar strategies rank lower (:mod:`graphmem.advice.recall`). New texts are
        embedded first. An empty memory answers without loading a model.

        Args:
            text: the task in words; at most 100,000 characters.
            limit: most items, from 1 to 100; there are at most 5 warnings.
            agent: use only outcomes that this agent may read; None: all.
            max_hops: from 0 to 4. 0: only strategies whose own text matches; 1: also strategies
                tried on the nearest tasks; 2 and more: if these are few, also their neighbours by
                SIMILAR_TO and CO_OCCURS_WITH, one step each.
            at: the time for computing freshness; default: now.
            kinds: which of "strategy", "rule", "heuristic" and "policy" to return; default: all.
                Rules, heuristics and policies come after the strategies, at most 3 of each.

        Raises:
            ValidationError: an argument is wrong; the text is empty, or contains a lone surrogate.
            SettingsError: the memory was built with another embedder.
        """
        recalled = self._recaller.recall(text, limit, agent, max_hops, at=at, kinds=kinds)
        for kind, label in (("strategy", "Strategy"), ("policy", "Policy")):
            self._reads.note_all(label, [item.id for item in recalled.items if item.kind == kind])
        return recalled

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
                candidate. Default: up to 15 that :meth:`recall` finds, or that worked best
                anywhere.
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
        return self._chooser.choose(
            task,
            candidates,
            agent=agent,
            task_type=task_type,
            explore=explore,
            epsilon=epsilon,
            width=width,
            seed=seed,
        )

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
        return self._forecaster.predict(task, strategy, agent, self._similarity)

    def explain(
        self,
        item: HasId | str,
        *,
        kind: str | None = None,
        agent: str | None = None,
        task: str | None = None,
    ) -> Explanation:
        """Return why the memory believes something: ``print(memory.explain("refund"))``.

        The answer has counts and bounds, dates, the trend, the latest episodes for and against, the
        tasks where it works and fails, its neighbours, and the number of trials in a row that would
        change the verdict. Merged strategies count as one.

        Args:
            item: an object that the memory returned (a strategy, heuristic, anti-pattern, rule,
                policy or recalled item), its id, or a text. The text is that of a strategy, else of
                the only heuristic, anti-pattern or rule that has it.
            kind: "strategy", "heuristic", "anti-pattern", "rule" or "policy", if a text belongs to
                several kinds.
            agent: use only episodes that this agent may read; None: all.
            task: its key, id or wording. For a strategy, heuristic or anti-pattern the answer then
                also says what :meth:`predict` expects of the strategy there, and why.

        Raises:
            NotFoundError: there is no such item, or the agent may not read its evidence.
            ValidationError: an argument is wrong, or a text matches several items; the error lists
                them.
        """
        return self._explainer.explain(item, kind=kind, agent=agent, task=task)

    def strategies(
        self,
        task: str | None = None,
        *,
        task_type: str | None = None,
        agent: str | None = None,
        limit: int = 10,
    ) -> Listed[StrategyRow]:
        """Return strategies, the best lower bound of the success rate first.

        Args:
            task: the key or the wording of a task; None: over all tasks.
            task_type: only tasks of this type.
            agent: only outcomes of this agent.
            limit: most strategies to return.
        """
        rows = self._learner.best(task, task_type, agent, limit)
        self._reads.note_all("Strategy", [row.id for row in rows])
        return Listed(rows)

    def evidence(
        self, strategy: str, *, limit: int = 5, agent: str | None = None
    ) -> Listed[Evidence]:
        """Return the latest episodes in which a strategy (its text or id) was applied.

        With ``agent`` only those that this agent may read.
        """
        return Listed(self._learner.evidence(strategy, limit, agent))

    def episodes(
        self,
        task: str | None = None,
        *,
        task_type: str | None = None,
        agent: str | None = None,
        strategy: str | None = None,
        success: bool | None = None,
        since: datetime | None = None,
        limit: int = 20,
    ) -> Listed[EpisodeRow]:
        """Return episodes, the latest first.

        Args:
            task: the key, id or wording of a task; None: of all tasks.
            task_type: only episodes on tasks of this type.
            agent: only episodes that this agent may read; None: all.
            strategy: only episodes that applied this strategy (its text or id).
            success: only episodes that worked (True), or that did not (False).
            since: only episodes that ended at this time (with time zone) or later. An episode
                without a time counts from its recording.
            limit: most episodes to return.

        Raises:
            ValidationError: an argument is wrong.
        """
        rows = self._looking.episodes(
            task,
            task_type=task_type,
            agent=agent,
            strategy=strategy,
            success=success,
            since=since,
            limit=limit,
        )
        return Listed(rows)

    def tasks(
        self,
        task_type: str | None = None,
        *,
        agent: str | None = None,
        sort: Sort = "trials",
        limit: int = 20,
    ) -> Listed[TaskRow]:
        """Return tasks with their success rates, and the best strategy on each.

        Args:
            task_type: only tasks of this type.
            agent: count only episodes that this agent may read; None: all.
            sort: "trials": the most episodes first; "best": the highest lower bound of the success
                rate; "worst": the lowest upper bound; "latest": the latest episode.
            limit: most tasks to return.

        Raises:
            ValidationError: an argument is wrong.
        """
        rows = self._looking.tasks(task_type=task_type, agent=agent, sort=sort, limit=limit)
        return Listed(rows)

    def show(self, item: HasId | str) -> Item:
        """Return anything that has an id: its kind, its fields, and its links.

        Args:
            item: an id that graphmem gave, its first 6 letters or more, or an object with an id.

        Raises:
            NotFoundError: nothing has this id.
            ValidationError: it is no id, or several ids begin like it; the error lists them.
        """
        return self._looking.show(item)

    def similar(self, strategy: str, limit: int = 10) -> Listed[SimilarStrategy]:
        """Return the strategies with the most similar texts, the nearest first.

        Strategies are linked (SIMILAR_TO) if the similarity is over the embedder's threshold. They
        are never merged automatically; ``memory.lessons.merge`` does that. New texts are embedded
        first.

        Args:
            strategy: its id or text.
            limit: most strategies to return.

        Raises:
            NotFoundError: there is no such strategy.
            SettingsError: the memory was built with another embedder.
            ValidationError: an argument is wrong.
        """
        return Listed(self._similarity.similar(strategy, limit))

    def communities(self, limit: int = 20, *, resolution: float = 1.0) -> Listed[Community]:
        """Return groups of strategies that belong together, the largest first.

        Strategies belong together that were used in the same episodes (CO_OCCURS_WITH: each counts
        1) or whose texts are alike (SIMILAR_TO: the similarity counts). Louvain's method finds the
        groups, of the 50,000 strongest pairs; the same graph gives the same groups. A strategy
        without such a pair is in none, and merged strategies count as one. Texts that were not
        embedded yet are not linked; :meth:`similar` and :meth:`recall` do that.

        Args:
            limit: most groups to return.
            resolution: over 1 for smaller groups, under 1 for larger ones; over 0, at most 100.

        Raises:
            SettingsError: networkx is not installed (``pip install -e '.[plots]'``).
            ValidationError: an argument is wrong.
        """
        return Listed(self._communities.find(limit, resolution))

    def to_networkx(
        self,
        around: HasId | str | Sequence[HasId | str] | None = None,
        *,
        hops: int = 1,
        kinds: Sequence[NodeKind] | None = None,
        limit: int | None = NODES,
    ) -> MultiDiGraph:
        """Return the graph, or what is around items, as a graph of networkx.

        A node is an id, and has ``kind``, ``text``, ``trials`` and ``successes``. An edge has
        ``type``, and as far as there are any ``agent``, ``trials``, ``successes`` and ``weight``
        (of CO_OCCURS_WITH, or the similarity of SIMILAR_TO). All are texts and numbers, so that
        networkx can write them as GraphML; a character that XML cannot hold is replaced.

        Args:
            around: an id, a text, an object with an id, or several; None: the whole namespace.
            hops: how many steps around them, from 0 to 6.
            kinds: of "strategy", "task", "heuristic", "anti-pattern", "rule", "policy", "state",
                "agent" and "episode", those to take; default: all but the last two.
            limit: most nodes; there are at most twenty times as many edges. None: any number.

        Raises:
            NotFoundError: there is no such item.
            SettingsError: networkx is not installed (``pip install -e '.[plots]'``).
            ValidationError: an argument is wrong, or there are more nodes or edges.
        """
        return self._network.to_networkx(around, hops=hops, kinds=kinds, limit=limit)

    def calibrate(
        self,
        by: CalibrationOrder = "order",
        folds: int | None = None,
        *,
        on_progress: Callable[[int, int], None] | None = None,
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
        return self._forecaster.calibrate(by, folds, on_progress)

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
        from graphmem.advice.evaluate import Evaluator, checked, checked_chances

        check_function("on_progress", on_progress)
        asked = checked(explore, strategies, clip, seed, resamples)
        chances = checked_chances(epsilon, width, self.settings.choice_sharpness)
        return Evaluator(self._graph).evaluate(asked, chances, on_progress)


def attempts_of(memory: Memory) -> Attempts:
    """Return what stores the attempts of a memory, for integrations."""
    return memory._attempts
