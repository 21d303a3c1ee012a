"""The errors of kglite, as ours."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import kglite

from graphmem.errors import (
    ForkedError,
    GraphMemError,
    LockedError,
    QueryError,
    ReadOnlyError,
    StorageError,
    StoreError,
)
from graphmem.store.port import Row
from graphmem.store.queries import Query

_IN_THREADS = 4_096  # the engine computes in threads of its own where a clause has as many rows
_USED_BY: set[int] = set()
"""The processes that used the engine, one forked from the other: a child lacks these threads."""


def run(call: Callable[..., Any], query: Query, /, **params: Any) -> list[Row]:
    """Run a statement by a method of the engine; return its rows, or raise errors of ours."""
    bound = query.bind(params)
    _USED_BY.add(os.getpid())
    # In a forked child the engine would wait for ever for its threads.
    limits = {"max_work_units": _IN_THREADS - 1} if len(_USED_BY) > 1 else {}
    try:
        result = call(query.text, params=bound, **limits)
        return result.to_list() if hasattr(result, "to_list") else []
    except Exception:  # whatever it is, it is raised again, as an error of ours where it is one
        with translated(query):
            raise


@contextlib.contextmanager
def translated(query: Query | None = None, path: Path | None = None) -> Iterator[None]:
    """Turn kglite's errors into ours."""
    name = f"{query.name}: " if query and query.checked else ""
    try:
        yield
    except GraphMemError:
        raise
    except kglite.WriterLeaseHeldError as error:
        raise locked(getattr(error, "holder", None) or {}) from error
    except kglite.ArgumentError as error:
        if "mutation" in str(error).lower() or "read-only" in str(error).lower():
            raise ReadOnlyError(f"{name}only reading is allowed here: {error}") from error
        raise QueryError(f"{name}{error}") from error
    except (kglite.FileFormatError, kglite.FileError) as error:
        raise StorageError(f"{path or 'the graph file'} is damaged: {error}") from error
    except (kglite.FileIoError, OSError) as error:
        if full(error):
            raise StorageError(
                f"{name}the disk is full: this was not written, what was written before is kept; "
                f"make room and try again ({error})"
            ) from error
        memory = path or "the memory"
        raise StorageError(f"{name}cannot write or read {memory}: {error}") from error
    except kglite.CypherError as error:
        raise _of_cypher(name, str(error)) from error
    except (kglite.KgError, RuntimeError, ValueError) as error:
        if path is not None:
            raise StorageError(f"{path} and its log do not fit together: {error}") from error
        raise StoreError(f"{name}{error}") from error


def _of_cypher(name: str, what: str) -> GraphMemError:
    if "max_work_units" not in what:
        return QueryError(f"{name}{what}")
    if len(_USED_BY) == 1:
        return QueryError(f"{name}the query goes through too many rows; narrow it ({what})")
    return ForkedError(
        f"{name}this needs threads of the engine, which were left behind when this process was "
        'forked; start such a process by spawn (multiprocessing.get_context("spawn"), or a command '
        "of its own)"
    )


def full(error: BaseException | None) -> bool:
    """Return whether there is no room, or no right to more of it."""
    told = re.search(r"\(os error (\d+)\)", str(error))
    number = int(told[1]) if told else getattr(error, "errno", None)
    return number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def locked(holder: Mapping[str, Any]) -> LockedError:
    """Return the error for a memory that another process writes."""
    since = f" since {holder['since']}" if holder.get("since") else ""
    return LockedError(
        f"process {holder.get('pid') or 'unknown'} writes this memory{since}; wait for it, "
        "raise GRAPHMEM_WAIT (--wait), or put the memory on a server (neo4j://)"
    )
