"""Functions of all kinds whose every call is an attempt.

An attempt begins when the body of the function begins: for a generator at the first item. It is the
current one while the body runs, and not while a generator waits for its consumer.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, TypeVar

T = TypeVar("T")
Begin = Callable[[tuple[Any, ...], dict[str, Any]], Any]
"""Returns a new attempt for the arguments of a call."""
Judge = Callable[[Any, Any], None]
"""Takes an attempt, and what the function returned."""
Kind = Literal["function", "coroutine function", "generator", "async generator"]

_running: ContextVar[tuple[Any, ...]] = ContextVar("running_attempts", default=())
"""The attempts of decorated functions that run here, the innermost last."""


def running() -> tuple[Any, ...]:
    """Return the attempts of decorated functions that run here, the innermost last."""
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
    function: Callable[..., Any], kind: Kind, begin: Begin, judge: Judge
) -> Callable[..., Any]:
    """Return a function of the same kind whose every call is an attempt."""
    makers: dict[Kind, Callable[[Callable[..., Any], Begin, Judge], Callable[..., Any]]] = {
        "function": _function,
        "coroutine function": _coroutine,
        "generator": _generator,
        "async generator": _async_generator,
    }
    made = makers[kind](function, begin, judge)
    return functools.update_wrapper(made, function)


@contextmanager
def _current(attempt: object) -> Iterator[None]:
    before = _running.get()
    _running.set((*before, attempt))
    try:
        yield
    finally:
        _running.set(before)


def _function(function: Callable[..., T], begin: Begin, judge: Judge) -> Callable[..., T]:
    def call(*args: Any, **kwargs: Any) -> T:
        with begin(args, kwargs) as attempt:
            with _current(attempt):
                result = function(*args, **kwargs)
            judge(attempt, result)
        return result

    return call


def _coroutine(function: Callable[..., Any], begin: Begin, judge: Judge) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        async with begin(args, kwargs) as attempt:
            with _current(attempt):
                result = await function(*args, **kwargs)
            judge(attempt, result)
        return result

    return call


def _generator(function: Callable[..., Any], begin: Begin, judge: Judge) -> Callable[..., Any]:
    def generate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with begin(args, kwargs) as attempt:
            with _current(attempt):
                inner = function(*args, **kwargs)
            result = yield from _resumed(inner, attempt)
            judge(attempt, result)
        return result

    return generate


def _resumed(inner: Generator[Any, Any, T], attempt: object) -> Generator[Any, Any, T]:
    """Do as ``yield from inner`` does, with the attempt as the current one while it runs."""
    resume = functools.partial(next, inner)
    while True:
        try:
            with _current(attempt):
                item = resume()
        except StopIteration as end:
            result: T = end.value
            return result
        try:
            sent = yield item
        except GeneratorExit:
            with _current(attempt):
                inner.close()
            raise
        except BaseException as error:  # noqa: BLE001 - it goes into the generator
            resume = functools.partial(inner.throw, error)
        else:
            resume = functools.partial(inner.send, sent)


def _async_generator(
    function: Callable[..., Any], begin: Begin, judge: Judge
) -> Callable[..., Any]:
    async def generate(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        async with begin(args, kwargs) as attempt:
            with _current(attempt):
                inner = function(*args, **kwargs)
            resume = inner.__anext__
            while True:
                try:
                    with _current(attempt):
                        item = await resume()
                except StopAsyncIteration:
                    break
                try:
                    sent = yield item
                except GeneratorExit:
                    with _current(attempt):
                        await inner.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001 - it goes into the generator
                    resume = functools.partial(inner.athrow, error)
                else:
                    resume = functools.partial(inner.asend, sent)
            judge(attempt, None)

    return generate
