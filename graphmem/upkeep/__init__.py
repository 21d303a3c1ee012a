"""Upkeep: verifying, rebuilding, erasing, exporting and importing."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from graphmem.errors import GraphMemError, ValidationError
from graphmem.graph.arguments import check_choice, check_flag, check_function, checked_path
from graphmem.graph.graph import Graph
from graphmem.graph.reads import Reads
from graphmem.kinds import EXPORT_FORMATS, FILE_FORMATS, ExportFormat, FileFormat, NodeKind
from graphmem.models import (
    BackupReport,
    EraseReport,
    ExportReport,
    ForgetReport,
    ImportReport,
    LossReport,
    RebuildReport,
)
from graphmem.models.reports import RelinkReport
from graphmem.network import Network
from graphmem.printable import counted
from graphmem.search.vectors import Vectors
from graphmem.upkeep.erasing import Eraser
from graphmem.upkeep.exchange import Exchange, check_document
from graphmem.upkeep.verifying import Maintainer

if TYPE_CHECKING:
    from graphmem.episodes.learning import Learner
    from graphmem.search.embedding import Embedder


_log = logging.getLogger(__name__)
HOUR = 3_600.0
"""Seconds between two times at which what is beyond the setting ``keep`` is forgotten."""


class Upkeep:
    """Repairs, erases, exports and imports the data of one namespace: ``memory.upkeep``."""

    def __init__(
        self,
        graph: Graph,
        maintainer: Maintainer,
        vectors: Vectors,
        exchange: Exchange,
        reads: Reads,
        network: Network,
        learner: Learner,
    ) -> None:
        self._graph = graph
        self._maintainer = maintainer
        self._vectors = vectors
        self._eraser = Eraser(graph, vectors)
        self._exchange = exchange
        self._reads = reads
        self._network = network
        self._next = 0.0
        learner.after = self._keep

    def initialize(self) -> int:
        """Create missing constraints and indexes; return the schema version.

        Other methods do this at their first call, if the memory is new or of an older version. Then
        they also derive counts that an older graphmem did not keep.
        """
        return self._graph.store.apply_schema(repair=True)

    def rebuild(self, *, on_progress: Callable[[int, int], None] | None = None) -> RebuildReport:
        """Recompute every derived number from the facts and store it."""
        check_function("on_progress", on_progress)
        return self._maintainer.rebuild(on_progress)

    def erase(
        self,
        episode_id: str | None = None,
        *,
        agent: str | None = None,
        user: str | None = None,
        source: str | None = None,
        compact: bool | None = None,
    ) -> EraseReport:
        """Remove an episode, an agent, a user or a source, as if it had never existed.

        Every derived number loses its exact share. Erasing an agent removes its episodes, abandoned
        attempts, policies, events, predictions and scope; erasing a user removes the episodes and
        abandoned attempts of this ``user``, the preferences, and the facts that only this user
        stated; erasing a source removes what its imported skills say. With ``compact`` an embedded
        memory then rewrites its files, so that none of them holds what was erased; ``read_by`` of
        the report names other processes that still have an older snapshot. A server keeps removed
        records until it reuses their space.

        Args:
            episode_id: id of the episode, or of an abandoned attempt. Give one of the four.
            agent: name of the agent; beside an id: erase the episode only if it is this agent's.
            user: name of the user.
            source: name of the source of imported skills.
            compact: rewrite the files at once. None: for all but one episode, which then
                stays in the log until the next checkpoint, at the latest until the memory is
                closed.

        Raises:
            NotFoundError: there is no such episode, agent, user or source in this namespace.
            StorageError: everything was erased, but there is no room to rewrite the files.
            ValidationError: none or several are given.
        """
        given = {"episode_id": episode_id, "agent": agent, "user": user, "source": source}
        if episode_id is not None:
            del given["agent"]
        if sum(value is not None for value in given.values()) != 1:
            remedy = "give one of episode_id, agent, user, source"
            raise ValidationError("episode_id", episode_id, "is not the only one", remedy)
        if compact is not None:
            check_flag("compact", compact)
        if episode_id is not None:
            report = self._eraser.erase_episode(episode_id, agent)
        elif agent is not None:
            report = self._eraser.erase_agent(agent)
        elif source is not None:
            report = self._eraser.erase_source(source)
        else:
            report = self._eraser.erase_user(str(user))
        self._vectors.tidy()
        if compact or (compact is None and episode_id is None):
            report = report.model_copy(update=self._eraser.compact())
        return report

    def forget(
        self,
        older_than: float | timedelta | None = None,
        below_confidence: float | None = None,
        agent: str | None = None,
        *,
        any: bool = False,  # noqa: A002
        dry_run: bool = False,
    ) -> ForgetReport:
        """Erase episodes that are old, or whose strategies have low confidence, or both.

        Only the given conditions count; an episode must meet all of them, or with ``any`` one of
        them. Every derived number loses their exact share; items that nothing else supports are
        removed. The setting ``keep`` does this by itself; without a condition, of all agents, the
        episodes are meant that it does not keep, so that a dry run says which these are.

        Args:
            older_than: days (or a timedelta) since the end of an episode, else its start, else its
                recording, from 0, for instance 90; None: any age. Abandoned attempts of that age
                are erased, too.
            below_confidence: each strategy of the episode must have a lower confidence (posterior
                mean, from 0 to 1) for its agent and type of task, for instance 0.3; None: any
                confidence.
            agent: only episodes of this agent.
            any: age or confidence is enough.
            dry_run: report what would be removed, and change nothing.

        Raises:
            ValidationError: an argument is wrong, or neither a condition nor the setting says what
                goes.
        """
        return self._eraser.forget(older_than, below_confidence, agent, either=any, dry_run=dry_run)

    def _keep(self) -> None:
        """Forget what is beyond the setting ``keep``, at most once an hour."""
        bound, now = self._graph.settings.keep, time.monotonic()
        if bound is None or now < self._next:
            return
        self._next = now + HOUR
        try:
            if count := self._eraser.forget(None, None, None, compact=False).episodes:
                _log.info("forgot %s beyond %s", counted(count, "episode"), bound)
        except GraphMemError as error:  # what was to be learned is learned
            _log.warning("nothing is forgotten, although keep is %s: %s", bound, error)

    def backup(self, folder: str | Path) -> BackupReport:
        """Write the whole memory, with all its namespaces, to a new folder.

        Other threads and processes can write meanwhile: the backup holds one moment. It is a memory
        itself. It holds no vectors; the first search makes them again.

        Args:
            folder: a folder that is empty or does not exist.

        Raises:
            StorageError: there is no memory; the folder holds something or cannot be written.
            StoreError: the memory is on a server, which has backups of its own.
        """
        size, nodes = self._graph.store.backup(checked_path("folder", folder))
        return BackupReport(path=str(folder), bytes=size, nodes=nodes)

    def restore(self, folder: str | Path) -> BackupReport:
        """Fill this memory, which must be empty, from a backup.

        Args:
            folder: the folder of a backup, or a whole copy of a memory's folder.

        Raises:
            StorageError: the backup is not complete, or this folder is not empty.
            StoreError: the memory is on a server, or the backup is none.
        """
        store = self._graph.store
        size, nodes = store.restore(checked_path("folder", folder))
        return BackupReport(path=store.url, bytes=size, nodes=nodes)

    def accept_loss(self) -> LossReport:
        """Go on with the present files, if some are missing, damaged or older.

        What can be read of a damaged log is kept. The damaged file stays in the folder, under
        another name.

        Rebuild and verify the memory afterwards: derived numbers may count lost episodes.

        Raises:
            LockedError: another process writes.
            StorageError: the present files cannot be read.
        """
        return self._graph.store.accept_loss()

    def relink(
        self,
        embedder: Embedder | str | None = None,
        *,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> RelinkReport:
        """Embed texts without a vector, and create all edges SIMILAR_TO again.

        The next recall embeds new texts automatically; this call does it earlier, repairs damaged
        vectors, and can change the embedder.

        Args:
            embedder: the new embedder, by name or as an object; all texts are then embedded again.
                None: the embedder with which the memory was built.
            on_progress: called with the number of finished steps, and of all steps.

        Raises:
            NotFoundError: there is no embedder of that name.
            SettingsError: no embedder is given, and the one in the settings is not that of the
                memory.
        """
        if embedder is not None:
            from graphmem.search.embedding import checked, open_embedder

            embedder = open_embedder(embedder) if isinstance(embedder, str) else checked(embedder)
        check_function("on_progress", on_progress)
        return self._vectors.relink(embedder, on_progress)

    def pending(self) -> dict[str, int]:
        """Return the numbers of strategies and tasks to be embedded and linked, by label.

        Texts whose vector is missing, lost or damaged are among them.
        """
        return self._vectors.pending()

    def embedded_with(self) -> str | None:
        """Return the name of the memory's embedder; None if nothing was embedded."""
        return self._vectors.built_with()

    def export(
        self,
        path: str | Path,
        format_name: ExportFormat,
        *,
        document: str | None = None,
        kinds: Sequence[NodeKind] | None = None,
        limit: int | None = None,
    ) -> ExportReport:
        """Write all episodes to a file, replacing it, or the graph for a program that draws it.

        JSON lines also hold abandoned attempts and levels. GraphML holds nodes and edges as
        :meth:`Memory.to_networkx` has them, and cannot be imported.

        Args:
            path: the file; it is replaced at the end, so it is never half written. A device or a
                pipe is not replaced; everything is written to it at the end.
            format_name: "sentinel" or "jsonl" (JSON lines; ids stay the same); "graphml" for
                programs such as Gephi (needs networkx); "neo4j": the path is a new folder, which
                gets the whole namespace as tables (CSV) for ``neo4j-admin database import full``.
            document: only the episodes of an imported Sentinel file, by its name.
            kinds: the kinds of nodes of a graph; default: what was learned.
            limit: most nodes of a graph; it may have twenty times as many edges. None: any number.

        Raises:
            NotFoundError: no such file was imported.
            ValidationError: the file is one of the memory's own, the other content of imported
                files differs, there is no such format,
                its files have no name in the memory, or a graph has more nodes or edges than
                ``limit`` allows.
            SettingsError: GraphML needs networkx, which is not installed.
            StorageError: the file cannot be written; an existing file stays unchanged.
        """
        target = checked_path("path", path)
        own = Path(self._graph.store.url).resolve()
        if not self._graph.store.capabilities.server and own in (
            place := target.resolve(),
            *place.parents,
        ):
            problem, remedy = "is within the memory's own folder", "name a file elsewhere"
            raise ValidationError("path", str(path), problem, remedy)
        check_choice("format_name", format_name, EXPORT_FORMATS)
        check_document(format_name, document)
        graph = None
        if format_name == "graphml":
            graph = self._network.to_networkx(kinds=kinds, limit=limit)
        else:
            for name, value in {"kinds": kinds, "limit": limit}.items():
                if value is not None:
                    raise ValidationError(name, value, "is for graphml", "leave it out")
        return self._exchange.export(target, format_name, document, graph)

    def import_(
        self, path: str | Path, format_name: FileFormat, *, document: str | None = None
    ) -> ImportReport:
        """Learn all episodes of a file.

        The whole file is checked before anything is learned. Of a Sentinel file the other content
        is stored, too: :meth:`export` then returns the same JSON value. Its episodes are identified
        by their position in the file, so importing a file again finishes an interrupted import, and
        learns episodes appended since.

        Args:
            path: the file, also gzipped; it is read twice, so it must not be a pipe.
            format_name: "sentinel" or "jsonl" (JSON lines, the format that ``seed`` knows as well).
            document: the name of a Sentinel file in the memory; default: its file name without
                folder and endings.

        Raises:
            SeedingError: the file cannot be read, is damaged, not within the limits of the
                settings, or of a newer version; or a line of JSON is wrong. Nothing was learned.
            ValidationError: an episode is wrong (``episodes.3.score``: the fourth), there is no
                such format, or its files have no name in the memory.
            ConflictError: another episode was learned from this position of this file.
        """
        check_choice("format_name", format_name, FILE_FORMATS)
        check_document(format_name, document)
        if format_name == "sentinel":
            return self._exchange.import_sentinel(path, document)
        return self._exchange.import_jsonl(path)

    def flush(self) -> int:
        """Write the counts of reads to the graph; return the number of items.

        This happens automatically every few seconds and when the memory is closed; a crash before
        that loses only these counts.
        """
        return self._reads.flush()
