"""Handlers of events: functions that are called for each event of a group, until they succeed."""

from __future__ import annotations

import asyncio
import contextvars
import fnmatch
import inspect
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field

from graphmem.errors import StoreError
from graphmem.graph.decorating import kind_of
from graphmem.models.events import Event, EventKind
from graphmem.models.fields import Input, Name
from graphmem.policies.consumers import Listening

_log = logging.getLogger(__name__)

LONGEST_PAUSE = 300.0
"""Most seconds before a handler is called again."""
_handling: contextvars.ContextVar[bool] = contextvars.ContextVar("handling", default=False)


def _kinds(given: object) -> object:
    if isinstance(given, str):
        return (given,)
    return tuple(given) if isinstance(given, Iterable) else given


class Interest(Input):
    """Which events are wanted by whom, and how they are handled."""

    group: Name
    consumer: Name = "listener"
    kinds: Annotated[tuple[EventKind, ...], Field(min_length=1), BeforeValidator(_kinds)] | None = (
        None
    )
    agent: Name | None = None
    """A pattern; ``*`` stands for any letters."""
    idle: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] = 60.0
    follow: bool = True
    attempts: Annotated[int, Field(ge=1, le=1_000)] = 5
    backoff: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] = 1.0

    def fits(self, agent: str) -> bool:
        """Return whether events of an agent or level are wanted."""
        return self.agent is None or fnmatch.fnmatchcase(agent, self.agent)

    def wants(self, event: Event) -> bool:
        """Return whether an event is wanted."""
        return (self.kinds is None or event.kind in self.kinds) and self.fits(event.agent)


class Handler(NamedTuple):
    """A function, and the events that it handles."""

    function: Callable[[Event], Any]
    interest: Interest

    async def call(self, event: Event) -> None:
        """Call it. A function that is not asynchronous finishes even if this is cancelled."""
        token = _handling.set(True)
        try:
            if kind_of(self.function) == "coroutine function":
                result = self.function(event)
            else:
                task = asyncio.ensure_future(asyncio.to_thread(self.function, event))
                try:
                    result = await asyncio.shield(task)
                except asyncio.CancelledError:
                    await asyncio.wait([task])
                    raise
            if inspect.isawaitable(result):
                await result
        finally:
            _handling.reset(token)


@dataclass(eq=False)
class Loop:
    """A loop that runs the handlers of a memory."""

    thread: int = field(default_factory=threading.get_ident)
    listening: list[Listening] = field(default_factory=list)
    stopping: bool = False
    ended: threading.Event = field(default_factory=threading.Event)
    handled: int = 0

    def stop(self) -> None:
        """Let it end after the events under way."""
        self.stopping = True
        for listening in self.listening:
            listening.stop()

    def wait(self) -> None:
        """Wait until it ended, unless it waits for the caller."""
        if self.thread != threading.get_ident() and not _handling.get():
            self.ended.wait()

    async def handle(self, listening: Listening, handlers: Sequence[Handler]) -> None:
        """Handle the events of one group, one after another."""
        failures = 0
        while True:
            try:
                event = await anext(listening, None)
            except StoreError as error:
                if not error.retryable:
                    raise
                failures += 1
                _log.warning("events cannot be read, trying again: %s", error)
                if not await self._pause(2.0**failures):
                    return
                continue
            if event is None:
                return
            failures = 0
            for handler in handlers:
                if handler.interest.wants(event):
                    done = await self._try(handler, event)
                    if done is None:  # stopped: the event comes again
                        return
                    if not done:
                        listening.park()
            self.handled += 1

    async def _try(self, handler: Handler, event: Event) -> bool | None:
        """Call a handler until it succeeds; return whether it did, None if the loop was stopped."""
        given = handler.interest
        for attempt in range(1, given.attempts + 1):
            try:
                await handler.call(event)
            except Exception as error:  # noqa: BLE001 - whatever it is, the loop goes on
                _log.warning(
                    "%s failed on event %s, %s: %s",
                    getattr(handler.function, "__qualname__", type(handler.function).__qualname__),
                    event.id,
                    "parked" if attempt == given.attempts else "tried again",
                    type(error).__name__,
                    exc_info=_log.isEnabledFor(logging.DEBUG),  # it may show contents
                )
            else:
                return True
            if attempt < given.attempts and not await self._pause(
                given.backoff * 2.0 ** (attempt - 1)
            ):
                return None
        return False

    async def _pause(self, seconds: float) -> bool:
        """Wait; return whether the loop was not stopped meanwhile."""
        end = asyncio.get_running_loop().time() + min(seconds, LONGEST_PAUSE)
        while not self.stopping and (left := end - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(min(left, 0.1))
        return not self.stopping
