"""Snapshots of an embedded memory: what a process reads while another may write."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import kglite

from graphmem.errors import LockedError, StorageError, StoreError
from graphmem.forks import UNFORKED
from graphmem.store.embedded_columns import opened
from graphmem.store.embedded_errors import translated
from graphmem.store.embedded_files import (
    ASIDE,
    GRAPH,
    LOG,
    check_folder,
    complete,
    cut,
    found,
    holds_log,
    link,
    scratch_folder,
    signature_of,
    stat_of,
)
from graphmem.store.embedded_locks import reading
from graphmem.store.embedded_log import UnknownLogError, replay
from graphmem.store.manifest import read_manifest

_ATTEMPTS = 20
_POLL = 0.05

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Snapshot:
    """What a reader works on: an immutable graph, and how it came about."""

    session: kglite.Session
    copied: bool = False
    """It is of a moment, because another process writes."""
    _readers: int | None = None

    def close(self) -> None:
        """Let the writer know that nobody reads this any more."""
        if self._readers is not None:
            os.close(self._readers)
            self._readers = None


def open_reader(folder: Path) -> Snapshot:
    """Open a snapshot of a folder, which has every acknowledged transaction.

    Raises:
        LockedError: it is being rewritten continuously.
        StorageError: files are missing, damaged, or do not belong together.
    """
    check_folder(folder)
    readers = reading(folder)
    try:
        for attempt in range(_ATTEMPTS):
            before = signature_of(folder)
            try:
                with found(folder):
                    snapshot = _snapshot(folder)
            except StorageError:
                if signature_of(folder) == before:
                    raise
                snapshot = None  # a writer replaced one of the files between two looks
            if snapshot:
                snapshot._readers = readers
                return snapshot
            time.sleep(_POLL if attempt else 0)
        raise LockedError(f"{folder} is being rewritten continuously; try again")
    except BaseException:
        if readers is not None:
            os.close(readers)
        raise


def _snapshot(folder: Path) -> Snapshot | None:
    """Return a snapshot; None if a writer changed the files meanwhile."""
    graph = folder / GRAPH
    manifest = read_manifest(folder)
    before = stat_of(graph)
    if before and not holds_log(folder):
        with graph.open("rb") as file:
            complete(folder, folder, manifest)
            with translated(path=graph):
                session = opened(alone(graph, file))
        unchanged = stat_of(graph) == before and not holds_log(folder)
        return Snapshot(session) if unchanged else None
    if not before and not (folder / LOG).exists() and not manifest:
        return Snapshot(_empty())
    with scratch_folder() as scratch:
        # Copy the log first: a checkpoint in between then contains all of that log, and the
        # changed graph file is noticed and the copy repeated.
        try:
            _copy_logs(folder, scratch)
            if before:
                link(graph, scratch / GRAPH)
        except FileNotFoundError:
            return None
        except OSError as error:
            where = error.filename or folder
            raise StorageError(f"cannot copy {where} to read it: {error.strerror}") from error
        if stat_of(graph) != before:
            return None
        copied = complete(folder, scratch, manifest)
        if copied:
            name, log = copied
            (scratch / name).replace(scratch / LOG)
            if log.end < log.size:
                cut(scratch / LOG, log)
        try:
            session = _with_log(scratch)
        except StoreError as error:
            raise type(error)(str(error).replace(str(scratch), str(folder))) from error
        # Both files have been read: nothing of the copy need stay on the disk.
        return Snapshot(session, copied=True)


def _copy_logs(folder: Path, copy: Path) -> None:
    """Copy what is there; a writer can set the log aside and make a new one meanwhile."""
    for name in (ASIDE, LOG, ASIDE):
        if not (copy / name).exists():
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(folder / name, copy / name)


def _with_log(scratch: Path) -> kglite.Session:
    """Load copies of a graph file, if there is one, and of its log."""
    graph = scratch / GRAPH
    if graph.exists():
        with graph.open("rb") as file, translated(path=graph):
            session = opened(alone(graph, file))
        try:
            if (scratch / LOG).exists():
                replay(scratch / LOG, session)
        except UnknownLogError as error:
            _log.debug("the log is left to the engine: %s", error)
            del session
        else:
            return session
    with translated(path=graph):
        return opened(str(graph), durable="normal", auto_checkpoint_wal_mib=0)


def alone(graph: Path, file: BinaryIO) -> str:
    """Return a path by which kglite reads an open graph file and looks for no log."""
    path = f"/proc/self/fd/{file.fileno()}"
    return path if Path(path).exists() else str(graph)


def _empty() -> kglite.Session:
    with UNFORKED.lock:
        return kglite.KnowledgeGraph().session()
