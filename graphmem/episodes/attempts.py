"""Attempts: the work of an agent on a task, from beginning to end, becomes one episode.

An attempt is in memory while it runs, and is written once, at its end. Other parts (the context of
a task, a choice) are passed in.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from traceback import walk_stack
from typing import Any, Self

from graphmem.episodes.learning import Learner
from graphmem.episodes.recording import Ended, Recording, Terms
from graphmem.episodes.rows import classes_of
from graphmem.errors import NotFoundError, ScopeError, ValidationError
from graphmem.facade import like
from graphmem.graph.access import read_scopes, refusal
from graphmem.graph.arguments import check_flag, check_function
from graphmem.graph.decorating import Awaiting, running
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import canonical_json, node_id
from graphmem.models import AbandonedAttempt, Episode
from graphmem.models.choices import Choice, Explore
from graphmem.models.fields import millis
from graphmem.store.port import Row

_log = logging.getLogger(__name__)


class Attempts:
    """Begins the attempts of one namespace, and stores them at their end."""

    def __init__(
        self,
        graph: Graph,
        learner: Learner,
        context: Callable[..., str],
        choose: Callable[..., Choice],
        end: Callable[[str], object],
    ) -> None:
        self.graph = graph
        self.context = context
        self.choose = choose
        self._learner = learner
        self._end = end
        self._running = Counter[str]()
        self._counting = threading.Lock()
        self._late: list[threading.Thread] = []

    def open(self, terms: Terms) -> Attempt:
        """Return a new attempt."""
        given = {**terms.common(), "started_at": terms.started_at}
        if callable(terms.task):
            given["task"] = "-"
        checked = Episode(**given, strategy=(), success=True)
        task = terms.task if callable(terms.task) else checked.task
        terms = replace(terms, task=task, started_at=checked.started_at)
        check_flag("strict", terms.strict)
        if type(terms.max_tokens) is not int or terms.max_tokens < 1:
            raise ValidationError("max_tokens", terms.max_tokens, "must be a whole number from 1")
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
            return self._learner.learn(ended).episode_id
        _, refused = abandon(self.graph, [self.graph.storable(ended)])
        if refused:
            raise refused[0][1]
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
            self._end(owner)

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
        return await self._awaiting.read(self._context)

    @like(Attempt.choose)
    async def choose(self, *args: Any, **how: Any) -> Choice:
        """Choose the strategy to try, as :meth:`Attempt.choose` does."""
        return await self._awaiting.read(partial(self._choose, *args, **how))

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


def abandoned_id(namespace: str, key: str) -> str:
    """Return the id of the node of an abandoned attempt."""
    return node_id(namespace, "Abandoned", key)


_COPIED = ("key", "agent", "task", "task_type", "error")
Refusals = list[tuple[AbandonedAttempt, ScopeError]]


def abandon(graph: Graph, attempts: Sequence[AbandonedAttempt]) -> tuple[int, Refusals]:
    """Store attempts in one transaction; return how many are new, and what scopes refuse."""

    def work(tx: Transaction) -> tuple[int, Refusals]:
        scopes = read_scopes(tx, {attempt.agent for attempt in attempts})
        rows: dict[str, Row] = {}
        refused: Refusals = []
        for attempt in attempts:
            classes = classes_of({"task": attempt.task, "task_type": attempt.task_type})
            if error := refusal(scopes, attempt.agent, str(classes["type"])):
                refused.append((attempt, error))
            elif (identity := abandoned_id(graph.ns, attempt.key)) not in rows:
                rows[identity] = {
                    **{name: getattr(attempt, name) for name in _COPIED},
                    "id": identity,
                    "episode": node_id(graph.ns, "Episode", "key", attempt.key),
                    "strategies": [use.text for use in attempt.strategy],
                    "started_at": millis(attempt.started_at),
                    "ended_at": millis(attempt.ended_at),
                    "step_count": len(attempt.steps),
                    "record": canonical_json(attempt.record()),
                }
        stored = tx.finish("attempts.abandon", rows=list(rows.values())) if rows else []
        return int(stored[0]["created"]) if stored else 0, refused

    return graph.transact(work, brief=True)
