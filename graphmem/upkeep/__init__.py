"""Upkeep: proving, rebuilding, erasing, exporting and importing what a memory holds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from graphmem.episodes.learning import Learner
from graphmem.errors import ValidationError
from graphmem.graph.graph import Graph
from graphmem.graph.reads import Reads
from graphmem.models import EraseReport, ExportReport, ForgetReport, ImportReport, RebuildReport
from graphmem.models.similarity import RelinkReport
from graphmem.search.similarity import Similarity
from graphmem.upkeep.erasing import Eraser
from graphmem.upkeep.exchange import Exchange, FileFormat
from graphmem.upkeep.verifying import Maintainer

if TYPE_CHECKING:
    from graphmem.search.embedding import Embedder

__all__ = ["FileFormat", "Upkeep"]


class Upkeep:
    """Mends one namespace, takes things out of it, and moves it: ``memory.upkeep``."""

    def __init__(
        self,
        graph: Graph,
        maintainer: Maintainer,
        similarity: Similarity,
        learner: Learner,
        reads: Reads,
    ) -> None:
        self._graph = graph
        self._maintainer = maintainer
        self._similarity = similarity
        self._eraser = Eraser(graph, similarity)
        self._exchange = Exchange(graph, learner)
        self._reads = reads

    def initialize(self) -> int:
        """Create the memory, its constraints and indexes where missing; return the schema version.

        Other writing methods do this by themselves at their first call.
        """
        return self._graph.store.apply_schema(repair=True)

    def rebuild(self, *, on_progress: Callable[[int, int], None] | None = None) -> RebuildReport:
        """Recompute every derived number from the facts and store it."""
        return self._maintainer.rebuild(on_progress)

    def erase(
        self,
        episode_id: str | None = None,
        *,
        agent: str | None = None,
        user: str | None = None,
    ) -> EraseReport:
        """Remove an episode, all of an agent, or all of a user, as if it had never been.

        Every derived number loses its exact share. Of an agent go its episodes, policies, events,
        predictions and its scope; of a user the preferences, and what only this user stated.
        After erasing an agent or a user an embedded memory writes its files anew, so that nothing
        is left on disk; a server keeps removed records until it uses their place again.

        Args:
            episode_id: of the episode. Give one of the three.
            agent: a name.
            user: a name.

        Raises:
            NotFoundError: there is no such episode, agent or user in this namespace.
            ValidationError: none or several are given.
        """
        given = {"episode_id": episode_id, "agent": agent, "user": user}
        if sum(value is not None for value in given.values()) != 1:
            raise ValidationError(
                "episode_id", episode_id, "is not the only one", "give one of " + ", ".join(given)
            )
        if agent is not None:
            return self._eraser.erase_agent(agent)
        if user is not None:
            return self._eraser.erase_user(user)
        return self._eraser.erase_episode(str(episode_id))

    def forget(
        self,
        older_than: float | timedelta | None = 90,
        below_confidence: float | None = 0.3,
        agent: str | None = None,
        *,
        dry_run: bool = False,
    ) -> ForgetReport:
        """Erase episodes that are old and taught nothing that is believed.

        Their exact share of every derived number goes, and what nothing else supports.

        Args:
            older_than: days (or a timedelta) since an episode ended, else started, else was
                recorded; None: of any age.
            below_confidence: each strategy of the episode has a lower confidence (posterior mean)
                for its agent and type of task; None: whatever is believed.
            agent: only episodes of this agent.
            dry_run: report what would go, and change nothing.

        Raises:
            ValidationError: an argument is wrong, or both conditions are None.
        """
        return self._eraser.forget(older_than, below_confidence, agent, dry_run=dry_run)

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

    def pending(self) -> dict[str, int]:
        """Return how many strategies and tasks wait to be embedded and linked, by label."""
        return self._similarity.pending()

    def embedded_with(self) -> str | None:
        """Return the name of the embedder that the memory was built with; None: nothing was."""
        return self._similarity.built_with()

    def export(
        self, path: str | Path, format_name: FileFormat, *, document: str | None = None
    ) -> ExportReport:
        """Write all episodes to a file, in place of what is there.

        Args:
            path: the file; it is replaced at the end, so that it is never half written.
            format_name: "sentinel" or "jsonl" (JSON lines; ids stay the same).
            document: only the episodes of an imported Sentinel file, by its name.

        Raises:
            NotFoundError: no such file was imported.
            ValidationError: imported files differ in what they hold beside their episodes, there
                is no such format, or its files have no name in the memory.
            StorageError: the file cannot be written; what was there stays.
        """
        return self._exchange.export(path, format_name, document)

    def import_(
        self, path: str | Path, format_name: FileFormat, *, document: str | None = None
    ) -> ImportReport:
        """Learn all episodes of a file.

        Of a Sentinel file they are learned in one transaction, and all the rest of it is kept:
        :meth:`export` then gives the same JSON value back. An episode is known by its place in the
        file, so importing a file to which episodes were added learns these.

        Args:
            path: the file, also gzipped.
            format_name: "sentinel" or "jsonl" (JSON lines, the format that ``seed`` knows as well).
            document: what a Sentinel file is known by; default: its name without folder and
                endings.

        Raises:
            SeedingError: it cannot be read, is damaged, or of a newer version; or a line of JSON
                is wrong. Nothing was learned.
            ValidationError: an episode is wrong (``episodes.3.score``: the fourth), there is no
                such format, or its files have no name in the memory.
            ConflictError: another episode was learned from this place of this file.
        """
        return self._exchange.import_(path, format_name, document)

    def flush(self) -> int:
        """Write the counts of reads to the graph; return for how many items.

        This happens by itself every few seconds and when the memory is closed; a crash before
        that loses these counts, and nothing else.
        """
        return self._reads.flush()
