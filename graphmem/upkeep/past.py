"""What was believed at a time: a memory within this process of what was recorded by then.

Episodes are facts with the time of their recording, and all beliefs follow from them. So the past
is learned again, from the episodes recorded by then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

from graphmem.config import Settings
from graphmem.episodes.learning import Learner
from graphmem.episodes.rows import read_contents
from graphmem.errors import NotFoundError, ValidationError
from graphmem.graph.access import read_scopes
from graphmem.graph.derived import half_life_of
from graphmem.graph.graph import Graph
from graphmem.ids import from_millis, to_millis
from graphmem.lessons.priors import add_sources, read_priors
from graphmem.models.fields import Moment, checked
from graphmem.models.forecasts import PriorRecord
from graphmem.people import LearningScopes
from graphmem.search.edges import Edges
from graphmem.search.vectors import Vectors
from graphmem.store.paging import pages
from graphmem.store.port import Row
from graphmem.upkeep.exchange import line_of

if TYPE_CHECKING:
    from graphmem.search.embedding import Embedder

BATCH = 500


class Past:
    """The past of one namespace; the memory of the time that was last asked for is kept."""

    def __init__(
        self, graph: Graph, vectors: Vectors, opened: Callable[[Settings, Embedder], Any]
    ) -> None:
        self._graph = graph
        self._vectors = vectors
        self._opened = opened  # opens an empty memory in this process, of the same namespace
        self._lock = threading.RLock()
        self._kept: tuple[object, Any] | None = None

    def at(self, as_of: datetime) -> Any:
        """Return a memory of what was recorded by a time.

        Raises:
            ValidationError: the time is in the future, or no time with a time zone.
            NotFoundError: nothing was recorded by then.
        """
        moment = to_millis(checked("as_of", as_of, Moment))
        if moment > self._graph.now():
            raise ValidationError("as_of", as_of, "lies in the future", "leave it out for now")
        known = self._graph.read("exchange.recorded", until=moment)[0]
        if not known["episodes"]:
            first = from_millis(known["first"])
            since = "" if first is None else f"; the first episode was recorded at {first}"
            raise NotFoundError(f"nothing was recorded by {as_of}{since}")
        scopes = [scope.model_dump() for scope in read_scopes(self._graph).values()]
        rows = self._graph.read("forecasting.wholes")
        merged = [(row["whole"], row["id"]) for row in rows if row["whole"] != row["id"]]
        priors = read_priors(self._graph, until=moment)
        # Erased episodes, rights and merges hold for the past, too.
        state = (moment, known["episodes"], scopes, merged, priors)
        with self._lock:
            if self._kept is None or self._kept[0] != state:
                # The former one is not closed: another thread may be asking it.
                self._kept = (state, self._learned(moment, scopes, merged, priors))
            return self._kept[1]

    def close(self) -> None:
        """Close the memory that is kept."""
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None:
            kept[1].close()

    def _learned(
        self,
        moment: int,
        scopes: Sequence[Row],
        merged: Sequence[tuple[str, str]],
        priors: Sequence[PriorRecord],
    ) -> Any:
        half_life = {"co_occurrence_half_life_days": half_life_of(self._graph)}
        settings = self._graph.settings.model_copy(update={"count_reads": False, **half_life})
        memory = self._opened(settings, self._vectors.embedder)
        try:
            graph = _Recorded(memory.store, self._graph.ns, settings)
            learner = Learner(graph)
            for graph.recorded_at, episodes in self._episodes(moment):
                learner.learn_many(episodes, batch_size=BATCH)
            graph.transact(lambda tx: add_sources(tx, priors))
            for scope in scopes:
                LearningScopes(graph).set(**scope)
            texts = Edges(graph).texts_of("Strategy")
            for whole, part in merged:
                if {whole, part} <= texts.keys():
                    memory.lessons.merge(whole, part)
            self._vectors.share(graph)
        except BaseException:
            memory.close()
            raise
        return memory

    def _episodes(self, moment: int) -> Iterator[tuple[int, Iterator[Row]]]:
        """Yield episodes recorded by a time; those without a date with the time of recording."""
        rows = self._graph.read("exchange.episodes", until=moment)
        rows.sort(key=lambda row: (row["recorded_at"], row["id"]))

        def read() -> Iterator[tuple[int, Row]]:
            for page in pages(rows, BATCH):
                ids = [row["id"] for row in page]
                contents = read_contents(self._graph, ids)
                for told in self._graph.read("settling.told", ids=ids):  # the earliest first
                    if told["created_at"] <= moment:
                        contents[told["episode"]] |= told["outcome"]
                for row in page:
                    if (held := contents.get(row["id"])) is not None:
                        dated = "ended_at" in held or "started_at" in held
                        yield moment if dated else row["recorded_at"], line_of(row, held)

        for at, group in groupby(read(), key=lambda item: item[0]):
            yield at, (episode for _, episode in group)


class _Recorded(Graph):
    """A graph whose clock stands where episodes were recorded."""

    recorded_at = 0

    def now(self) -> int:
        return self.recorded_at
