"""Many writers of shared things, who try again after each error, and what they were told."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from graphmem import Memory, Settings
from graphmem.errors import StoreError
from graphmem.store.neo4j import GRACE
from tests.faults.attack import rounds
from tests.faults.learner import keys

WRITERS = 16
CALLS = rounds(6, 50)
RETRY = 4.0
ENDING = 2.0
"""Seconds after which a server ends a transaction whose time is over: it looks that often."""
BUSY = 10.0
"""Seconds that a machine may be too busy to go on with a thread or with the server."""
ALLOWED = 2 * RETRY + GRACE + ENDING + BUSY


def impatient(user: str, password: str) -> Settings:
    return Settings(user=user, password=password, wait=RETRY)


@dataclass
class Heard:
    """What writers were told."""

    learned: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    errors: list[StoreError] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = {str(error)[:80] for error in self.errors}
        return (
            f"{len(self.learned)} learned, {len(self.errors)} errors {kinds}, {max(self.waits)} s"
        )


def write(memory: Memory, place: int, heard: Heard) -> None:
    """Learn about shared things until all is acknowledged, again after each error."""
    for number in range(CALLS):
        key = f"{place}/{number}"
        failed = (place + number) % 3 == 0
        while True:
            started = time.monotonic()
            try:
                memory.learn(
                    f"task {number % 5}",
                    [f"strategy {number % 3}", "ask"],
                    success=not failed,
                    error="timeout after 3 s" if failed else None,
                    agent=f"agent {place % 5}",
                    source_key=key,
                )
            except StoreError as error:
                heard.errors.append(error)
                heard.waits.append(time.monotonic() - started)
                time.sleep(0.2)
            else:
                heard.learned.append(key)
                heard.waits.append(time.monotonic() - started)
                break


def check(memory: Memory, heard: Heard) -> None:
    """Every acknowledged episode is there, once; what was refused may be tried again."""
    wanted = sorted(f"{place}/{number}" for place in range(WRITERS) for number in range(CALLS))
    assert sorted(heard.learned) == wanted, heard
    assert keys(memory) == wanted, heard
    assert all(error.retryable for error in heard.errors), heard
    assert max(heard.waits) < ALLOWED, heard
    assert not memory.verify().differences


def storm(memory: Memory, disturb: Callable[[Heard], None]) -> Heard:
    """Let writers loose on a memory, and disturb them meanwhile."""
    heard = Heard()
    password = memory.settings.password
    patient = Settings(user=memory.settings.user, password=password)
    with Memory.open(memory.store.url, namespace=memory.namespace, settings=patient) as first:
        first.learn("task 0", ["strategy 0", "ask"], success=True)  # the server makes its plan
        first.upkeep.erase(first.episodes(strategy="ask")[0].id)
    with ThreadPoolExecutor(WRITERS) as pool:
        futures = [pool.submit(write, memory, place, heard) for place in range(WRITERS)]
        disturb(heard)
        for future in futures:
            future.result()
    return heard
