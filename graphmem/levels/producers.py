"""Producers: functions whose calls become entries of a level, without a change of their code.

A producer never breaks a call. It logs an error of its own without contents, and counts it at the
level.
"""

from __future__ import annotations

import contextlib
import fnmatch
import inspect
import logging
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from types import FunctionType, MethodType
from typing import Any, Protocol, Self, TypeVar

from graphmem.errors import ValidationError
from graphmem.graph.arguments import check_flag, check_text, checked_agent
from graphmem.graph.decorating import decorated, kind_of
from graphmem.ids import level_id
from graphmem.levels.base import check_takes_entries, check_writable
from graphmem.levels.entries import Entries
from graphmem.models.calls import Call, describe_call
from graphmem.models.flow import Timing
from graphmem.models.levels import LevelName, NewEntry

_log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")
Extract = Callable[[Call, Any], Any]
"""Takes a call and its result; returns content, tags and metadata, or None."""

ITEMS = 10_000
"""Most items of a generator that an extractor gets."""
_HOOK = "__graphmem_hook__"
_MISSING: Any = object()
_keeping: ContextVar[bool] = ContextVar("keeping", default=False)
"""Whether a producer is at work here; the calls that it makes are not remembered."""


class Awaiting(Protocol):
    """Runs calls in other threads."""

    async def finish(self, call: Callable[[], R]) -> R:
        """Return what a call returns; it is done even if somebody cancels meanwhile."""


class Producers:
    """Makes producers for the levels of one namespace."""

    def __init__(self, levels: Entries, awaiting: Awaiting | None = None) -> None:
        self._levels = levels
        self._awaiting = awaiting

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
        producer = self._producer(level, extract, ttl, errors, agent)

        def decorate(function: Any) -> Any:
            if isinstance(function, staticmethod | classmethod):
                return type(function)(producer.wrap(function.__func__))
            return producer.wrap(function)

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
        producer = self._producer(level, extract, ttl, errors, agent)
        check_text("pattern", pattern)
        watch = Watch(target, _method_names(target, pattern))
        try:
            for hook in watch._hooks:
                hook.replace(producer)
        except BaseException:
            watch()
            raise
        return watch

    def _producer(
        self,
        level: str,
        extract: Extract | None,
        ttl: float | None,
        errors: bool,
        agent: str | None,
    ) -> _Producer:
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
        seconds = None if ttl is None else Timing(ttl=ttl).ttl
        levels = self._levels
        [row] = levels._find(levels._graph, [name], levels._view(None), "level")
        check_takes_entries(row, "level")
        return _Producer(
            levels, self._awaiting, name.name, extract or describe_call, seconds, errors, writer
        )


@dataclass(frozen=True, slots=True)
class _Producer:
    """Remembers the calls of functions in a level."""

    levels: Entries
    awaiting: Awaiting | None
    level: str
    extract: Extract
    ttl: float | None
    errors: bool
    agent: str | None

    def wrap(self, function: Any, hook: _Hook | None = None) -> Callable[..., Any]:
        """Return a function of the same kind whose calls are remembered."""
        if (
            inspect.isbuiltin(function)
            or inspect.ismethoddescriptor(function)
            or not callable(function)
            or isinstance(function, type)
        ):
            raise ValidationError(
                "function", function, "is not a function in Python", "decorate one that calls it"
            )
        kind = kind_of(function)
        if self.awaiting is not None and kind in ("function", "generator"):
            raise ValidationError(
                "function", function, "is not async", "let a Memory remember its calls"
            )

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Note:
            return _Note(self, Call(function, args, kwargs), hook)

        def set_result(note: _Note, result: Any) -> None:
            note.result = note.items if kind.endswith("generator") else result

        def add_item(note: _Note, item: Any) -> None:
            if len(note.items) < ITEMS:
                note.items.append(item)

        return decorated(function, kind, begin, set_result, add_item)

    def keep(self, call: Call, entry: dict[str, Any] | Exception) -> None:
        """Add the entry of a call, or log and count that this failed."""
        token = _keeping.set(True)
        try:
            if isinstance(entry, Exception):
                raise entry
            self.levels.add(self.level, agent=self.agent, **entry)
        except Exception as error:  # noqa: BLE001 - it must not break the call
            self.warn(call, error)
            graph = self.levels._graph
            with contextlib.suppress(Exception):
                graph.write("levels.count", id=level_id(graph.ns, self.level), failed=1)
        finally:
            _keeping.reset(token)

    def warn(self, call: Call, error: Exception) -> None:
        """Log that a call was not remembered, without contents."""
        kind = type(error).__name__
        _log.warning("a call of %s was not remembered in %s: %s", call.name, self.level, kind)


