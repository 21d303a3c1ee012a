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
from typing import get_args

from graphmem.errors import StoreError, ValidationError
from graphmem.graph.arguments import check_choice, checked_items, checked_text
from graphmem.graph.decorating import kind_of
from graphmem.models.events import Event, EventKind
from graphmem.policies.listening import Listening

_log = logging.getLogger(__name__)

Handle = Callable[[Event], object]
"""Takes an event; may be asynchronous."""
LONGEST_PAUSE = 300.0
"""Most seconds before a handler is called again."""
_handling: contextvars.ContextVar[bool] = contextvars.ContextVar("handling", default=False)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which events are wanted: of some kinds (none: all), of agents whose names match."""

    kinds: frozenset[str]
    agent: str | None

    @classmethod
    def of(cls, kinds: str | Iterable[str] | None, agent: str | None) -> Filter:
        """Return the filter of checked arguments.

        Raises:
            ValidationError: a kind is unknown, there are none, or the pattern is not a text.
        """
        given = [kinds] if isinstance(kinds, str) else [*checked_items("kinds", kinds or ())]
        for kind in given:
            check_choice("kinds", kind, get_args(EventKind))
        if kinds is not None and not given:
            raise ValidationError("kinds", kinds, "is empty", "name some, or give None for all")
        return cls(frozenset(given), checked_text("agent", agent))

    def fits(self, agent: str) -> bool:
        """Return whether events of an agent or level are wanted."""
        return self.agent is None or fnmatch.fnmatchcase(agent, self.agent)

    def wants(self, event: Event) -> bool:
        """Return whether an event is wanted."""
        return (not self.kinds or event.kind in self.kinds) and self.fits(event.agent)


@dataclass(frozen=True, slots=True)
class Handler:
    """A function, and the events that it handles."""

    handle: Handle
    group: str
    filters: Filter
    attempts: int
    backoff: float

    @property
    def name(self) -> str:
        """Its name in a log."""
        return str(getattr(self.handle, "__qualname__", type(self.handle).__qualname__))

    async def call(self, event: Event) -> None:
        """Call it. A function that is not asynchronous finishes even if this is cancelled."""
        token = _handling.set(True)
        try:
            if kind_of(self.handle) == "coroutine function":
                result = self.handle(event)
            else:
                result = await _run_in_thread(self.handle, event)
            if inspect.isawaitable(result):
                await result
        finally:
            _handling.reset(token)


async def _run_in_thread(handle: Handle, event: Event) -> object:
    """Run a handler in a thread, to its end."""
    task = asyncio.ensure_future(asyncio.to_thread(handle, event))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if task.exception() is not None or inspect.isawaitable(task.result()):
            raise
        raise _HandledError from None


class _HandledError(asyncio.CancelledError):
    """It was cancelled, but the handler succeeded."""


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


async def handle(loop: Loop, listening: Listening, handlers: Sequence[Handler]) -> None:
    """Handle the events of one group, one after another."""
    failures = 0
    while True:
        try:
            event = await anext(listening)
        except StopAsyncIteration:
            return
        except StoreError as error:
            if not error.retryable:
                raise
            failures += 1
            _log.warning("events cannot be read, trying again: %s", error)
            await _pause(loop, min(2.0**failures, LONGEST_PAUSE))
            if loop.stopping:
                return
            continue
        failures = 0
        try:
            done = await _call_handlers(loop, event, handlers)
        except _HandledError:
            await asyncio.to_thread(listening.ack)
            raise
        except BaseException:
            listening.leave()
            raise
        if done is None:
            listening.leave()
            return
        loop.handled += 1
        await asyncio.to_thread(listening.ack if done else listening.park)


async def _call_handlers(loop: Loop, event: Event, handlers: Sequence[Handler]) -> bool | None:
    """Call the handlers of an event; return whether all succeeded, None if it was stopped."""
    succeeded = True
    wanted = [handler for handler in handlers if handler.filters.wants(event)]
    for handler in wanted:
        for attempt in range(1, handler.attempts + 1):
            try:
                await handler.call(event)
                break
            except _HandledError:
                if handler is wanted[-1] and succeeded:
                    raise
                raise asyncio.CancelledError from None
            except Exception as error:  # noqa: BLE001 - whatever it is, the loop goes on
                last = attempt == handler.attempts
                _log.warning(
                    "%s failed on event %s, %s: %s",
                    handler.name,
                    event.id,
                    "parked" if last else "tried again",
                    type(error).__name__,
                    exc_info=_log.isEnabledFor(logging.DEBUG),  # it may show contents
                )
            if last:
                succeeded = False
                break
            await _pause(loop, min(handler.backoff * 2.0 ** (attempt - 1), LONGEST_PAUSE))
            if loop.stopping:
                return None
    return succeeded


async def _pause(loop: Loop, seconds: float) -> None:
    """Wait, or until the loop is stopped."""
    end = asyncio.get_running_loop().time() + seconds
    while not loop.stopping and (left := end - asyncio.get_running_loop().time()) > 0:
        await asyncio.sleep(min(left, 0.1))
