"""Snapshots of an embedded memory: what a process reads while another may write."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path

import kglite

from graphmem.errors import LockedError, StorageError, StoreError
from graphmem.store.embedded_files import (
    COPIES,
    GRAPH,
    LOG,
    check_complete,
    check_folder,
    holds_log,
    name_file,
    open_session,
    signature_of,
    stat_of,
)
from graphmem.store.manifest import read_manifest

_ATTEMPTS = 20
_POLL = 0.05


def open_snapshot(folder: Path) -> tuple[kglite.Session, bool]:
    """Return a graph with every acknowledged transaction, and whether others may write it now.

    Raises:
        LockedError: it is being rewritten continuously.
        StorageError: files are missing, damaged, or do not belong together.
    """
    check_folder(folder)
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
            return snapshot
        time.sleep(_POLL if attempt else 0)
    raise LockedError(f"{folder} is being rewritten continuously; try again")


def _snapshot(folder: Path) -> tuple[kglite.Session, bool] | None:
    """Return a snapshot; None if a writer changed the files meanwhile."""
    graph = folder / GRAPH
    before = stat_of(graph)
    manifest = read_manifest(folder)
    if before and not holds_log(folder):
        check_complete(folder, folder, manifest)
        session = open_session(graph)
        unchanged = stat_of(graph) == before and not holds_log(folder)
        return (session, False) if unchanged else None
    if not before and not (folder / LOG).exists() and not manifest:
        return kglite.KnowledgeGraph().session(), False
    with tempfile.TemporaryDirectory(prefix=f"{COPIES}{os.getpid()}-") as name:
        copy = Path(name)
        try:
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(folder / LOG, copy / LOG)
            if before:
                _link(graph, copy / GRAPH)
        except FileNotFoundError:
            return None
        except OSError as error:
            where = error.filename or folder
            raise StorageError(f"cannot copy {where} to read it: {error.strerror}") from error
        if stat_of(graph) != before:  # a checkpoint began another log meanwhile
            return None
        acknowledged = check_complete(folder, copy, manifest)
        if acknowledged is not None and (copy / LOG).exists():
            os.truncate(copy / LOG, acknowledged)
        try:
            # Both files are read: nothing of the copy need stay on the disk.
            return open_session(copy / GRAPH, "normal"), True
        except StoreError as error:
            raise type(error)(str(error).replace(name, str(folder))) from error


def _link(file: Path, name: Path) -> None:
    """Give a file another name, or copy it: it is replaced, never changed in place."""
    try:
        name.hardlink_to(file)
    except OSError:  # on another disk, of another user, or not supported
        shutil.copyfile(file, name)