@dataclass(slots=True)
class _Note:
    """Notes one call of a function, and has it remembered at its end."""

    producer: _Producer
    call: Call
    hook: _Hook | None
    items: list[Any] = field(default_factory=list)
    """What a generator yielded."""
    result: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if (entry := self._entry(error)) is not None:
            self.producer.keep(self.call, entry)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        awaiting = self.producer.awaiting
        if awaiting is None:
            self.__exit__(kind, error, trace)
        elif (entry := self._entry(error)) is not None:
            try:
                await awaiting.finish(lambda: self.producer.keep(self.call, entry))
            except Exception as problem:  # noqa: BLE001 - the memory is closed, or inherited
                self.producer.warn(self.call, problem)

    def _entry(self, error: BaseException | None) -> dict[str, Any] | Exception | None:
        """Return the arguments of ``add``, what the extractor raised, or None for no entry."""
        if (self.hook is not None and not self.hook.active) or _keeping.get():
            return None
        if error is not None:
            if not self.producer.errors or not isinstance(error, Exception):
                return None
            self.call = replace(self.call, error=error)
        try:
            answer = self.producer.extract(self.call, self.result)
            return None if answer is None else _arguments(answer, self.producer.ttl)
        except Exception as problem:  # noqa: BLE001 - it must not break the call
            return problem


def _arguments(answer: Any, ttl: float | None) -> dict[str, Any]:
    """Return the arguments of ``add`` for what an extractor returned."""
    if isinstance(answer, NewEntry):
        arguments = dict(answer)
    elif isinstance(answer, tuple):
        arguments = dict(zip(("content", "tags", "metadata"), answer, strict=False))
        if not 1 <= len(answer) <= 3:
            raise ValidationError(
                "extract", len(answer), "returned a tuple that is not (content, tags, metadata)"
            )
    else:
        arguments = {"content": answer}
    return arguments | {"ttl": ttl if arguments.get("ttl") is None else arguments["ttl"]}


class Watch:
    """Methods whose calls are remembered until it is called, or its block ends."""

    def __init__(self, target: object, names: list[str]) -> None:
        self.names = tuple(names)
        """The names of the methods."""
        self._hooks = [_Hook(target, name) for name in names]

    def __call__(self) -> None:
        """Put back what was there before; a repeated call does nothing."""
        for hook in reversed(self._hooks):
            hook.undo()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self()


class _Hook:
    """An attribute of an object, a class or a module that a producer replaced."""

    def __init__(self, target: object, name: str) -> None:
        self.active = True
        self.target = target
        self.name = name
        self.before = vars(target).get(name, _MISSING) if hasattr(target, "__dict__") else _MISSING

    def replace(self, producer: _Producer) -> None:
        """Put in its place what a producer makes of it."""
        look = inspect.getattr_static if isinstance(self.target, type) else getattr
        there: Any = look(self.target, self.name)
        kind = type(there) if isinstance(there, staticmethod | classmethod) else None
        wrapped = producer.wrap(there.__func__ if kind else there, self)
        setattr(wrapped, _HOOK, self)
        try:
            setattr(self.target, self.name, kind(wrapped) if kind else wrapped)
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
    return getattr(getattr(there, "__func__", there), _HOOK, None)


def _method_names(target: object, pattern: str) -> list[str]:
    """Return the names of methods that fit a pattern, in order; none is an error."""
    names = [
        name
        for name in sorted(set(dir(target)))
        if fnmatch.fnmatchcase(name, pattern)
        and (not name.startswith("_") or pattern.startswith("_"))
        and not (name.startswith("__") and name.endswith("__"))
    ]
    functions = []
    for name in names:
        there = inspect.getattr_static(target, name)
        bare = there.__func__ if isinstance(there, staticmethod | classmethod) else there
        if isinstance(bare, FunctionType | MethodType):
            functions.append(name)
    if not functions:
        problem = "fits no method that is written in Python"
        raise ValidationError("pattern", pattern, problem, "name a method, or dispatch*")
    return functions
