"""Producers: functions whose calls become entries of a level, without a change of their code."""

from __future__ import annotations

import contextlib
import fnmatch
import gc
import inspect
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from types import FunctionType
from typing import Any, TypeVar

from pydantic import BaseModel, JsonValue

from graphmem.errors import ValidationError, has_surrogate, shown
from graphmem.graph.arguments import check_flag, check_text, checked_agent
from graphmem.graph.decorating import Awaiting, decorated, kind_of
from graphmem.ids import level_id
from graphmem.levels.entries import Entries
from graphmem.levels.topology import check_takes_entries, existing
from graphmem.models.fields import checked
from graphmem.models.levels import NewEntry, Seconds

_log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])
Extract = Callable[["Call", Any], Any]  # takes a call and its result: :meth:`Producers.remember`

ITEMS = 10_000  # most items of a generator that an extractor gets
MOST_VALUES = 100  # most values of a list or dict that the entry of a call shows
LONGEST = 10_000  # most characters of a text that the entry of a call shows
_DEEPEST = 8
_MISSING: Any = object()
_keeping: ContextVar[bool] = ContextVar("keeping", default=False)
"""Whether a producer is at work here; the calls that it makes are not remembered."""


@dataclass(frozen=True)
class Call:
    """A call of a function, when it is over."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    error: Exception | None = None
    """What it raised; None if it returned."""

    @property
    def name(self) -> str:
        """The name of the function, with its class: ``Dispatcher.dispatch``."""
        named = getattr(self.function, "__qualname__", None) or type(self.function).__qualname__
        return str(named).rpartition("<locals>.")[2]

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """The arguments by name, with defaults, without ``self`` and ``cls``."""
        try:
            bound = inspect.signature(self.function).bind(*self.args, **self.kwargs)
        except (TypeError, ValueError):  # it does not take them, or its signature is unknown
            return {str(place): value for place, value in enumerate(self.args)} | dict(self.kwargs)
        bound.apply_defaults()
        first = next(iter(bound.signature.parameters), "")
        return {
            name: value
            for name, value in bound.arguments.items()
            if name != first or name not in ("self", "cls")
        }


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
                metadata, a ``NewEntry`` or a list of these, or None to remember nothing. Default:
                the name, the arguments and the result, with the tag ``call:NAME``.
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
        return _Producer(self._levels, self._awaiting, level, extract, ttl, errors, agent).wrap

    def watch(
        self,
        target: object,
        pattern: str | None = None,
        *,
        level: str,
        extract: Extract | None = None,
        ttl: float | None = None,
        errors: bool = False,
        agent: str | None = None,
    ) -> Watch:
        """Remember the calls of methods as :meth:`remember` does; return a handle that undoes it.

        To undo it, call the handle, or use it in a ``with`` block. Undo the latest first: one that
        lies under another one remembers nothing any more, but stays in its place.

        The target is an object, to watch its methods; a class, to watch those of all its objects; a
        module, to watch its functions; or a dotted name, ``ActionDispatcher.dispatch``: the methods
        of all classes of that name, whose objects may come later. The pattern has the names of the
        methods, unless they are in the dotted name; ``*`` stands for any letters. Names that begin
        with ``_`` match only a pattern that begins with it. Names of Python, such as ``__init__``,
        never match. The other arguments are those of :meth:`remember`.

        Raises:
            ValidationError: no method written in Python matches; else as :meth:`remember`.
        """
        producer = _Producer(self._levels, self._awaiting, level, extract, ttl, errors, agent)
        targets = [target]
        if isinstance(target, str) and pattern is None:
            name, _, pattern = target.rpartition(".")
            targets = _find_classes(name)
        check_text("pattern", pattern)
        return Watch(producer, targets, str(pattern))


@dataclass(slots=True)
class _Producer:
    levels: Entries
    awaiting: Awaiting | None
    level: str
    extract: Extract | None
    ttl: float | None
    errors: bool
    agent: str | None

    def __post_init__(self) -> None:
        """Check the arguments, and that the level takes entries."""
        self.level = self.levels._writable(self.level, self.agent, "level").name
        check_flag("errors", self.errors)
        extract = self.extract
        if extract is not None and (not callable(extract) or kind_of(extract) != "function"):
            problem = "is not a function of a call and its result"
            remedy = "give one that is not asynchronous, or leave it out"
            raise ValidationError("extract", extract, problem, remedy)
        self.agent = checked_agent(self.agent)
        self.ttl = None if self.ttl is None else checked("ttl", self.ttl, Seconds)
        check_takes_entries(existing(self.levels._graph, [self.level])[0], "level")

    def wrap(self, function: Any, watch: Watch | None = None) -> Any:
        """Return a function of the same kind whose calls are remembered."""
        if isinstance(function, staticmethod | classmethod):
            return type(function)(self.wrap(function.__func__, watch))
        native = inspect.isbuiltin(function) or inspect.ismethoddescriptor(function)
        if native or not callable(function) or isinstance(function, type):
            problem = "is not a function in Python"
            raise ValidationError("function", function, problem, "decorate one that calls it")
        kind = kind_of(function)
        if self.awaiting is not None and kind in ("function", "generator"):
            remedy = "let a Memory remember its calls"
            raise ValidationError("function", function, "is not async", remedy)
        yields = kind.endswith("generator")

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Note:
            return _Note(self, Call(function, args, kwargs), watch, [] if yields else None)

        return decorated(function, kind, begin, _Note.returned, _Note.yielded)

    def keep(self, call: Call, entries: list[dict[str, Any]] | Exception) -> None:
        """Add the entries of a call, or log and count that this failed."""
        token = _keeping.set(True)
        try:
            if isinstance(entries, Exception):
                raise entries
            for entry in entries:
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
class _Note(AbstractContextManager["_Note"], AbstractAsyncContextManager["_Note"]):
    """Notes one call of a function, and has it remembered at its end."""

    producer: _Producer
    call: Call
    watch: Watch | None
    result: Any  # what the function returned, or the list of what it yielded

    def returned(self, result: Any) -> None:
        """Note a result, unless it is that of a generator."""
        if self.result is None:
            self.result = result

    def yielded(self, item: Any) -> None:
        """Note an item of a generator."""
        if len(self.result) < ITEMS:
            self.result.append(item)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if entries := self._entries(error):
            self.producer.keep(self.call, entries)

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        awaiting = self.producer.awaiting
        if awaiting is None:
            self.__exit__(kind, error, trace)
        elif entries := self._entries(error):
            try:
                await awaiting.finish(lambda: self.producer.keep(self.call, entries))
            except Exception as problem:  # noqa: BLE001 - the memory is closed, or inherited
                self.producer.warn(self.call, problem)

    def _entries(self, error: BaseException | None) -> list[dict[str, Any]] | Exception:
        """Return the arguments of ``add`` for each entry, or what the extractor raised."""
        if (self.watch is not None and not self.watch.active) or _keeping.get():
            return []
        if error is not None:
            if not self.producer.errors or not isinstance(error, Exception):
                return []
            self.call = replace(self.call, error=error)
        try:
            answer = (self.producer.extract or describe_call)(self.call, self.result)
            several = type(answer) is list and all(isinstance(one, NewEntry) for one in answer)
            answers = answer if several else [] if answer is None else [answer]
            return [_arguments(one, self.producer.ttl) for one in answers]
        except Exception as problem:  # noqa: BLE001 - it must not break the call
            return problem


def _arguments(answer: Any, ttl: float | None) -> dict[str, Any]:
    """Return the arguments of ``add`` for what an extractor returned."""
    if isinstance(answer, NewEntry):
        arguments = dict(answer)
    elif not isinstance(answer, tuple):
        arguments = {"content": answer}
    elif 1 <= len(answer) <= 3:
        arguments = dict(zip(("content", "tags", "metadata"), answer, strict=False))
    else:
        problem = "returned a tuple that is not (content, tags, metadata)"
        raise ValidationError("extract", len(answer), problem)
    return arguments | {"ttl": ttl if arguments.get("ttl") is None else arguments["ttl"]}


class Watch(AbstractContextManager["Watch"]):
    """Methods whose calls are remembered until it is called, or its block ends."""

    def __init__(self, producer: _Producer, targets: Sequence[object], pattern: str) -> None:
        names = [(target, name) for target in targets for name in _method_names(target, pattern)]
        if not names:
            problem = "fits no method that is written in Python"
            raise ValidationError("pattern", pattern, problem, "name a method, or dispatch*")
        self.names = tuple(dict.fromkeys(name for _, name in names))
        """The names of the methods."""
        self.active = True
        """Whether calls are remembered."""
        with ExitStack() as undo:
            undo.callback(setattr, self, "active", False)
            for target, name in names:
                undo.callback(self._replace(producer, target, name))
            self._undo = undo.pop_all()

    def __call__(self) -> None:
        """Put back what was there before; a repeated call does nothing."""
        self._undo.close()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self()

    def _replace(self, producer: _Producer, target: Any, name: str) -> Callable[[], None]:
        """Put what a producer makes of a method in its place; return what undoes it."""
        before = getattr(target, "__dict__", {}).get(name, _MISSING)
        there: Any = (inspect.getattr_static if isinstance(target, type) else getattr)(target, name)
        hook = producer.wrap(there, self)
        try:
            setattr(target, name, hook)
        except (AttributeError, TypeError):
            problem = f"does not let its attribute {name!r} be set"
            raise ValidationError("target", target, problem, "watch its class") from None

        def put_back() -> None:
            if vars(target).get(name) is hook:  # else another one lies over it
                if before is _MISSING:
                    delattr(target, name)
                else:
                    setattr(target, name, before)

        return put_back


def _find_classes(name: str) -> list[object]:
    """Return the classes whose dotted name ends so; none is an error."""
    there = [
        one
        for one in gc.get_objects()
        if issubclass(type(one), type)  # a proxy could say that it is one
        and f".{one.__module__}.{getattr(one, '__qualname__', '')}".endswith(f".{name}")
    ]
    if not name or not there:
        remedy = "give CLASS.METHOD of a class that is defined, as in ActionDispatcher.dispatch"
        raise ValidationError("target", name, "is the name of no class", remedy)
    return there


def _method_names(target: object, pattern: str) -> Iterator[str]:
    """Yield the names of methods that fit a pattern, in order."""
    hidden = "__" if pattern.startswith("_") else "_"
    for name in sorted(set(dir(target))):
        if fnmatch.fnmatchcase(name, pattern) and not name.startswith(hidden):
            there = inspect.getattr_static(target, name)
            if isinstance(getattr(there, "__func__", there), FunctionType):
                yield name


def describe_call(call: Call, result: Any) -> tuple[JsonValue, tuple[str, ...]]:
    """Return the content and the tags of the entry for a call, if there is no extractor."""
    content: dict[str, JsonValue] = {"call": call.name, "arguments": _to_json(call.arguments)}
    tag = f"call:{call.name[:900]}"
    if call.error is None:
        return content | {"result": _to_json(result)}, (tag,)
    failure = shown(f"{type(call.error).__name__}: {call.error}", 1_000)
    return content | {"error": failure.strip("'\"")}, (tag, "failed")


def _to_json(value: Any, depth: int = 0) -> JsonValue:
    """Return a value as JSON can hold it: other things become text, long texts are cut."""
    if isinstance(value, str) and not has_surrogate(value):
        return str(value[:LONGEST])
    whole = isinstance(value, int) and abs(value) < 2**63
    if value is None or whole or (isinstance(value, float) and math.isfinite(value)):
        return value  # type: ignore[no-any-return]
    if depth < _DEEPEST:
        if isinstance(value, BaseModel):
            value = dict(value)
        if isinstance(value, Mapping):
            pairs = list(value.items())[:MOST_VALUES]
            return {str(_to_json(str(key))): _to_json(item, depth + 1) for key, item in pairs}
        if isinstance(value, list | tuple | set | frozenset):
            return [_to_json(item, depth + 1) for item in list(value)[:MOST_VALUES]]
    return shown(value)
