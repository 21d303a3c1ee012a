"""The parts of a memory: wires them together, opens and closes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pydantic import JsonValue

from graphmem.advice.choose import Chooser
from graphmem.advice.estimate import Estimator
from graphmem.advice.explain import Explainer
from graphmem.advice.predict import Forecaster
from graphmem.advice.recall import Recaller
from graphmem.advice.strengths import Strengths
from graphmem.config import DEFAULT_NAMESPACE, Settings
from graphmem.episodes.learning import Learner
from graphmem.episodes.looking import Looking
from graphmem.errors import GraphMemError, ValidationError
from graphmem.graph.arguments import check_function, check_text
from graphmem.graph.graph import Graph
from graphmem.graph.reads import Reads
from graphmem.lessons import Lessons, answering
from graphmem.lessons.prompt import ContextWriter
from graphmem.levels import Levels, Outlets, relevant_entries
from graphmem.models import Stats, VerifyReport
from graphmem.network import Communities, Network
from graphmem.people import People
from graphmem.people.scopes import LearningScopes
from graphmem.policies import Policies
from graphmem.policies.cycles import Cycles
from graphmem.policies.events import Events
from graphmem.policies.ledger import Predictions
from graphmem.search.entries import EntrySearch
from graphmem.search.similarity import Similarity
from graphmem.store import Limits, Rows, Store, open_store, queries
from graphmem.upkeep import Upkeep
from graphmem.upkeep.verifying import Maintainer

if TYPE_CHECKING:
    from graphmem.search.embedding import Embedder


class Parts:
    """One namespace of one store, and the parts that work with it."""

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
        self._graph = graph = Graph(store, namespace, settings)
        self._reads = reads = Reads(graph)
        self._similarity = similarity = Similarity(graph, embedder)
        self._learner = learner = Learner(graph)
        self._looking = Looking(graph)
        strengths = Strengths(graph)
        estimator = Estimator(graph, strengths)
        self.lessons = Lessons(graph, similarity.fresh)
        """Heuristics, anti-patterns, rules, mistakes: see :class:`graphmem.lessons.Lessons`."""
        self.policies = Policies(graph, reads)
        """The best actions in states: see :class:`graphmem.policies.Policies`."""
        self.people = People(graph)
        """Preferences and knowledge: see :class:`graphmem.people.People`."""
        chat = partial(answering.answer, graph)
        search = EntrySearch(graph, similarity)
        self.levels = Levels(
            graph,
            search,
            Outlets(learner.learn_many, self.people.know, chat),
        )
        """Entries that agents hold for a time: see :class:`graphmem.levels.Levels`."""
        noted = partial(relevant_entries, self.levels, search.floor)
        self._context = ContextWriter(graph, similarity, estimator.each, noted)
        self.scopes = LearningScopes(graph)
        """What agents may learn and read: see :class:`graphmem.people.scopes.LearningScopes`."""
        self.events = Events(graph)
        """Streams of all changes: see :class:`graphmem.policies.events.Events`."""
        self.predictions = Predictions(graph)
        """The ledger of predictions: see :class:`graphmem.policies.ledger.Predictions`."""
        self.cycles = Cycles(graph)
        """Cycles in time: see :class:`graphmem.policies.cycles.Cycles`."""
        self._recaller = Recaller(graph, similarity, estimator)
        self._forecaster = Forecaster(graph, strengths, estimator)
        self._explainer = Explainer(graph, self.lessons, self._forecaster, similarity)
        self._chooser = Chooser(graph, similarity, estimator, self._recaller)
        self._maintainer = Maintainer(graph, similarity, strengths)
        self._network = network = Network(graph)
        self._communities = Communities(graph)
        self.upkeep = Upkeep(graph, self._maintainer, similarity, learner, reads, network)
        """Rebuilding, erasing, exporting: see :class:`graphmem.upkeep.Upkeep`."""

    @classmethod
    def open(
        cls,
        url: str | Path | None = None,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        settings: Settings | None = None,
        embedder: Embedder | None = None,
    ) -> Self:
        """Open a memory; a missing folder is created at the first write.

        Args:
            url: a folder, ``file:``, ``memory:``, ``neo4j://`` or ``bolt://``; None takes
                ``GRAPHMEM_URL``, else that of a file of settings (``graphmem.toml``), else a folder
                in the user's data directory.
            namespace: the namespace to read and write; others in the same store are not affected.
                "default" means the one in the settings (``GRAPHMEM_NAMESPACE``).
            settings: the settings; default: from the environment and a file of settings.
            embedder: an object that implements Embedder and turns texts into vectors; default: the
                one in the setting ``embedder``, else the one with which the memory was built.

        Raises:
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
        return cls(open_store(url, settings), namespace, settings, embedder)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of namespace {self.namespace!r} at {self.store.url!r}>"

    def _repr_html_(self) -> str:
        from graphmem.notebook.html import note

        where = {"namespace": self.namespace, "url": str(self.store.url)}
        try:
            counts = self.stats().model_dump()
        except GraphMemError as error:
            return note(type(self).__name__, where, str(error))
        return note(type(self).__name__, {k: v for k, v in counts.items() if v not in (None, 0)})

    def close(self) -> None:
        """Close the engine. Everything learned is stored."""
        self.levels.stop()
        self.events.stop()
        self._reads.close()
        self.store.close()

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
        settings = self.settings
        limits = Limits(settings.query_seconds, settings.query_rows)
        return self.store.ask(query, limits, **given)

    def stats(self) -> Stats:
        """Return the counts of the namespace, and its engine."""
        return self._maintainer.stats()

    def verify(self, *, on_progress: Callable[[int, int], None] | None = None) -> VerifyReport:
        """Derive every number from the facts again and compare; also check the facts.

        It works in pages, so that what it holds does not grow with the number of episodes.

        Args:
            on_progress: called with the number of facts that were read, and of all to read. An
                episode is read for itself, its task, its agent, and each of its strategies.
        """
        check_function("on_progress", on_progress)
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
