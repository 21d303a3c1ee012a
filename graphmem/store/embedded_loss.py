"""Going on with the files of an embedded memory that are there, where some are lost or damaged."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import replace
from pathlib import Path

from graphmem.errors import StorageError
from graphmem.forks import UNFORKED
from graphmem.store.embedded_columns import opened
from graphmem.store.embedded_errors import locked, translated
from graphmem.store.embedded_files import (
    ASIDE,
    GRAPH,
    LOG,
    QUARANTINED,
    found,
    keep_damaged,
    log_of,
    loss_of,
    scratch_folder,
    settle_aside,
)
from graphmem.store.embedded_locks import owner_of, unused
from graphmem.store.embedded_log import UnknownLogError, replay
from graphmem.store.embedded_snapshot import alone
from graphmem.store.manifest import (
    FIRST_FRAME,
    HEAD,
    Manifest,
    Mark,
    Scan,
    print_of,
    read_manifest,
    scan,
)
from graphmem.store.port import Loss

_WHOLE = f"{LOG}.tmp"
"""A log of the whole transactions of a damaged one."""


def accept_loss(folder: Path) -> Loss:
    """Make a memory of the files that are there; return what they lack.

    Damaged files stay in the folder, under other names.

    Raises:
        LockedError: another process writes.
        StorageError: there is nothing to go on with, or a file cannot be read or written.
    """
    with unused(folder) as free, found(folder):
        if not free:
            raise locked(owner_of(folder))
        return _accept(folder)


def _accept(folder: Path) -> Loss:
    problems: tuple[str, ...] = ()
    try:
        manifest = read_manifest(folder)
    except StorageError as error:
        if isinstance(error.__cause__, OSError):
            raise
        manifest, problems = None, ("its manifest is damaged",)
    log, graph = log_of(folder, folder, manifest), print_of(folder / GRAPH)
    loss = loss_of(folder, manifest, graph, log)
    if not (problems := problems + loss.problems):
        return loss

    kept = [_moved(folder, part.name) for part in folder.glob(QUARANTINED)]
    lost, mark, fits = loss.transactions, Mark(), True
    if log:
        fits = _whole_fits(folder, *log)
        kept += _replace_log(folder, *log, fits=fits)
        mark = log[1].mark if fits else mark
    if not fits:
        lost = max(lost, manifest.mark.transactions if manifest else 0)
        problems += ("its log continues another graph file",)
    accepted = replace(manifest or Manifest(), saving=False, graph=graph, position=None, mark=mark)
    accepted.write(folder)
    return Loss(problems, lost, tuple(kept))


def _moved(folder: Path, name: str) -> Path:
    kept = keep_damaged(folder, name)
    (folder / name).unlink()
    return kept


def _whole_fits(folder: Path, name: str, log: Scan) -> bool:
    """Write a log of the whole transactions of one; return whether it fits the graph file."""
    if not log.frames:
        return True
    _write_whole(folder / name, log.end, folder / _WHOLE)
    return _fits(folder)


def _replace_log(folder: Path, name: str, log: Scan, *, fits: bool) -> list[Path]:
    """Put the log of the whole transactions in place; return where damaged ones are kept."""
    kept = [] if log.whole and fits else [keep_damaged(folder, name)]
    if name == ASIDE and (folder / LOG).exists() and scan(folder / LOG, Mark()).frames:
        kept.append(keep_damaged(folder, LOG))
    if log.frames and fits:
        (folder / _WHOLE).replace(folder / LOG)
    else:
        (folder / LOG).unlink(missing_ok=True)
        (folder / _WHOLE).unlink(missing_ok=True)
    if name == ASIDE:
        (folder / ASIDE).unlink()
    settle_aside(folder, LOG)
    return kept


def _write_whole(log: Path, end: int, whole: Path) -> None:
    """Write a log of the whole transactions of another one, durably."""
    with log.open("rb") as old, whole.open("wb") as new:
        head = old.read(FIRST_FRAME)
        new.write(head if head[:4] == HEAD[:4] else HEAD)
        left = end - FIRST_FRAME
        while left and (part := old.read(min(left, 1 << 20))):
            new.write(part)
            left -= len(part)
        new.flush()
        os.fsync(new.fileno())


def _fits(folder: Path) -> bool:
    """Return whether a memory can be made of the graph file with the whole log.

    It is tried as the next process will do it; the files stay as they are.

    Raises:
        StorageError: the graph file cannot be read.
    """
    graph, log = folder / GRAPH, folder / _WHOLE
    try:
        if graph.exists():
            with graph.open("rb") as file:
                with translated(path=graph):
                    session = opened(alone(graph, file))
                with contextlib.suppress(UnknownLogError):
                    replay(log, session)
                    return True
                del session
        with scratch_folder() as scratch:
            if graph.exists():
                shutil.copyfile(graph, scratch / GRAPH)
            shutil.copyfile(log, scratch / LOG)
            session = opened(str(scratch / GRAPH), durable="normal")
            with UNFORKED.lock:
                session.close()
    except RuntimeError:
        return False
    except StorageError as error:
        raise StorageError(
            f"{error}; restore a backup, or move the file away and try again with the log alone"
        ) from error
    return True
