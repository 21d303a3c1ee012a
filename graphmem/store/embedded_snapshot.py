"""Snapshots of an embedded memory: what a process reads while another may write."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import kglite

from graphmem.errors import LockedError, StorageError, StoreError
from graphmem.store.embedded_columns import open_session
from graphmem.store.embedded_errors import translated
from graphmem.store.embedded_files import (
    GRAPH,
    LOG,
    check_complete,
    check_folder,
    holds_log,
    link,
    name_file,
    scratch_folder,
    signature_of,
    stat_of,
)
from graphmem.store.embedded_locks import lock_for_reading
from graphmem.store.manifest import read_manifest

_ATTEMPTS = 20
_POLL = 0.05


@dataclass(slots=True)
class Snapshot:
    """What a reader works on: an immutable graph, and how it came about."""

    session: kglite.Session
    copied: bool = False
    """It is of a moment, because another process writes."""
    lock: int | None = None
    """The open file whose lock says that somebody reads."""

    def close(self) -> None:
        """Let the writer know that nobody reads this any more."""
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None


def open_reader(folder: Path) -> Snapshot:
    """Open a snapshot of a folder, which has every acknowledged transaction.

    Raises:
        LockedError: it is being rewritten continuously.
        StorageError: files are missing, damaged, or do not belong together.
    """
    check_folder(folder)
    lock = lock_for_reading(folder)
    try:
        for attempt in range(_ATTEMPTS):
            before = signature_of(folder)
            try:
                with name_file(folder):
                    snapshot = _snapshot(folder)
            except StorageError:
                if attempt and signature_of(folder) == before:
                    raise
                snapshot = None  # a writer replaced one of the files between two looks
            if snapshot:
                snapshot.lock = lock
                return snapshot
            time.sleep(_POLL if attempt else 0)
        raise LockedError(f"{folder} is being rewritten continuously; try again")
    except BaseException:
        if lock is not None:
            os.close(lock)
        raise


def _snapshot(folder: Path) -> Snapshot | None:
    """Return a snapshot; None if a writer changed the files meanwhile."""
    graph = folder / GRAPH
    before = stat_of(graph)
    manifest = read_manifest(folder)
    if before and not holds_log(folder):
        with graph.open("rb") as file:
            check_complete(folder, folder, manifest)
            with translated(path=graph):
                session = open_session(path_alone(graph, file))
        unchanged = stat_of(graph) == before and not holds_log(folder)
        return Snapshot(session) if unchanged else None
    if not before and not (folder / LOG).exists() and not manifest:
        return Snapshot(kglite.KnowledgeGraph().session())
    with scratch_folder() as scratch:
        try:
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(folder / LOG, scratch / LOG)
            if before:
                link(graph, scratch / GRAPH)
        except FileNotFoundError:
            return None
        except OSError as error:
            where = error.filename or folder
            raise StorageError(f"cannot copy {where} to read it: {error.strerror}") from error
        if stat_of(graph) != before:  # a checkpoint began another log meanwhile
            return None
        acknowledged = check_complete(folder, scratch, manifest)
        if acknowledged is not None and (scratch / LOG).exists():
            os.truncate(scratch / LOG, acknowledged)
        try:
            with translated(path=scratch / GRAPH):
                session = open_session(
                    str(scratch / GRAPH), durable="normal", auto_checkpoint_wal_mib=0
                )
        except StoreError as error:
            raise type(error)(str(error).replace(str(scratch), str(folder))) from error
        # Both files have been read: nothing of the copy need stay on the disk.
        return Snapshot(session, copied=True)


def path_alone(graph: Path, file: BinaryIO) -> str:
    """Return a path by which kglite reads an open graph file and looks for no log."""
    path = f"/proc/self/fd/{file.fileno()}"
    return path if Path(path).exists() else str(graph)
