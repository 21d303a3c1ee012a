"""Runs statements by the methods of the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphmem.forks import UNFORKED, when_missed
from graphmem.store.embedded_errors import translated
from graphmem.store.port import Row
from graphmem.store.queries import Query

_IN_THREADS = 4_096
"""The engine computes in threads of its own where a clause has as many rows."""
_limits: dict[str, int] = {}
"""What each statement is given: in a forked child, which lacks those threads, fewer rows."""


def run(call: Callable[..., Any], query: Query, params: dict[str, Any]) -> list[Row]:
    """Run a statement by a method of the engine; return its rows, or raise errors of ours."""
    with translated(query):
        return rows(call, query.text, query.bind(params))


def rows(call: Callable[..., Any], text: str, params: dict[str, Any]) -> list[Row]:
    """Run a text by a method of the engine; return its rows."""
    with UNFORKED.lock:
        result = call(text, params=params, **_limits)
        found: list[Row] = result.to_list() if hasattr(result, "to_list") else []
    return found


when_missed("kglite-query", lambda: _limits.update(max_work_units=_IN_THREADS - 1))
