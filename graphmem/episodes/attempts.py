"""Attempts: the work of an agent on a task, from beginning to end, becomes one episode.

An attempt is in memory while it runs, and is written once, at its end. Other parts are passed in.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from traceback import walk_stack
from typing import Any, Self, TypeVar
from uuid import uuid4

from pydantic import JsonValue

from graphmem.episodes.learning import Learner, abandon
from graphmem.errors import ForkedError, GraphMemError, NotFoundError, ValidationError
from graphmem.facade import like
from graphmem.graph.arguments import check_flag, check_function, check_limit
from graphmem.graph.decorating import Awaiting, decorated, kind_of, running
from graphmem.graph.graph import Graph
from graphmem.ids import abandoned_id, from_millis, to_millis
from graphmem.models.advice import Choice, Explore
from graphmem.models.episodes import (
    AbandonedAttempt,
    Episode,
    MistakeCard,
    Step,
    StrategyUse,
    resolve,
)
from graphmem.models.fields import MAX_STEPS, MAX_STRATEGIES, MAX_TEXT

_log = logging.getLogger(__name__)
F = TypeVar("F", bound=Callable[..., Any])
_CHOSEN = ("propensity", "explore", "candidates")
"""How a strategy was chosen."""
Ended = Episode | AbandonedAttempt


@dataclass(frozen=True)
class Terms:
    """What is known of an attempt before it begins."""

    task: str | Callable[..., str]
    agent: str | None = None
    user: str | None = None
    task_type: str | None = None
    task_key: str | None = None
    source: str | None = None
    extra: Mapping[str, JsonValue] | None = None
    max_tokens: int = 200
    strict: bool = False
    judge: Callable[[Any], bool | float | None] | None = None
    started_at: datetime | None = None
    """When it began; None: when the block is entered."""

    def common(self) -> dict[str, Any]:
        """Return the given fields of the episode that are known from the beginning."""
        names = ("task", "agent", "user", "task_type", "task_key", "source", "extra")
        given = {name: getattr(self, name) for name in names}
        return {name: value for name, value in given.items() if value is not None}


@dataclass
class State:
    """What happened in an attempt so far."""

    lock: Any = field(default_factory=threading.RLock)
    reading: Any = field(default_factory=threading.Lock)
    """Held while the context is read, so that nobody else waits for it."""
    pid: int = 0
    """The process that began it; 0: not begun."""
    started_at: int = 0
    ended: bool = False
    outcome: dict[str, Any] | None = None
    unjudged: bool = False
    """Whether an error that ends it is no outcome by itself."""
    uses: dict[str, StrategyUse] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    context: str | None = None
    episode_id: str | None = None


@dataclass(eq=False)
class Attempts:
    """Begins the attempts of one namespace, and stores them at their end."""

    graph: Graph
    learner: Learner
    context: Callable[..., str]
    choose: Callable[..., Choice]
    end_task: Callable[[str], object]
    _running: Counter[str] = field(default_factory=Counter)
    _counting: Any = field(default_factory=threading.Lock)
    _late: list[threading.Thread] = field(default_factory=list)

    def open(self, terms: Terms) -> Attempt:
        """Return a new attempt."""
        given = {**terms.common(), "started_at": terms.started_at}
        if callable(terms.task):
            given["task"] = "-"
        checked = Episode(**given, strategy=(), success=True)
        task = terms.task if callable(terms.task) else checked.task
        terms = replace(terms, task=task, started_at=checked.started_at)
        check_flag("strict", terms.strict)
        check_limit(terms.max_tokens, "max_tokens")
        check_function("judge", terms.judge)
        return Attempt(self, terms)

    def current(self) -> Attempt:
        """Return the attempt of the innermost decorated function of this memory that runs here."""
        for attempt in reversed(running()):
            if isinstance(attempt, Recording) and attempt._home is self:
                return Attempt(self, attempt._terms, attempt._state)
        raise NotFoundError(
            "no function that memory.attempt decorates runs here; in a with block, use the attempt "
            "that it gives"
        )

    def store(self, ended: Ended) -> str:
        """Learn an episode, or store an abandoned attempt; return its id."""
        if isinstance(ended, Episode):
            return self.learner.learn(ended).episode_id
        _, refused = abandon(self.graph, [self.graph.storable(ended)])
        for _, _, error in refused:
            raise error
        return abandoned_id(self.graph.ns, ended.key)

    def begin(self, terms: Terms) -> None:
        """Note that an attempt at a task runs."""
        with self._counting:
            self._running[str(terms.task_key or terms.task)] += 1

    def end(self, terms: Terms) -> None:
        """End what lasts as long as a task; where it is attempted elsewhere here, that goes on."""
        name = str(terms.task_key or terms.task)
        with self._counting:
            self._running[name] -= 1
            if self._running[name] > 0:
                return
            del self._running[name]
        for owner in {name, str(terms.task)}:
            self.end_task(owner)

    def start(self, store: Callable[[], None]) -> None:
        """Store something in a separate thread, for which :meth:`close` waits."""
        thread = threading.Thread(target=store, name="graphmem-attempt")
        self._late = [*(one for one in self._late if one.is_alive()), thread]
        thread.start()

    def close(self) -> None:
        """Wait for what is stored later."""
        late, self._late = self._late, []
        for thread in late:
            if thread is not threading.current_thread():
                thread.join()


@dataclass(eq=False, repr=False)
class Recording:
    """What happens in an attempt, from its beginning to its end."""

    _home: Attempts
    _terms: Terms
    _state: State = field(default_factory=State)
    _awaiting: Awaiting | None = None
    _decorates: bool = False

    @property
    def episode_id(self) -> str | None:
        """The id of its episode, or of its node ``Abandoned``; None before the end."""
        return self._state.episode_id

    def step(
        self,
        action_type: str = "action",
        action: JsonValue = None,
        observation: str | None = None,
        *,
        reward: float | None = None,
        error: str | None = None,
        state: dict[str, JsonValue] | None = None,
        next_state: dict[str, JsonValue] | None = None,
        terminal: bool | None = None,
    ) -> None:
        """Add a step; the arguments are the fields of :class:`Step`.

        Raises:
            ValidationError: a field is wrong, there are 20,000 steps, or the attempt does not run.
        """
        step = Step.from_arguments(locals())
        with self._open("step"):
            if len(self._state.steps) == MAX_STEPS:
                problem, remedy = "are the most of one attempt", "end it, and begin another"
                raise ValidationError("steps", MAX_STEPS, problem, remedy)
            self._state.steps.append(step)

    def used(self, *strategies: str | StrategyUse | Choice) -> None:
        """Name strategies that the attempt uses, the main one first.

        A text that was named before changes nothing. A StrategyUse replaces the one with its text,
        and keeps how that was chosen. Without any strategy the episode counts only for its task.

        Raises:
            ValidationError: a strategy is wrong, there are 200, or the attempt does not run.
        """
        named = Episode(task="-", strategy=strategies, success=True).strategy
        with self._open("used"):
            known = dict(self._state.uses)
            for use, given in zip(named, strategies, strict=True):
                before = known.get(use.text)
                if before is None or not isinstance(given, str):
                    kept = () if before is None or before.propensity is None else _CHOSEN
                    how = {name: getattr(before, name) for name in kept}
                    known[use.text] = use.model_copy(update=how)
            if len(known) > MAX_STRATEGIES:
                problem = f"are over {MAX_STRATEGIES} in one attempt"
                raise ValidationError("strategy", len(known), problem)
            self._state.uses = known

    def succeed(
        self,
        score: float | None = None,
        *,
        reward: float | None = None,
        feedback: str | None = None,
        summary: str | None = None,
        successes: Iterable[str] = (),
        mistakes: Iterable[str] = (),
        mistake_cards: Iterable[MistakeCard | Mapping[str, Any]] = (),
    ) -> None:
        """Say that it worked. The episode is learned at the end of the attempt.

        Args:
            score: degree of success, in [0, 1]; default: 1.
            reward: any finite number; default: the score.
            feedback: the comment of a person or a judge.
            summary: a short summary.
            successes: sentences about what went well.
            mistakes: sentences about what went badly.
            mistake_cards: descriptions of mistakes.

        Raises:
            ValidationError: a field is wrong, the score is that of a failure, or the attempt has an
                outcome already, or does not run.
        """
        self._tell("succeed", {"success": True, **locals()})

    def fail(
        self,
        error: str | BaseException | None = None,
        score: float | None = None,
        *,
        reward: float | None = None,
        feedback: str | None = None,
        summary: str | None = None,
        successes: Iterable[str] = (),
        mistakes: Iterable[str] = (),
        mistake_cards: Iterable[MistakeCard | Mapping[str, Any]] = (),
    ) -> None:
        """Say that it failed. The episode is learned at the end of the attempt.

        ``error`` is what ended it, as text or as an exception. ``score`` is not that of a success;
        default: 0. The other arguments and the errors are those of :meth:`succeed`.
        """
        error = describe_error(error) if isinstance(error, BaseException) else error
        self._tell("fail", {"success": False, **locals()})

    def _begin(self) -> None:
        task, judge, state = self._terms.task, self._terms.judge, self._state
        if callable(task):
            remedy = "give a text, or decorate a function"
            raise ValidationError("task", task, "is a function", remedy)
        if judge is not None and not self._decorates:
            remedy = "call succeed or fail"
            raise ValidationError("judge", judge, "is for decorated functions", remedy)
        with state.lock:
            if state.pid:
                raise ValidationError("attempt", task, "is begun twice", "make one for each time")
            state.pid = os.getpid()
            given = self._terms.started_at
            state.started_at = self._home.graph.now() if given is None else to_millis(given)
        self._home.begin(self._terms)

    def _tell(self, how: str, given: Mapping[str, Any]) -> None:
        told = Episode.from_arguments({"task": "-", "strategy": (), **given})
        outcome = {name: getattr(told, name) for name in given if name != "self"}
        with self._open(how):
            threshold = self._home.graph.settings.success_threshold
            outcome["success"] = resolve(told, threshold).success
            before = self._state.outcome
            if before is not None:
                was = "succeeded" if before["success"] else "failed"
                problem = f"comes after the attempt {was}"
                raise ValidationError(how, None, problem, "say it once, or correct it by settle")
            self._state.outcome = outcome

    @contextmanager
    def _open(self, doing: str) -> Iterator[None]:
        state, remedy = self._state, "call it within the with block"
        if not state.pid:
            raise ValidationError(doing, None, "the attempt has not begun", remedy)
        if state.pid != os.getpid():  # its threads may hold the lock
            raise ForkedError(
                f"{doing}: the attempt was begun in process {state.pid}, this is its child "
                f"{os.getpid()}, where nothing is learned of it; begin another one here"
            )
        with state.lock:
            if state.ended:
                raise ValidationError(doing, None, "the attempt has ended", remedy)
            yield

    def _store(self, ended: Ended) -> None:
        try:
            self._state.episode_id = self._home.store(ended)
        finally:
            self._home.end(self._terms)

    def _end(self, raised: BaseException | None) -> Ended:
        state = self._state
        with self._open("the end"):
            state.ended = True
            outcome = state.outcome
            known: dict[str, Any] = {
                **self._terms.common(),
                "strategy": tuple(state.uses.values()),
                "steps": tuple(state.steps),
                "started_at": from_millis(state.started_at),
                "ended_at": from_millis(max(state.started_at, self._home.graph.now())),
            }
        error = None if raised is None else describe_error(raised)
        failed = isinstance(raised, Exception) and not isinstance(raised, GraphMemError)
        if outcome is None and failed and not state.unjudged:
            outcome = {"success": False, "error": error}
        if outcome is not None:
            seconds = (known["ended_at"] - known["started_at"]).total_seconds()
            return Episode(**known, **outcome, duration=seconds)
        if raised is None and self._terms.strict:
            self._home.end(self._terms)
            remedy = "call succeed or fail, give a judge, or leave out strict=True"
            raise ValidationError("attempt", self._terms.task, "ended without an outcome", remedy)
        return AbandonedAttempt(**known, key=uuid4().hex, error=error)

    def _judge(self, result: Any) -> None:
        judge, state = self._terms.judge, self._state
        if judge is None or state.outcome is not None:
            return
        state.unjudged = True  # an error from here on says nothing of the strategies
        verdict = judge(result)
        if verdict is None:
            return
        if not isinstance(verdict, bool | float):
            problem = "must return True, False, a score in [0, 1], or None"
            raise ValidationError("judge", verdict, problem)
        self._tell("judge", {"success" if isinstance(verdict, bool) else "score": verdict})

    def _again(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Self:
        """Return a new attempt on the same terms, for the arguments of a call."""
        task = self._terms.task
        if callable(task):
            task = task(*args, **kwargs)
            if callable(task):
                raise ValidationError("task", task, "must be a text")
        terms = self._home.open(replace(self._terms, task=task))._terms
        return type(self)(self._home, terms, _awaiting=self._awaiting, _decorates=True)

    def _context(self) -> str:
        """Return what is known for the task, read once."""
        state, terms = self._state, self._terms
        with self._open("context"):
            known = state.context
        if known is not None:
            return known
        with state.reading:
            if state.context is None:
                how = {name: getattr(terms, name) for name in ("max_tokens", "agent", "user")}
                state.context = self._home.context(terms.task_key or terms.task, **how)
            return state.context

    def _choose(self, candidates: Sequence[str] | None = None, **how: Any) -> Choice:
        with self._open("choose"):
            terms = self._terms
        how |= {"agent": terms.agent, "task_type": terms.task_type}
        choice = self._home.choose(terms.task_key or terms.task, candidates, **how)
        self.used(choice)
        return choice

    def __call__(self, function: F) -> F:
        """Make every call of a function an attempt.

        Of an :class:`AsyncMemory` only coroutine functions and asynchronous generators.

        Raises:
            ValidationError: it is not a function, or it is another one.
        """
        if not callable(function) or isinstance(function, type):
            remedy = "decorate a function, below @classmethod"
            raise ValidationError("function", function, "is not a function", remedy)
        kind = kind_of(function)
        if self._awaiting is not None and kind in ("function", "generator"):
            remedy = "decorate it with the attempt of a Memory"
            raise ValidationError("function", function, "is not async", remedy)
        return decorated(function, kind, self._again, Recording._judge)  # type: ignore[return-value]


class Attempt(Recording):
    """An attempt at a task; at its end one episode is learned.

    Use it in a ``with`` (or ``async with``) block, or as a decorator. All threads may use it.
    """

    @property
    def context(self) -> str:
        """What is known for the task, for a system prompt: as :meth:`Memory.context`, read once."""
        return self._context()

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

        Raises:
            NotFoundError: no candidates are given, and the memory has none.
            ValidationError: an argument is wrong, or the attempt does not run.
        """
        return self._choose(candidates, explore=explore, epsilon=epsilon, width=width, seed=seed)

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with _winning(error):
            store = partial(self._store, self._end(error))
            if isinstance(error, GeneratorExit) and _within_store():
                self._home.start(store)
            else:
                store()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.__exit__(kind, error, trace)


