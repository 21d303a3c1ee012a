"""Memory, the entry point of the library. It only delegates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import JsonValue

from graphmem.advice.changes import Changes
from graphmem.advice.choose import Chooser
from graphmem.advice.estimate import Estimator
from graphmem.advice.explain import Explainer
from graphmem.advice.recall import Recaller
from graphmem.config import DEFAULT_NAMESPACE, Settings
from graphmem.episodes.attempts import Attempt, Attempts, Terms
from graphmem.episodes.learning import Learner
from graphmem.episodes.looking import Looking
from graphmem.errors import NotFoundError, ValidationError
from graphmem.facade import ASKING, OTHER_NAMES, delegate, note_if_new
from graphmem.graph.arguments import check_flag, check_text, name_arguments
from graphmem.graph.graph import Graph
from graphmem.graph.reads import Reads
from graphmem.lessons import Lessons
from graphmem.lessons.prompt import ContextWriter
from graphmem.lessons.proposals import answer as answer_by_model
from graphmem.levels import Levels
from graphmem.levels.producers import Producers
from graphmem.levels.transformers import Outlets
from graphmem.models.advice import Choice
from graphmem.models.episodes import Episode, MistakeCard, Step, StrategyUse
from graphmem.models.reports import Learned
from graphmem.network import Network
from graphmem.people import LearningScopes, People, find_facts
from graphmem.policies import Policies
from graphmem.policies.cycles import Cycles
from graphmem.policies.events import Events
from graphmem.policies.ledger import Predictions
from graphmem.search.entries import EntrySearch
from graphmem.search.similarity import Similarity
from graphmem.skills import Skills
from graphmem.store import Limits, Rows, Store, open_store, queries
from graphmem.upkeep import Upkeep
from graphmem.upkeep.erasing import Eraser
from graphmem.upkeep.exchange import Exchange
from graphmem.upkeep.past import Past
from graphmem.upkeep.settling import Settler
from graphmem.upkeep.verifying import Maintainer

if TYPE_CHECKING:
    from graphmem.search.embedding import Embedder
    from graphmem.seeding import Logs, Map, SeedReport

Uses = str | StrategyUse | Choice | Sequence[str | StrategyUse | Choice]


class Memory:
    """A memory of what works for agents: one namespace of one store.

    Thread-safe. Close it, or use it in a ``with`` block.
    """

    def __new__(cls, *given: object, **named: object) -> Self:
        """Refuse a call without the parts that :meth:`open` gives."""
        if len(given) + len(named) < 3:
            raise TypeError(f'{cls.__name__} is opened by {cls.__name__}.open("path/to/folder")')
        return super().__new__(cls)

    def __init__(
        self, store: Store, namespace: str, settings: Settings, embedder: Embedder | None = None
    ) -> None:
        self.store = store
        """The engine, for operations that this class does not offer."""
        self.namespace = namespace
        self.settings = settings
        self._unread = True
        self._graph = graph = Graph(store, namespace, settings)
        self._reads = reads = Reads(graph)
        self._similarity = similarity = Similarity(graph, embedder)
        self._learner = learner = Learner(graph)
        self._changes = changes = Changes(graph)
        self._past = past = Past(graph, similarity.vectors, partial(_within, namespace))
        self._estimator = estimator = Estimator(graph, similarity, past.at)
        self.lessons = Lessons(graph, similarity.fresh, changes.find)
        """Heuristics, anti-patterns, rules, mistakes: see :class:`graphmem.lessons.Lessons`."""
        self.policies = Policies(graph, reads)
        """The best actions in states: see :class:`graphmem.policies.Policies`."""
        self.people = People(graph)
        """Preferences and knowledge: see :class:`graphmem.people.People`."""
        search = EntrySearch(graph, similarity.vectors)
        outlets = Outlets(learner.learn_many, self.people.know, partial(answer_by_model, graph))
        self.levels = Levels(graph, search, reads, outlets)
        """Entries that agents hold for a time: see :class:`graphmem.levels.Levels`."""
        noted = self.levels._relevant
        facts = partial(find_facts, graph, search)
        self._context = ContextWriter(graph, similarity, estimator.each, noted, facts)
        self.scopes = LearningScopes(graph)
        """What agents may learn and read: see :class:`graphmem.people.LearningScopes`."""
        self.events = Events(graph, self.policies.crystallize, changes.made_by)
        """Streams of all changes: see :class:`graphmem.policies.events.Events`."""
        self.predictions = Predictions(graph)
        """The ledger of predictions: see :class:`graphmem.policies.ledger.Predictions`."""
        self.cycles = Cycles(graph)
        """Cycles in time: see :class:`graphmem.policies.cycles.Cycles`."""
        self._looking = Looking(graph, changes.find, reads, past.at)
        self._recaller = Recaller(graph, estimator, facts, reads)
        self._explainer = Explainer(graph, self.lessons, estimator, changes.find)
        self._chooser = Chooser(graph, estimator, self._recaller)
        self._maintainer = Maintainer(graph, similarity.vectors, estimator.strengths)
        self._settler = settler = Settler(graph, learner)
        self._network = Network(graph)
        eraser = Eraser(graph, similarity.vectors, learner)
        exchange = Exchange(graph, learner, settler)
        self.upkeep = Upkeep(graph, self._maintainer, similarity.vectors, eraser, exchange, reads)
        """Rebuilding, erasing, exporting: see :class:`graphmem.upkeep.Upkeep`."""
        self.skills = Skills(graph, self.lessons, changes, similarity)
        """Skills for agents, as files: see :class:`graphmem.skills.Skills`."""
        self._attempts = Attempts(
            graph,
            learner,
            lambda task, **how: self.context(task, **how),  # noqa: PLW0108 - looked up when called
            lambda task, *args, **how: self.choose(task, *args, **how),  # noqa: PLW0108
            partial(self.levels._end, "task"),
        )
        self._producers = Producers(self.levels)

    @classmethod
    def open(
        cls,
        url: str | Path | None = None,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        settings: Settings | None = None,
        embedder: Embedder | None = None,
        create: bool = True,
    ) -> Self:
        """Open a memory; a missing folder is created at the first write.

        Args:
            url: a folder (``~`` and ``$NAME`` are expanded), ``file:``, ``memory:``, ``neo4j://``
                or ``bolt://``; None takes ``GRAPHMEM_URL``, else that of a file of settings
                (``graphmem.toml``), else a folder in the user's data directory.
            namespace: the namespace to read and write; others in the same store are not affected.
                "default" means the one in the settings (``GRAPHMEM_NAMESPACE``).
            settings: the settings; default: from the environment and a file of settings.
            embedder: an object that implements Embedder and turns texts into vectors; default: the
                one in the setting ``embedder``, else the one with which the memory was built.
            create: False refuses a folder without a memory; else its first answer is empty, and a
                warning is logged.

        Raises:
            NotFoundError: there is no memory, and ``create`` is False.
            SettingsError: a setting, the url or the namespace is wrong.
            ValidationError: ``settings`` are none, ``namespace`` is no text, or ``embedder`` does
                not implement Embedder.
            StoreError: the engine cannot be opened; see :mod:`graphmem.errors`.
        """
        if settings is None:
            settings = Settings()
        elif not isinstance(settings, Settings):
            raise ValidationError("settings", settings, "is not a Settings", "give one, or None")
        check_text("namespace", namespace)
        if namespace == DEFAULT_NAMESPACE:
            namespace = settings.namespace
        else:
            Settings(namespace=namespace)
        if embedder is not None:
            from graphmem.search.embedding import checked

            embedder = checked(embedder)
        check_flag("create", create)
        store = open_store(url, settings)
        if not create and not store.exists():
            store.close()
            raise NotFoundError(
                f"no memory at {store.url}; name another url, or make one: `graphmem init`, or "
                "leave out create=False and learn"
            )
        return cls(store, namespace, settings, embedder)

    if not TYPE_CHECKING:  # else every name would be known to a type checker

        def __getattr__(self, name: str) -> Any:
            parts = ((part, held) for part, held in vars(self).items() if isinstance(held, PARTS))
            where = [f"{part}.{name}" for part, held in parts if hasattr(held, name)]
            where += OTHER_NAMES.get(name, ())
            place = f"; there is {', '.join(f'memory.{one}' for one in where)}" if where else ""
            raise AttributeError(f"{type(self).__name__} has no {name!r}{place}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of namespace {self.namespace!r} at {self.store.url!r}>"

    def close(self) -> None:
        """Close the engine. Everything learned is stored."""
        self._attempts.close()
        self.levels.stop()
        self.events.stop()
        self._reads.close()
        self._past.close()
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
        user: str | None = None,
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
            user: for whom it worked; ``upkeep.erase(user=...)`` also removes the episode.
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
        given = {**locals(), "extra": {} if extra is None else extra}
        del given["self"]
        return self._learner.learn(Episode(**given))

    def attempt(
        self,
        task: str | Callable[..., str],
        *,
        agent: str | None = None,
        user: str | None = None,
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
            user: for whom it works, as in :meth:`learn`; the context has the preferences of this
                user.
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
        terms = dict(locals())
        del terms["self"]
        return self._attempts.open(Terms(**terms))

    def current_attempt(self) -> Attempt:
        """Return the attempt of the innermost decorated function of this memory that runs here.

        A ``with`` block gives its attempt itself.

        Raises:
            NotFoundError: no function that :meth:`attempt` of this memory decorates runs here.
        """
        return self._attempts.current()

    learn_many = delegate("_learner", Learner.learn_many)
    settle = delegate("_settler", Settler.settle)

    def seed(
        self,
        logs: Logs,
        *,
        map: Map | None = None,  # noqa: A002 - the name of the option
        format: str | None = None,  # noqa: A002
        agent: str | None = None,
        outcomes: str | Path | Mapping[str, bool | float] | None = None,
        strategy_from: str | None = None,
        evaluator: str | None = None,
        limit: int | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> SeedReport:
        """Learn the episodes of logs, each record once, in constant memory.

        Args:
            logs: a file, a folder or a pattern, a list of them, or records as mappings; an empty
                list if there are only outcomes.
            map: which field of a record is which (:mod:`graphmem.seeding.maps`): a dict such as
                ``{"task": "prompt", "strategy": "tool", "success": "ok"}``, the same as a text
                ``task=prompt,strategy=tool,success=ok``, or a TOML file.
            format: the name of a format; None recognises it from the content of each file.
            agent: overrides the agent that the log names.
            outcomes: a file of outcomes by key (CSV, or a JSON report of resolved ids), or a
                mapping from keys to a success or a score, for records that have none. Outcomes of
                episodes that are known settle them.
            strategy_from: what counts as the strategy: ``tools``, ``model``, ``agent``, or the name
                of a field; default: what the format says.
            evaluator: whose judgement counts where a record has several.
            limit: most records of each file.
            on_progress: called with the number of records that are durable or refused by now.

        Raises:
            SeedingError: a log, the map or the outcomes cannot be read, or the format is unknown;
                what was learned of other files stays. A wrong record is a refusal in the report.
        """
        how = {name: value for name, value in locals().items() if name not in ("self", "logs")}
        how |= {"format_name": how.pop("format"), "progress": how.pop("on_progress")}
        from graphmem import seeding

        settles = outcomes is not None and isinstance(logs, list | tuple) and not logs
        read = [] if settles else seeding.sources(logs, map)
        return seeding.seed(self, read, **how)

    def record_episode(self, form: Mapping[str, Any]) -> Learned:
        """Learn an episode in the Sentinel form, in one durable transaction.

        A form has ``task_id`` and ``score`` in [0, 1], and may have ``trajectory_summary``,
        ``successes``, ``mistakes`` and ``mistake_cards``; see the format ``sentinel``. ``steps``
        and all unknown fields are stored in ``extra``. An ``episode_id`` (or ``id``) identifies the
        episode; the same id with other content is an error. Without an id, every call is an
        outcome. Without a ``timestamp`` the episode ended now. What Sentinel took is mended, and
        named in ``warnings`` of the answer: a score as a text, a card without a type, an item of a
        list that says nothing.

        Raises:
            ValidationError: a field is wrong; the error names it as the form does.
            ConflictError: the id was learned with other content.
            StoreError: the engine failed; nothing was written.
        """
        from graphmem.seeding import sentinel

        mended, warnings = sentinel.mend(form)
        episode = sentinel.episode(mended, source_key=sentinel.identity(form))
        learned = self._learner.learn(episode, dated=sentinel.is_live(form))
        return learned.model_copy(update={"warnings": warnings})

    remember = delegate("_producers", Producers.remember)
    watch = delegate("_producers", Producers.watch)
    context = delegate("_context", ContextWriter.context)
    recall = delegate("_recaller", Recaller.recall)
    choose = delegate("_chooser", Chooser.choose)
    changes = delegate("_changes", Changes.changes)
    predict = delegate("_estimator", Estimator.predict)
    explain = delegate("_explainer", Explainer.explain)

    strategies = delegate("_looking", Looking.strategies)
    episodes = delegate("_looking", Looking.episodes)
    tasks = delegate("_looking", Looking.tasks)
    show = delegate("_looking", Looking.show)
    similar = delegate("_similarity", Similarity.similar)
    to_networkx = delegate("_network", Network.to_networkx)
    calibrate = delegate("_estimator", Estimator.calibrate)
    evaluate = delegate("_chooser", Chooser.evaluate)

    def query(
        self, cypher: str, params: Mapping[str, JsonValue] | None = None, /, **named: JsonValue
    ) -> Rows:
        """Run reading Cypher, or a procedure by name, and return its rows.

        ``$ns`` is always set; filter by it, because a plain query sees the whole store. Cypher may
        use the clauses, functions and procedures that read the graph, for ``query_seconds``. The
        rows are a list; its ``truncated`` says whether there are more than ``query_rows``.

        Raises:
            ReadOnlyError: the query writes.
            QueryError: it does more than read the graph, reached a limit, or the engine rejects it.
            NotFoundError: no procedure has this name.
        """
        check_text("cypher", cypher)
        if params is not None and not isinstance(params, Mapping):
            raise ValidationError("params", params, "must be a dict of parameters")
        query = queries.readable(cypher)
        given = {**(params or {}), **named}
        for name in given:
            check_text("params", name)
        if "ns" in query.params or not query.checked:
            given.setdefault("ns", self.namespace)
        if query.checked:
            return Rows(self.store.read(query, **given))
        limits = Limits(self.settings.query_seconds, self.settings.query_rows)
        return self.store.ask(query, limits, **given)

    stats = delegate("_maintainer", Maintainer.stats)
    verify = delegate("_maintainer", Maintainer.verify)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()


PARTS = (
    *(Lessons, Policies, Levels, People, LearningScopes, Events, Predictions, Cycles, Upkeep),
    Skills,
)


for _part in (Memory, *PARTS):
    name_arguments(_part)
for _name in ASKING:
    setattr(Memory, _name, note_if_new(getattr(Memory, _name)))


def _within(namespace: str, settings: Settings, embedder: Embedder) -> Memory:
    """Return an empty memory within this process."""
    return Memory(open_store("memory:", settings), namespace, settings, embedder)
