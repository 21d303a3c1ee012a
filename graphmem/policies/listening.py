"""Listening to events: waiting for those of a group, one after another.

A listener is one consumer of its group. An event counts as handled when the next one is asked for.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Self

from graphmem.errors import StoreError, ValidationError
from graphmem.graph.bell import Wake
from graphmem.models.events import Event

if TYPE_CHECKING:
    from graphmem.policies.consumers import Consumer

_log = logging.getLogger(__name__)


class Listening:
    """The events of a group as they come: iterate over it, with ``for`` or ``async for``.

    Each event is acknowledged when you ask for the next one. If you leave a loop at an event, it
    comes again. Events that a consumer of this name did not acknowledge come first.
    """

    def __init__(
        self,
        consumer: Consumer,
        wants: Callable[[Event], bool],
        heard: Callable[[Wake], AbstractContextManager[None]],
        *,
        every: float,
        idle: float,
        follow: bool,
    ) -> None:
        self._consumer = consumer
        self._wants = wants
        self._heard = heard
        self._every = every
        self._idle = idle
        self._follow = follow
        self._stopped = False
        self._page: deque[Event] = deque()
        self._given: Event | None = None
        self._looked: float | None = None
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Let the iteration end before the next event."""
        self._stopped = True

    def ack(self) -> None:
        """Acknowledge the latest event; else asking for the next one does."""
        given, self._given = self._given, None
        if given is None:
            return
        try:
            self._consumer.ack(given)
        except ValidationError:
            _log.warning("event %s was re-claimed while it was handled", given.id)
        except StoreError as error:
            if not self._stopped:
                self._given = given
                raise
            _log.warning("event %s was not acknowledged: %s", given.id, type(error).__name__)

    def park(self) -> None:
        """Give the latest event to the consumer "parked", and go on."""
        given, self._given = self._given, None
        if given is not None:
            self._consumer.park(given)

    def leave(self) -> None:
        """End, without acknowledging the latest event."""
        self._given = None
        self._stopped = True

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        woken = threading.Event()
        if not self._page:
            with self._heard(woken.set):
                while self._look():
                    woken.wait(min(self._every, threading.TIMEOUT_MAX))
                    woken.clear()
        else:
            self._look()
        if self._ended:
            raise StopIteration
        return self._next()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        woken, loop = asyncio.Event(), asyncio.get_running_loop()

        def wake() -> None:
            loop.call_soon_threadsafe(woken.set)

        if not self._page:
            with self._heard(wake):
                while await asyncio.to_thread(self._look):
                    try:
                        async with asyncio.timeout(self._every):
                            await woken.wait()
                    except TimeoutError:
                        pass
                    woken.clear()
        else:
            await asyncio.to_thread(self._look)
        if self._ended:
            raise StopAsyncIteration
        return self._next()

    @property
    def _ended(self) -> bool:
        return self._stopped or not self._page

    def _next(self) -> Event:
        self._given = self._page.popleft()
        return self._given

    def _look(self) -> bool:
        """Acknowledge what was given, get what is new; return whether to wait for more.

        If a call is cancelled and another one begins meanwhile, nothing is lost.
        """
        with self._lock:
            self.ack()
            if self._stopped or self._page:
                return False
            try:
                while not self._page and (new := self._new()):
                    self._page += [event for event in new if self._wants(event)]
                    unwanted = [event for event in new if not self._wants(event)]
                    if unwanted:
                        self._consumer.ack(*unwanted)
            except StoreError:
                if not self._stopped:  # else the memory was closed
                    raise
            return self._follow and not self._page and not self._stopped

    def _new(self) -> list[Event]:
        """Return a page of events: what this consumer had, what is new, what dead ones left."""
        now = time.monotonic()
        if self._looked is None:
            self._looked = now
            if own := self._consumer.reclaim(idle=0, own=True):
                return own
        if new := list(self._consumer):
            return new
        if now - self._looked >= self._idle:
            self._looked = now
            return self._consumer.reclaim(idle=self._idle)
        return []
