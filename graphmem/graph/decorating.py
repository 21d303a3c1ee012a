"""Functions of all kinds whose every call is noted: as an attempt, or as an entry of a level.

A note is a context manager around a call. It is the current one while the body of the function
runs, but not while a generator waits for its consumer.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, Protocol, TypeVar

T = TypeVar("T")
Begin = Callable[[tuple[Any, ...], dict[str, Any]], Any]
"""Returns a new note for the arguments of a call."""
Told = Callable[[Any, Any], None]
"""Takes a note, and what the function returned, or what a generator yielded."""
Kind = Literal["function", "coroutine function", "generator", "async generator"]

_running: ContextVar[tuple[Any, ...]] = ContextVar("running_notes", default=())


class Awaiting(Protocol):
    """Runs calls in other threads."""

    async def run(self, call: Callable[[], T]) -> T:
        """Return what a reading call returns."""

    async def finish(self, call: Callable[[], T]) -> T:
        """Return what a call returns; it is done even if somebody cancels meanwhile."""


def running() -> tuple[Any, ...]:
    """Return the notes of decorated functions that run here, the innermost last."""
    return _running.get()


def kind_of(function: Callable[..., Any]) -> Kind:
    """Return the kind of a function, or of an object that can be called."""
    routine = inspect.isroutine(function) or isinstance(function, functools.partial)
    called = function if routine else type(function).__call__
    if inspect.isasyncgenfunction(called):
        return "async generator"
    if inspect.iscoroutinefunction(called):
        return "coroutine function"
    return "generator" if inspect.isgeneratorfunction(called) else "function"


def decorated(
    function: Callable[..., Any],
    kind: Kind,
    begin: Begin,
    returned: Told,
    yielded: Told = lambda *_: None,
) -> Callable[..., Any]:
    """Return a function of the same kind whose every call is noted."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with begin(args, kwargs) as note:
            with _current(note):
                result = function(*args, **kwargs)
            returned(note, result)
        return result

    async def call_async(*args: Any, **kwargs: Any) -> Any:
        async with begin(args, kwargs) as note:
            with _current(note):
                result = await function(*args, **kwargs)
            returned(note, result)
        return result

    def generate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with begin(args, kwargs) as note:
            with _current(note):
                inner = function(*args, **kwargs)
            result = yield from _resumed(inner, note, yielded)
            returned(note, result)
        return result

    async def generate_async(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        async with begin(args, kwargs) as note:
            with _current(note):
                inner = function(*args, **kwargs)
            resume = inner.__anext__
            while True:
                try:
                    with _current(note):
                        item = await resume()
                except StopAsyncIteration:
                    break
                yielded(note, item)
                try:
                    sent = yield item
                except GeneratorExit:
                    with _current(note):
                        await inner.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001 - it goes into the generator
                    resume = functools.partial(inner.athrow, error)
                else:
                    resume = functools.partial(inner.asend, sent)
            returned(note, None)

    made: dict[Kind, Callable[..., Any]] = {
        "function": call,
        "coroutine function": call_async,
        "generator": generate,
        "async generator": generate_async,
    }
    return functools.update_wrapper(made[kind], function)


@contextmanager
def _current(note: object) -> Iterator[None]:
    before = _running.get()
    _running.set((*before, note))
    try:
        yield
    finally:
        _running.set(before)


def _resumed(inner: Generator[Any, Any, T], note: object, yielded: Told) -> Generator[Any, Any, T]:
    """Do as ``yield from inner`` does, with the note as the current one while it runs."""
    resume = functools.partial(next, inner)
    while True:
        try:
            with _current(note):
                item = resume()
        except StopIteration as end:
            result: T = end.value
            return result
        yielded(note, item)
        try:
            sent = yield item
        except GeneratorExit:
            with _current(note):
                inner.close()
            raise
        except BaseException as error:  # noqa: BLE001 - it goes into the generator
            resume = functools.partial(inner.throw, error)
        else:
            resume = functools.partial(inner.send, sent)
