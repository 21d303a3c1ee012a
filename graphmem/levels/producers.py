"""Producers: functions whose calls become entries of a level, without a change of their code.

A producer never breaks a call. It logs an error of its own without contents, and counts it at the
level.
"""

from __future__ import annotations

import fnmatch
import inspect
import logging
import threading
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from types import FunctionType, MethodType, TracebackType
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from graphmem.errors import ValidationError
from graphmem.forks import in_child
from graphmem.graph.arguments import check_flag, check_text, checked_agent
from graphmem.graph.decorating import decorated, kind_of
from graphmem.ids import level_id
from graphmem.levels.base import check_own, check_writable
from graphmem.levels.entries import Entries
from graphmem.models.calls import Call, described
from graphmem.models.fields import Input
from graphmem.models.levels import LevelName, NewEntry, Seconds

_log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")
Extract = Callable[[Call, Any], Any]
"""Takes a call and its result; returns content, tags and metadata, or None."""

ITEMS = 10_000
"""Most items of a generator that an extractor gets."""
_HOOK = "__graphmem_hook__"
_keeping: ContextVar[bool] = ContextVar("keeping", default=False)
"""Whether a producer is at work here; the calls that it makes are not remembered."""


class Awaiting(Protocol):
    """Runs calls in other threads."""

    async def finish(self, call: Callable[[], R]) -> R:
        """Return what a call returns; it is done even if somebody cancels meanwhile."""


class _Checked(Input):
    ttl: Seconds | None = None


class _Terms(NamedTuple):
    """The settings of a producer."""

    level: LevelName
    extract: Extract
    ttl: float | None
    errors: bool
    agent: str | None


class Producers:
    """Makes producers for the levels of one namespace."""

    def __init__(self, levels: Entries, awaiting: Awaiting | None = None) -> None:
        self._levels = levels
        self._awaiting = awaiting
        self._uncounted: Counter[str] = Counter()
        self._counting = threading.Lock()
        in_child(self, _renew)

    def remember(
        self,
        level: str,
        *,
        extract: Extract | None = None,
        ttl: float | None = None,
        errors: bool = False,
        agent: str | None = None,
    ) -> Callable[[F], F]:
        """Return a decorator of functions; see :meth:`Memory.remember`."""
        terms = self._checked(level, extract, ttl, errors, agent)

        def decorate(function: F) -> F:
            if isinstance(function, staticmethod | classmethod):
                return type(function)(self._produces(_function(function.__func__), terms))
            made: Any = self._produces(_function(function), terms)
            return made  # type: ignore[no-any-return]

        return decorate

    def watch(
        self,
        target: object,
        pattern: str,
        *,
        level: str,
        extract: Extract | None = None,
        ttl: float | None = None,
        errors: bool = False,
        agent: str | None = None,
    ) -> Watch:
        """Remember the calls of an object's methods; see :meth:`Memory.watch`."""
        terms = self._checked(level, extract, ttl, errors, agent)
        check_text("pattern", pattern)
        hooks: list[_Hook] = []
        try:
            for name in _names(target, pattern):
                hooks.append(_Hook(target, name, self, terms))  # noqa: PERF401 - one may fail
        except BaseException:
            Watch(tuple(hooks)).undo()
            raise
        return Watch(tuple(hooks))

    def _checked(
        self,
        level: str,
        extract: Extract | None,
        ttl: float | None,
        errors: bool,
        agent: str | None,
    ) -> _Terms:
        name, writer = LevelName.of(level, "level"), checked_agent(agent)
        check_writable(name, writer, "level")
        check_flag("errors", errors)
        if extract is not None and (not callable(extract) or kind_of(extract) != "function"):
            raise ValidationError(
                "extract",
                extract,
                "is not a function of a call and its result",
                "give one that is not asynchronous, or leave it out",
            )
        seconds = _Checked(ttl=ttl).ttl
        found = self._levels._find(self._levels._graph, [name], self._levels._view(None), "level")
        check_own(found[0], "level")
        return _Terms(name, extract or described, seconds, errors, writer)

    def _produces(
        self, function: Callable[..., Any], terms: _Terms, hook: _Hook | None = None
    ) -> Callable[..., Any]:
        """Return a function of the same kind whose calls are remembered."""
        kind = kind_of(function)
        if self._awaiting is not None and kind in ("function", "generator"):
            raise ValidationError(
                "function", function, "is not async", "let a Memory remember its calls"
            )

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Noted:
            return _Noted(self, terms, Call(function, args, kwargs), hook)

        def returned(noted: _Noted, result: Any) -> None:
            if kind in ("function", "coroutine function"):
                noted.result = result

        def yielded(noted: _Noted, item: Any) -> None:
            if len(noted.items) < ITEMS:
                noted.items.append(item)
            noted.result = noted.items

        return decorated(function, kind, begin, returned, yielded)

    def _drafted(self, call: Call, result: Any, terms: _Terms) -> dict[str, Any] | None:
        """Return the arguments of ``add`` for a call; None if there is nothing to remember."""
        try:
            made = terms.extract(call, result)
            return None if made is None else _arguments(made, terms.ttl)
        except Exception as error:  # noqa: BLE001 - it must not break the call
            return {"failed": error}

    def _keep(self, call: Call, given: dict[str, Any], terms: _Terms) -> None:
        """Add the entry of a call, or note that it failed."""
        name = terms.level.name
        token = _keeping.set(True)
        try:
            if "failed" in given:
                raise given["failed"]
            self._levels.add(name, agent=terms.agent, **given)
        except Exception as error:  # noqa: BLE001 - it must not break the call
            _log.warning(
                "a call of %s was not remembered in %s: %s", call.name, name, type(error).__name__
            )
            self._count(name)
        finally:
            _keeping.reset(token)

    def _count(self, level: str) -> None:
        """Count a failure at its level; one that cannot be stored is counted with the next."""
        with self._counting:
            self._uncounted[level] += 1
            count = self._uncounted.pop(level)
        try:
            graph = self._levels._graph
            graph.write("levels.failed", id=level_id(graph.ns, level), count=count)
        except Exception as error:  # noqa: BLE001 - it must not break the call
            _log.info("a failure was not counted: %s", type(error).__name__)
            with self._counting:
                self._uncounted[level] += count


