"""How a memory is opened and closed, and what its parts are."""

from __future__ import annotations

from collections.abc import (
    Mapping,
)
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pydantic import JsonValue

from graphmem.advice.explain import Explainer
from graphmem.advice.predict import Forecaster
from graphmem.advice.recall import Recaller
from graphmem.config import DEFAULT_NAMESPACE, Settings
from graphmem.episodes.learning import Learner
from graphmem.graph.reads import Reads
from graphmem.lessons.general_rules import Consolidator
from graphmem.lessons.merging import Merger
from graphmem.lessons.prompt import ContextWriter
from graphmem.lessons.reading import Lessons
from graphmem.models import Stats
from graphmem.people.knowledge import KnowledgeBase
from graphmem.people.preferences import Preferences
from graphmem.people.scopes import Scoper
from graphmem.policies import Policies
from graphmem.policies.crystallizing import Crystallizer
from graphmem.policies.cycles import Cycles
from graphmem.policies.events import Events
from graphmem.policies.ledger import Predictions
from graphmem.search.similarity import Similarity
from graphmem.store import Row, Store, open_store, queries
from graphmem.upkeep.erasing import Eraser
from graphmem.upkeep.exchange import Exchange
from graphmem.upkeep.verifying import Maintainer

if TYPE_CHECKING:
    from graphmem.search.embedding import Embedder


class MemoryBase:
    """A memory of what works: one namespace of one store.

    Safe to use from several threads. Close it, or use it in a ``with`` block.
    """

    def __init__(
        self, store: Store, namespace: str, settings: Settings, embedder: Embedder | None = None
    ) -> None:
        self.namespace = namespace
        self.settings = settings
        self._store = store
        self._reads = Reads(store, namespace, enabled=settings.count_reads)
        self._learner = Learner(store, namespace, settings)
        self._lessons = Lessons(store, namespace, settings)
        self._explainer = Explainer(store, namespace, settings, self._lessons)
        self._forecaster = Forecaster(store, namespace, settings)
        self._merger = Merger(store, namespace)
        self._context = ContextWriter(store, namespace, settings)
        self._consolidator = Consolidator(
            store, namespace, settings, self._lessons.refresh_preferred
        )
        self._crystallizer = Crystallizer(store, namespace, settings)
        self.policies = Policies(store, namespace, settings, self._reads)
        """What to do in a state: see :class:`graphmem.policies.Policies`."""
        self.events = Events(store, namespace)
        """Every change, as a stream: see :class:`graphmem.policies.events.Events`."""
        self.predictions = Predictions(store, namespace, settings)
        """What was expected, and what came: see :class:`graphmem.policies.ledger.Predictions`."""
        self.cycles = Cycles(store, namespace, settings)
        """When things happen: see :class:`graphmem.policies.cycles.Cycles`."""
        self._similarity = Similarity(store, namespace, settings, embedder)
        self._recaller = Recaller(store, namespace, settings, self._similarity, self._lessons)
        self._maintainer = Maintainer(store, namespace, settings, self._similarity)
        self._eraser = Eraser(store, namespace, settings, self._maintainer, self._similarity)
        self._exchange = Exchange(store, namespace, settings, self._learner)
        self._preferences = Preferences(store, namespace)
        self._knowledge = KnowledgeBase(store, namespace)
        self._scoper = Scoper(store, namespace)

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

    def query(
        self, cypher: str, params: Mapping[str, JsonValue] | None = None, /, **named: JsonValue
    ) -> list[Row]:
        """Run Cypher that only reads, or a procedure by name, and return its rows.

        ``$ns`` is always there: filter by it, for a plain query sees the whole store.

        Raises:
            ReadOnlyError: it writes.
            QueryError: the engine does not understand it.
        """
        given = {**(params or {}), **named}
        if cypher in (known := queries.catalog()):
            query = known[cypher]
            if query.mode != "read":
                raise queries.refuse_writing(query)
            if "ns" in query.params:
                given.setdefault("ns", self.namespace)
        else:
            query = queries.adhoc(cypher)
            given.setdefault("ns", self.namespace)
        return self._store.read(query, **given)

    def stats(self) -> Stats:
        """Return the counts of the namespace, and the engine that holds it."""
        return self._maintainer.stats()

    def initialize(self) -> int:
        """Create the memory, its constraints and indexes where missing; return the schema version.

        Other writing methods do this by themselves at their first call.
        """
        return self._store.apply_schema(repair=True)

    @property
    def store(self) -> Store:
        """The engine below, for what this class does not offer."""
        return self._store

    def flush(self) -> int:
        """Write the counts of reads to the graph; return for how many items.

        This happens by itself every few seconds and when the memory is closed; a crash before
        that loses these counts, and nothing else.
        """
        return self._reads.flush()

    def close(self) -> None:
        """Let go of the engine; what was learned is kept."""
        self._reads.close()
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