class AsyncAttempt(Recording):
    """An attempt of an :class:`AsyncMemory`; at its end one episode is learned.

    Use it in an ``async with`` block, or as a decorator of coroutine functions and asynchronous
    generators. What reads or writes is awaited: ``await attempt.context``.
    """

    _awaiting: Awaiting

    @classmethod
    def of(cls, attempt: Attempt, awaiting: Awaiting) -> Self:
        """Return an attempt as one whose end is awaited."""
        return cls(attempt._home, attempt._terms, attempt._state, awaiting)

    @property
    async def context(self) -> str:
        """What is known for the task, for a system prompt: as :meth:`Memory.context`, read once."""
        return await self._awaiting.run(self._context)

    @like(Attempt.choose)
    async def choose(self, *args: Any, **how: Any) -> Choice:
        """Choose the strategy to try, as :meth:`Attempt.choose` does."""
        return await self._awaiting.run(partial(self._choose, *args, **how))

    async def __aenter__(self) -> Self:
        self._begin()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with _winning(error):
            await self._awaiting.finish(partial(self._store, self._end(error)))


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
    """Return whether this thread is in a call of an engine."""
    names = (frame.f_globals.get("__name__", "") for frame, _ in walk_stack(sys._getframe()))
    return any(name.startswith("graphmem.store.") for name in names)


def describe_error(error: BaseException) -> str:
    """Return the last line of a traceback: the kind of an error and what it says."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - of whatever class it is
        said = ""
    name = type(error).__name__
    return (f"{name}: {said}" if said else name).encode("utf-8", "replace").decode()[:MAX_TEXT]