def _renew(producers: Producers) -> None:
    producers._counting = threading.Lock()


class _Noted:
    """Notes one call of a function, and has it remembered at its end."""

    __slots__ = ("_call", "_home", "_hook", "_terms", "items", "result")

    def __init__(self, home: Producers, terms: _Terms, call: Call, hook: _Hook | None) -> None:
        self._home = home
        self._terms = terms
        self._call = call
        self._hook = hook
        self.items: list[Any] = []
        """What a generator yielded."""
        self.result: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        drafted = self._draft(error)
        if drafted is not None:
            self._home._keep(self._call, drafted, self._terms)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        drafted = self._draft(error)
        if drafted is None:
            return
        if self._home._awaiting is None:
            self._home._keep(self._call, drafted, self._terms)
            return
        try:
            await self._home._awaiting.finish(
                lambda: self._home._keep(self._call, drafted, self._terms)
            )
        except Exception as problem:  # noqa: BLE001 - the memory is closed, or inherited
            _log.warning(
                "a call of %s was not remembered in %s: %s",
                self._call.name,
                self._terms.level.name,
                type(problem).__name__,
            )

    def _draft(self, error: BaseException | None) -> dict[str, Any] | None:
        if (self._hook is not None and not self._hook.active) or _keeping.get():
            return None
        if error is not None:
            if not self._terms.errors or not isinstance(error, Exception):
                return None
            call = self._call
            self._call = Call(call.function, call.args, call.kwargs, error)
        return self._home._drafted(self._call, self.result, self._terms)


def _arguments(made: Any, ttl: float | None) -> dict[str, Any]:
    """Return the arguments of ``add`` for what an extractor returned."""
    if isinstance(made, NewEntry):
        given = {name: getattr(made, name) for name in NewEntry.model_fields}
    elif isinstance(made, tuple):
        given = dict(zip(("content", "tags", "metadata"), made, strict=False))
        if not 1 <= len(made) <= 3:
            raise ValidationError(
                "extract", len(made), "returned a tuple that is not (content, tags, metadata)"
            )
    else:
        given = {"content": made}
    if given.get("ttl") is None:
        given["ttl"] = ttl
    return given


