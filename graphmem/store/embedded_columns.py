"""Columns of large graphs, which the engine keeps in files of the system's temporary folder.

It makes a folder for each graph that it loads, which everybody may read, and removes it with the
graph: not if its process ends before that.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kglite

_NAME = "kglite_portable_"
_LOADED = 60
"""Seconds after which the files are mapped, so that nobody needs their names."""


def open_session(path: str, **how: Any) -> kglite.Session:
    """Open a graph, and keep its columns from other users of the machine.

    The arguments, and the errors, are those of ``kglite.open_session``.
    """
    session = kglite.open_session(path, **how)
    for folder in _folders(os.getpid()):
        with contextlib.suppress(OSError):
            folder.chmod(0o700)
    return session


def remove_columns(process: int | None = None) -> None:
    """Remove those of a process that has ended; default: of this one, which ends."""
    for folder in _folders(os.getpid() if process is None else process):
        shutil.rmtree(folder, ignore_errors=True)


def remove_left_columns() -> None:
    """Remove those of all processes that were ended before they could."""
    now = time.time()
    for folder in _folders():
        number = folder.name.removeprefix(_NAME).partition("_")[0]
        with contextlib.suppress(OSError):
            # A process of another container has a number that is not known here.
            loaded = now - folder.stat().st_mtime > _LOADED
            if number.isdigit() and loaded and not _runs(int(number)):
                shutil.rmtree(folder, ignore_errors=True)


def _folders(process: int | str = "*") -> Iterator[Path]:
    return Path(tempfile.gettempdir()).glob(f"{_NAME}{process}_*")


def _runs(process: int) -> bool:
    if os.name == "nt":  # a signal would end it; folders in use cannot be removed there
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


atexit.register(remove_columns)
