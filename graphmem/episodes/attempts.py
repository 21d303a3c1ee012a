"""Attempts: the work of an agent on a task, from beginning to end, becomes one episode.

An attempt is in memory while it runs, and is written once, at its end. Other parts (the context of
a task, a choice) are passed in.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from graphmem.episodes.abandoned import abandon, abandoned_id
from graphmem.episodes.learning import Learner
from graphmem.episodes.recording import Ended, Recording, State, Terms
from graphmem.errors import NotFoundError, ValidationError
from graphmem.graph.arguments import check_flag, check_function
from graphmem.graph.decorating import decorated, kind_of, running
from graphmem.graph.graph import Graph
from graphmem.models import Episode
from graphmem.models.choices import Choice, Explore

_log = logging.getLogger(__name__)

R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class Attempts:
    """Begins the attempts of one namespace, and stores them at their end."""

    def __init__(
        self,
        graph: Graph,
        learner: Learner,
        context: Callable[..., str],
        choose: Callable[..., Choice],
    ) -> None:
        self.graph = graph
        self.context = context
        self.choose = choose
        self._learner = learner
        self._late: list[threading.Thread] = []

    def open(self, terms: Terms) -> Attempt:
        """Return a new attempt.

        Raises:
            ValidationError: a field is wrong.
        """
        if not callable(terms.task):
            checked = Episode(**terms.common(), strategy=(), success=True)
            terms = replace(terms, task=checked.task)
        if terms.started_at is not None:
            began = Episode(task="-", strategy=(), success=True, started_at=terms.started_at)
            terms = replace(terms, started_at=began.started_at)
        check_flag("strict", terms.strict)
        if type(terms.max_tokens) is not int or terms.max_tokens < 1:
            raise ValidationError("max_tokens", terms.max_tokens, "must be a whole number from 1")
        check_function("judge", terms.judge)
        return Attempt(self, terms)

    def current(self) -> Attempt:
        """Return the attempt of the innermost decorated function of this memory that runs here.

        Raises:
            NotFoundError: there is none.
        """
        for attempt in reversed(running()):
            if isinstance(attempt, _Attempt) and attempt._home is self:
                return Attempt(self, attempt._terms, attempt._state)
        raise NotFoundError(
            "no function that memory.attempt decorates runs here; in a with block, use the attempt "
            "that it gives"
        )

    def store(self, ended: Ended) -> str:
        """Learn an episode, or store an abandoned attempt; return its id."""
        if isinstance(ended, Episode):
            return self._learner.learn(ended).episode_id
        _, refused = abandon(self.graph, [ended])
        if refused:
            raise refused[0][1]
        return abandoned_id(self.graph.ns, ended.key)

    def store_later(self, ended: Ended, state: State) -> None:
        """Do as :meth:`store` in a separate thread, for which :meth:`close` waits."""

        def store() -> None:
            state.episode_id = self.store(ended)

        thread = threading.Thread(target=store, name="graphmem-attempt")
        self._late = [*(one for one in self._late if one.is_alive()), thread]
        thread.start()

    def close(self) -> None:
        """Wait for what is stored later."""
        late, self._late = self._late, []
        for thread in late:
            if thread is not threading.current_thread():
                thread.join()


class _Attempt(Recording):
    """What attempts of both kinds of memories share."""

    def __init__(self, home: Attempts, terms: Terms, state: State | None = None) -> None:
        super().__init__(home.graph, terms, state or State())
        self._home = home

    def _again(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Self:
        """Return a new attempt on the same terms, for the arguments of a call."""
        task = self._terms.task
        if callable(task):
            task = task(*args, **kwargs)
            if callable(task):
                raise ValidationError("task", task, "must be a text")
        made = self._like(self._home.open(replace(self._terms, task=task)))
        made._decorates = True
        return made

    def _like(self, opened: Attempt) -> Self:
        return type(self)(opened._home, opened._terms)


class Attempt(_Attempt):
    """An attempt at a task; at its end one episode is learned.

    Use it in a ``with`` (or ``async with``) block, or as a decorator. All threads may use it.
    """

    @property
    def context(self) -> str:
        """What is known for the task, for a system prompt: as :meth:`Memory.context`, read once."""
        return _context_of(self)

    def choose(
        self,
        candidates: Sequence[str] | None = None,
        *,
        explore: Explore = "thompson",
        epsilon: float = 0.1,
        width: float = 1.0,
        seed: int | None = None,
    ) -> Choice:
        """Choose the strategy to try, as :meth:`Memory.choose` does, and note it as used.

        The episode keeps the probability and the way of the choice. If you use another strategy
        after all, say so: ``attempt.used(StrategyUse(choice.text, applied=False), "other")``.

        Args:
            candidates: texts or ids of strategies; default: what the memory finds.
            explore: "thompson", "greedy", "ucb" or "epsilon".
            epsilon: in [0, 1], for "epsilon".
            width: from 0, for "ucb".
            seed: a whole number from 0, which repeats a choice; None: a new random choice.

        Raises:
            NotFoundError: no candidates are given, and the memory has none.
            ValidationError: an argument is wrong, or the attempt does not run.
        """
        return _chosen(self, candidates, explore=explore, epsilon=epsilon, width=width, seed=seed)

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with _winning(error):
            ended = self._end(error)
            if isinstance(error, GeneratorExit) and _within_store():
                self._home.store_later(ended, self._state)
            else:
                self._state.episode_id = self._home.store(ended)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)

    def __call__(self, function: F) -> F:
        """Make every call of a function an attempt.

        Raises:
            ValidationError: it is not a function.
        """
        kind = kind_of(_checked(function))
        return decorated(function, kind, self._again, _Attempt._judge)  # type: ignore[return-value]


class Awaiting(Protocol):
    """Runs calls in other threads."""

    async def read(self, call: Callable[[], R]) -> R:
        """Return what a reading call returns."""

    async def finish(self, call: Callable[[], R]) -> R:
        """Return what a call returns; it is done even if somebody cancels meanwhile."""


class AsyncAttempt(_Attempt):
    """An attempt of an :class:`AsyncMemory`; at its end one episode is learned.

    Use it in an ``async with`` block, or as a decorator of coroutine functions and asynchronous
    generators. What reads or writes is awaited: ``await attempt.context``.
    """

    def __init__(
        self, home: Attempts, terms: Terms, awaiting: Awaiting, state: State | None = None
    ) -> None:
        super().__init__(home, terms, state)
        self._awaiting = awaiting

    @classmethod
    def of(cls, attempt: Attempt, awaiting: Awaiting) -> Self:
        """Return an attempt as one whose end is awaited."""
        return cls(attempt._home, attempt._terms, awaiting, attempt._state)

    @property
    async def context(self) -> str:
        """What is known for the task, for a system prompt: as :meth:`Memory.context`, read once."""
        return await self._awaiting.read(lambda: _context_of(self))

    async def choose(
        self,
        candidates: Sequence[str] | None = None,
        *,
        explore: Explore = "thompson",
        epsilon: float = 0.1,
        width: float = 1.0,
        seed: int | None = None,
    ) -> Choice:
        """Choose the strategy to try, as :meth:`Memory.choose` does, and note it as used.

        The episode keeps the probability and the way of the choice. If you use another strategy
        after all, say so: ``attempt.used(StrategyUse(choice.text, applied=False), "other")``.

        Args:
            candidates: texts or ids of strategies; default: what the memory finds.
            explore: "thompson", "greedy", "ucb" or "epsilon".
            epsilon: in [0, 1], for "epsilon".
            width: from 0, for "ucb".
            seed: a whole number from 0, which repeats a choice; None: a new random choice.

        Raises:
            NotFoundError: no candidates are given, and the memory has none.
            ValidationError: an argument is wrong, or the attempt does not run.
        """
        return await self._awaiting.read(
            lambda: _chosen(
                self, candidates, explore=explore, epsilon=epsilon, width=width, seed=seed
            )
        )

    async def __aenter__(self) -> Self:
        self._begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with _winning(error):
            ended = self._end(error)

            def store() -> None:
                self._state.episode_id = self._home.store(ended)

            await self._awaiting.finish(store)

    def __call__(self, function: F) -> F:
        """Make every call of a coroutine function or asynchronous generator an attempt.

        Raises:
            ValidationError: it is another function.
        """
        kind = kind_of(_checked(function))
        if kind in ("function", "generator"):
            raise ValidationError(
                "function", function, "is not async", "decorate it with the attempt of a Memory"
            )
        return decorated(function, kind, self._again, _Attempt._judge)  # type: ignore[return-value]

    def _like(self, opened: Attempt) -> Self:
        return type(self).of(opened, self._awaiting)


def _chosen(attempt: _Attempt, candidates: Sequence[str] | None, **how: Any) -> Choice:
    """Choose a strategy for the task of an attempt, and note it as used."""
    with attempt._open("choose"):
        terms = attempt._terms
    choice = attempt._home.choose(
        terms.task_key or terms.task,
        candidates,
        agent=terms.agent,
        task_type=terms.task_type,
        **how,
    )
    attempt.used(choice)
    return choice


def _context_of(attempt: _Attempt) -> str:
    """Return what is known for the task of an attempt, read once."""
    state, terms = attempt._state, attempt._terms
    with attempt._open("context"):
        known = state.context
    if known is not None:
        return known
    with state.reading:
        if state.context is None:
            state.context = attempt._home.context(
                terms.task_key or terms.task, max_tokens=terms.max_tokens, agent=terms.agent
            )
        return state.context


def _checked(function: F) -> F:
    if not callable(function) or isinstance(function, type):
        raise ValidationError(
            "function", function, "is not a function", "decorate a function, below @classmethod"
        )
    return function


@contextmanager
def _winning(error: BaseException | None) -> Iterator[None]:
    """Let the error of a block win: an error at its end becomes a note on it."""
    try:
        yield
    except Exception as problem:
        if error is None:
            raise
        _log.info("an attempt was not learned: %s", type(problem).__name__)
        error.add_note(f"the attempt was not learned: {problem}")


def _within_store() -> bool:
    """Return whether this thread is in a call of an engine.

    A generator can end within one, when it is collected as garbage.
    """
    frame = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("graphmem.store."):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