def _function(function: Any) -> Callable[..., Any]:
    """Return a function whose calls can be remembered.

    Raises:
        ValidationError: it is none.
    """
    if inspect.isbuiltin(function) or inspect.ismethoddescriptor(function):
        raise ValidationError(
            "function", function, "is a builtin", "write a function that calls it"
        )
    if not callable(function) or isinstance(function, type):
        raise ValidationError("function", function, "is not a function", "decorate a function")
    return function  # type: ignore[no-any-return]


# Hooks on methods


_MISSING: Any = object()


class Watch:
    """Methods whose calls are remembered until the hook is called, or its block ends."""

    def __init__(self, hooks: tuple[_Hook, ...]) -> None:
        self._hooks = hooks

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the methods."""
        return tuple(hook.name for hook in self._hooks)

    def undo(self) -> None:
        """Put back what was there before; a repeated call does nothing."""
        for hook in reversed(self._hooks):
            hook.undo()

    __call__ = undo

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.undo()


class _Hook:
    """An attribute of an object, a class or a module that a producer replaced."""

    def __init__(self, target: object, name: str, home: Producers, terms: _Terms) -> None:
        self.active = True
        self.target = target
        self.name = name
        self.before = vars(target).get(name, _MISSING) if hasattr(target, "__dict__") else _MISSING
        self._set(self._stand_in(home, terms))

    def undo(self) -> None:
        """Put back what was there; if another hook came on top, when that is gone."""
        self.active = False
        while (hook := _hook_at(self.target, self.name)) is not None and not hook.active:
            if hook.before is _MISSING:
                delattr(self.target, self.name)
            else:
                setattr(self.target, self.name, hook.before)

    def _stand_in(self, home: Producers, terms: _Terms) -> Any:
        if not isinstance(self.target, type):
            made = home._produces(getattr(self.target, self.name), terms, self)
            setattr(made, _HOOK, self)
            return made
        there = inspect.getattr_static(self.target, self.name)
        wrapped = isinstance(there, staticmethod | classmethod)
        made = home._produces(there.__func__ if wrapped else there, terms, self)
        setattr(made, _HOOK, self)
        return type(there)(made) if wrapped else made

    def _set(self, value: Any) -> None:
        try:
            setattr(self.target, self.name, value)
        except (AttributeError, TypeError):
            raise ValidationError(
                "target",
                self.target,
                f"does not let its attribute {self.name!r} be set",
                "watch its class",
            ) from None


def _hook_at(target: object, name: str) -> _Hook | None:
    """Return the hook behind an attribute of an object itself."""
    there = vars(target).get(name) if hasattr(target, "__dict__") else None
    if isinstance(there, staticmethod | classmethod):
        there = there.__func__
    return getattr(there, _HOOK, None)


def _names(target: object, pattern: str) -> list[str]:
    """Return the names of methods that fit a pattern, in order.

    Raises:
        ValidationError: there are none that can be watched.
    """
    named = [
        name
        for name in sorted(set(dir(target)))
        if fnmatch.fnmatchcase(name, pattern)
        and (not name.startswith("_") or pattern.startswith("_"))
        and not (name.startswith("__") and name.endswith("__"))
    ]
    fitting = [name for name in named if _is_method(inspect.getattr_static(target, name))]
    if not fitting:
        what = (
            f"fits only what is no function written in Python: {', '.join(named[:5])}"
            if named
            else f"fits no method of {getattr(target, '__name__', type(target).__name__)}"
        )
        raise ValidationError("pattern", pattern, what, "give the name of a method, or dispatch*")
    return fitting


def _is_method(attribute: Any) -> bool:
    """Return whether an attribute is a function of Python, or a method made of one."""
    if isinstance(attribute, staticmethod | classmethod):
        attribute = attribute.__func__
    return isinstance(attribute, FunctionType | MethodType)
