"""Patience with a server whose schema others change meanwhile.

A server gives up a statement that it had to plan again and again. graphmem repeats it; drivers do
not, so tests that send statements of their own by a driver do it here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from neo4j.exceptions import Neo4jError

from graphmem import Memory, Settings
from tests.neo4j.server import Found

T = TypeVar("T")

PAUSES = (0.1, 0.3, 1.0, 3.0)
"""Seconds between the attempts."""


def patiently(work: Callable[[], T]) -> T:
    """Return what ``work`` returns; do it again where the server could not plan a statement."""
    for pause in PAUSES:
        try:
            return work()
        except Neo4jError as error:
            if "frequent schema changes" not in str(error):
                raise
            time.sleep(pause)
    return work()


def prepare(found: Found) -> None:
    """Create all indexes, and wait until they are there, so that no test changes the schema."""
    settings = Settings(user=found.user, password=found.password)
    with Memory.open(found.uri, settings=settings) as memory:
        memory.store.apply_schema()
        driver = memory.store._driver  # type: ignore[attr-defined]
        patiently(lambda: driver.execute_query("CALL db.awaitIndexes(120)"))
