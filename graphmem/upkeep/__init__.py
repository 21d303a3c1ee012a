"""Upkeep: verifying, rebuilding, erasing, exporting and importing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from graphmem.facade import delegate
from graphmem.graph.arguments import check_function, checked_path
from graphmem.graph.graph import Graph
from graphmem.graph.reads import Reads
from graphmem.models.reports import BackupReport, LossReport, RelinkReport
from graphmem.search.vectors import Vectors
from graphmem.upkeep.erasing import Eraser
from graphmem.upkeep.exchange import Exchange
from graphmem.upkeep.verifying import Maintainer

if TYPE_CHECKING:
    from graphmem.search.embedding import Embedder


@dataclass(eq=False, repr=False)
class Upkeep:
    """Repairs, erases, exports and imports the data of one namespace: ``memory.upkeep``."""

    _graph: Graph
    _maintainer: Maintainer
    _vectors: Vectors
    _eraser: Eraser
    _exchange: Exchange
    _reads: Reads

    def initialize(self) -> int:
        """Create missing constraints and indexes; return the schema version.

        Other methods do this at their first call, if the memory is new or of an older version. Then
        they also derive counts that an older graphmem did not keep.
        """
        return self._graph.store.apply_schema(repair=True)

    rebuild = delegate("_maintainer", Maintainer.rebuild)
    erase = delegate("_eraser", Eraser.erase)
    forget = delegate("_eraser", Eraser.forget)

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

        What can be read of a damaged log is kept. The damaged file stays in the folder, renamed.
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
            SettingsError: none is given, and the one in the settings is not that of the memory.
        """
        if embedder is not None:
            from graphmem.search.embedding import checked, open_embedder

            embedder = open_embedder(embedder) if isinstance(embedder, str) else checked(embedder)
        check_function("on_progress", on_progress)
        return self._vectors.relink(embedder, on_progress)

    pending = delegate("_vectors", Vectors.pending)

    def embedded_with(self) -> str | None:
        """Return the name of the memory's embedder; None if nothing was embedded."""
        built = self._vectors.built_for()
        return built and built[0]

    export = delegate("_exchange", Exchange.export)
    import_ = delegate("_exchange", Exchange.import_)
    flush = delegate("_reads", Reads.flush)
