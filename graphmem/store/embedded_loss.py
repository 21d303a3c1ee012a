"""Goes on with the files of an embedded memory that are there, where some are lost or damaged."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import kglite

from graphmem.errors import StorageError
from graphmem.store.embedded_errors import locked, translated
from graphmem.store.embedded_files import (
    GRAPH,
    LOG,
    QUARANTINED,
    abandon,
    find_problems,
    holds_log,
    keep_damaged,
    name_file,
    open_session,
    remove_left,
)
from graphmem.store.embedded_locks import owner_of, unused
from graphmem.store.manifest import Manifest, Mark, print_of, read_manifest
from graphmem.store.port import Loss


def accept_loss(folder: Path) -> Loss:
    """Make a memory of the files that are there; return what they lack.

    Damaged files stay in the folder, under other names.

    Raises:
        LockedError: another process writes.
        StorageError: there is nothing to go on with, or a file cannot be read or written.
    """
    with unused(folder) as free, name_file(folder):
        if not free:
            raise locked(owner_of(folder))
        problems: tuple[str, ...] = ()
        try:
            manifest = read_manifest(folder)
        except StorageError as error:
            if isinstance(error.__cause__, OSError):
                raise
            manifest, problems = None, ("its manifest is damaged",)
        problems += find_problems(folder, folder, manifest)
        if not problems:
            return Loss()
        kept = [keep_damaged(folder, part.name) for part in folder.glob(QUARANTINED)]
        if holds_log(folder):
            kept.append(keep_damaged(folder, LOG))
    try:
        session = open_session(folder / GRAPH, "normal")
    except StorageError:
        problems += ("its log does not continue its graph file",)
        session = _open_alone(folder)
    before = manifest or Manifest()
    try:
        with name_file(folder), translated(path=folder / GRAPH):
            # Until the new manifest is there, nothing is checked: the graph file is the next one.
            replace(before, saving=True, graph=None, mark=Mark(before.checkpoint)).write(folder)
            session.save()
            Manifest(
                checkpoint=before.checkpoint + 1,
                graph=print_of(folder / GRAPH),
                nodes=session.node_count(),
                transactions=before.transactions,
            ).write(folder)
            for part in folder.glob(QUARANTINED):  # the log is kept as a whole
                part.unlink()
            remove_left(folder)
    finally:
        abandon(session)
    return Loss(problems, before.mark.transactions, tuple(kept))


def _open_alone(folder: Path) -> kglite.Session:
    """Open the graph file without its log."""
    try:
        (folder / LOG).rename(folder / f"{LOG}.tmp")
        return open_session(folder / GRAPH, "normal")
    except (StorageError, FileNotFoundError) as error:
        with contextlib.suppress(OSError):
            (folder / f"{LOG}.tmp").rename(folder / LOG)
        raise StorageError(
            f"{error}; restore a backup, or move the file away and try again with the log alone"
        ) from error
