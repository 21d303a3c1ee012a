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
from dataclasses import dataclass, field, replace
from types import FunctionType, MethodType
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from graphmem.errors import ValidationError
from graphmem.forks import in_child
from graphmem.graph.arguments import check_flag, check_text, checked_agent
from graphmem.graph.decorating import decorated, kind_of
from graphmem.ids import level_id
from graphmem.levels.base import check_takes_entries, check_writable
from graphmem.levels.entries import Entries
from graphmem.models.calls import Call, describe_call
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


class _Seconds(Input):
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
        self._renew()
        in_child(self, Producers._renew)

    def _renew(self) -> None:
        self._counting = threading.Lock()

    def remember(
        self,
        level: str,
        *,
        extract: Extract | None = None,
        ttl: float | None = None,
        errors: bool = False,
        agent: str | None = None,
    ) -> Callable[[F], F]:
        """Return a decorator that stores each call of a function as an entry of a level.

        It takes functions, coroutine functions, generators, asynchronous generators, methods, and
        static and class methods. The result of a generator is the list of what it yielded (at most
        10,000 items). A generator that its caller leaves early is not remembered, nor is a
        cancelled call.

        An error with the entry never breaks the call. It is logged without contents, and counted at
        the level (``levels.statistics().failed``).

        Args:
            level: the name of the level.
            extract: takes the call (``name``, ``args``, ``kwargs``, ``arguments`` by name, and
                ``error``) and the result. It returns a content, a tuple of content, tags and
                metadata, a ``NewEntry``, or None to remember nothing. Default: the name, the
                arguments and the result, with the tag ``call:NAME``.
            ttl: seconds that entries stay, unless the extractor says it; default: the level's.
            errors: also remember calls that raise, with the ``error`` and the result None. The
                error goes on.
            agent: who writes; an agent may write its own levels and those for all. None: anybody.

        Raises:
            NotFoundError: there is no such level.
            ValidationError: an argument is wrong, the level is a view, or the decorated object is a
                builtin or no function.
            ScopeError: it is the level of another agent.
        """
        terms = self._terms(level, extract=extract, ttl=ttl, errors=errors, agent=agent)

        def decorate(function: F) -> F:
            if isinstance(function, staticmethod | classmethod):
                return type(function)(self._produce(_checked(function.__func__), terms))
            made: Any = self._produce(_checked(function), terms)
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
        """Remember the calls of methods as :meth:`remember` does; return a handle that undoes it.

        To undo it, call the handle, or use it in a ``with`` block. You can undo several in any
        order; after the last one, everything is as it was before.

        Args:
            target: an object, to watch its methods; a class, to watch those of all its objects; or
                a module, to watch its functions.
            pattern: the names of the methods; ``*`` stands for any letters. Names that begin with
                ``_`` match only a pattern that begins with it. Names of Python, such as
                ``__init__``, never match.
            level: the name of the level.
            extract: as in :meth:`remember`.
            ttl: as in :meth:`remember`.
            errors: as in :meth:`remember`.
            agent: as in :meth:`remember`.

        Raises:
            NotFoundError: there is no such level.
            ValidationError: an argument is wrong, or no method written in Python matches.
            ScopeError: it is the level of another agent.
        """
        terms = self._terms(level, extract=extract, ttl=ttl, errors=errors, agent=agent)
        check_text("pattern", pattern)
        hooks: list[_Hook] = []
        try:
            for name in _method_names(target, pattern):
                hooks.append(_Hook(target, name))
                hooks[-1].replace(lambda function, hook: self._produce(function, terms, hook))
        except BaseException:
            Watch(tuple(hooks)).undo()
            raise
        return Watch(tuple(hooks))

    def _terms(
        self,
        level: str,
        extract: Extract | None = None,
        ttl: float | None = None,
        errors: bool = False,
        agent: str | None = None,
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
        seconds = _Seconds(ttl=ttl).ttl
        [row] = self._levels._find(self._levels._graph, [name], self._levels._view(None), "level")
        check_takes_entries(name.name, row["holds"], "level")
        return _Terms(name, extract or describe_call, seconds, errors, writer)

    def _produce(
        self, function: Callable[..., Any], terms: _Terms, hook: _Hook | None = None
    ) -> Callable[..., Any]:
        """Return a function of the same kind whose calls are remembered."""
        kind = kind_of(function)
        if self._awaiting is not None and kind in ("function", "generator"):
            raise ValidationError(
                "function", function, "is not async", "let a Memory remember its calls"
            )

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Note:
            return _Note(self._keep, self._awaiting, terms, Call(function, args, kwargs), hook)

        def set_result(note: _Note, result: Any) -> None:
            if kind in ("function", "coroutine function"):
                note.result = result

        def add_item(note: _Note, item: Any) -> None:
            if len(note.items) < ITEMS:
                note.items.append(item)
            note.result = note.items

        return decorated(function, kind, begin, set_result, add_item)

    def _keep(self, call: Call, entry: dict[str, Any] | Exception, terms: _Terms) -> None:
        """Add the entry of a call, or log and count that this failed."""
        name = terms.level.name
        token = _keeping.set(True)
        try:
            if isinstance(entry, Exception):
                raise entry
            self._levels.add(name, agent=terms.agent, **entry)
        except Exception as error:  # noqa: BLE001 - it must not break the call
            _warn(call, terms, error)
            self._count_failure(name)
        finally:
            _keeping.reset(token)

    def _count_failure(self, level: str) -> None:
        """Count a failure at its level; one that cannot be stored is counted with the next."""
        with self._counting:
            self._uncounted[level] += 1
            count = self._uncounted.pop(level)
        try:
            graph = self._levels._graph
            graph.write("levels.count", id=level_id(graph.ns, level), failed=count)
        except Exception as error:  # noqa: BLE001 - it must not break the call
            _log.info("a failure was not counted: %s", type(error).__name__)
            with self._counting:
                self._uncounted[level] += count


def _warn(call: Call, terms: _Terms, error: Exception) -> None:
    _log.warning(
        "a call of %s was not remembered in %s: %s",
        call.name,
        terms.level.name,
        type(error).__name__,
    )


@dataclass(slots=True)
class _Note:
    """Notes one call of a function, and has it remembered at its end."""

    keep: Callable[[Call, dict[str, Any] | Exception, _Terms], None]
    awaiting: Awaiting | None
    terms: _Terms
    call: Call
    hook: _Hook | None
    items: list[Any] = field(default_factory=list)
    """What a generator yielded."""
    result: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if (entry := self._entry(error)) is not None:
            self.keep(self.call, entry, self.terms)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self.awaiting is None:
            self.__exit__(kind, error, trace)
        elif (entry := self._entry(error)) is not None:
            try:
                await self.awaiting.finish(lambda: self.keep(self.call, entry, self.terms))
            except Exception as problem:  # noqa: BLE001 - the memory is closed, or inherited
                _warn(self.call, self.terms, problem)

    def _entry(self, error: BaseException | None) -> dict[str, Any] | Exception | None:
        """Return the arguments of ``add``, what the extractor raised, or None for no entry."""
        if (self.hook is not None and not self.hook.active) or _keeping.get():
            return None
        if error is not None:
            if not self.terms.errors or not isinstance(error, Exception):
                return None
            self.call = replace(self.call, error=error)
        try:
            made = self.terms.extract(self.call, self.result)
            return None if made is None else _arguments(made, self.terms.ttl)
        except Exception as problem:  # noqa: BLE001 - it must not break the call
            return problem


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


def _checked(function: Any) -> Callable[..., Any]:
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

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.undo()


class _Hook:
    """An attribute of an object, a class or a module that a producer replaced."""

    def __init__(self, target: object, name: str) -> None:
        self.active = True
        self.target = target
        self.name = name
        self.before = vars(target).get(name, _MISSING) if hasattr(target, "__dict__") else _MISSING

    def replace(self, produce: Callable[[Callable[..., Any], _Hook], Callable[..., Any]]) -> None:
        """Put in its place what ``produce`` makes of it.

        Raises:
            ValidationError: it cannot be set.
        """
        there: Any
        if isinstance(self.target, type):
            there = inspect.getattr_static(self.target, self.name)
        else:
            there = getattr(self.target, self.name)
        kind = type(there) if isinstance(there, staticmethod | classmethod) else None
        made = produce(there.__func__ if kind else there, self)
        setattr(made, _HOOK, self)
        try:
            setattr(self.target, self.name, kind(made) if kind else made)
        except (AttributeError, TypeError):
            raise ValidationError(
                "target",
                self.target,
                f"does not let its attribute {self.name!r} be set",
                "watch its class",
            ) from None

    def undo(self) -> None:
        """Put back what was there; if another hook came on top, when that is gone."""
        self.active = False
        while (hook := _hook_at(self.target, self.name)) is not None and not hook.active:
            if hook.before is _MISSING:
                delattr(self.target, self.name)
            else:
                setattr(self.target, self.name, hook.before)


def _hook_at(target: object, name: str) -> _Hook | None:
    """Return the hook behind an attribute of an object itself."""
    there = vars(target).get(name) if hasattr(target, "__dict__") else None
    if isinstance(there, staticmethod | classmethod):
        there = there.__func__
    return getattr(there, _HOOK, None)


def _method_names(target: object, pattern: str) -> list[str]:
    """Return the names of methods that fit a pattern, in order.

    Raises:
        ValidationError: there are none that can be watched.
    """
    names = [
        name
        for name in sorted(set(dir(target)))
        if fnmatch.fnmatchcase(name, pattern)
        and (not name.startswith("_") or pattern.startswith("_"))
        and not (name.startswith("__") and name.endswith("__"))
    ]
    fitting = [name for name in names if _is_method(inspect.getattr_static(target, name))]
    if not fitting:
        what = (
            f"fits only what is no function written in Python: {', '.join(names[:5])}"
            if names
            else f"fits no method of {getattr(target, '__name__', type(target).__name__)}"
        )
        raise ValidationError("pattern", pattern, what, "give the name of a method, or dispatch*")
    return fitting


def _is_method(attribute: Any) -> bool:
    """Return whether an attribute is a function of Python, or a method made of one."""
    if isinstance(attribute, staticmethod | classmethod):
        attribute = attribute.__func__
    return isinstance(attribute, FunctionType | MethodType)
