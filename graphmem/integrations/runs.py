"""One episode for each run of an agent, for frameworks that tell what happens while it runs.

An integration passes on to a :class:`Running` what a framework says of a run.
"""

from __future__ import annotations

import logging
import reprlib
import threading
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from functools import partial
from typing import Any, TypedDict, Unpack

from pydantic import JsonValue
from pydantic_core import to_jsonable_python

from graphmem.async_memory import AsyncMemory
from graphmem.episodes import attempts
from graphmem.episodes.attempts import Attempt
from graphmem.episodes.naming import TOOLS, Strategies, strategies
from graphmem.errors import ValidationError
from graphmem.graph.arguments import check_flag, check_function, check_text
from graphmem.ids import canonical_json
from graphmem.integrations.outcomes import Outcome, Run, judge_of
from graphmem.memory import Memory
from graphmem.models.episodes import Step
from graphmem.models.fields import MAX_KEY, MAX_TEXT
from graphmem.seeding import chats
from graphmem.text.words import ends

_log = logging.getLogger(__name__)


class RunOptions(TypedDict, total=False):
    """The options of an integration that learns the runs of an agent."""

    outcome: Outcome
    """Says how a run went: a function of the :class:`Run` that returns True, False, a score in
    [0, 1] or None, or its name; None (the default): nothing is counted."""
    strategy: Strategies
    """What counts as the strategy: ``tools`` (the default: those that were called), ``model``,
    ``agent``, the name of a field of the framework's metadata, or a function of the Run that
    returns texts."""
    task: Callable[[Any], str | None] | None
    """A function of what the framework gives that returns what the run is about; None or "" leaves
    the run out."""
    agent: str | None
    """The name of the agent; the context has its access rights. Default: its name in the
    framework."""
    task_type: str | None
    """A class of tasks; default: inferred from the wording."""
    max_tokens: int
    """Length limit of the context, at least 1; default: 200."""
    strict: bool
    """Raise errors of graphmem and of the functions given here, unless the run itself raised;
    default: log a warning without content, so that the agent goes on."""


def memory_of(memory: object) -> Memory:
    """Return the Memory that an integration was given, also as an AsyncMemory."""
    if not isinstance(memory, Memory | AsyncMemory):
        raise ValidationError("memory", memory, "is neither a Memory nor an AsyncMemory")
    return memory.memory if isinstance(memory, AsyncMemory) else memory


@contextmanager
def going_on(problem: str, *, strict: bool) -> Iterator[None]:
    """Log errors here as warnings without content, so that the agent goes on, unless strict."""
    try:
        yield
    except Exception as error:
        if strict:
            raise
        _log.warning("%s: %s", problem, type(error).__name__)


class Runs:
    """What the runs of an agent have in common. Threads and event loops may share it.

    At its end a run is learned as one episode: its steps are the tool calls, and ``outcome`` says
    whether it succeeded. A run without an outcome is an abandoned attempt, and counts nowhere. So
    is one that was cancelled, that nobody read to its end, or that stops for a person or an
    external tool; the rest of it is a run of its own.

    Args:
        memory: a Memory or an AsyncMemory, for calls of both kinds.
        source: the origin of the episodes.
        options: see :class:`RunOptions`.

    Raises:
        NotFoundError: no function of that name can be imported.
    """

    def __init__(
        self, memory: Memory | AsyncMemory, source: str, **options: Unpack[RunOptions]
    ) -> None:
        self.memory = memory_of(memory)
        if unknown := options.keys() - RunOptions.__annotations__.keys():
            raise TypeError(f"there is no option {', '.join(sorted(unknown))}")
        awaited = memory if isinstance(memory, AsyncMemory) else AsyncMemory(memory)
        self.threads = awaited.threads
        self.judge = judge_of(options.get("outcome"))
        self.strategy = options.get("strategy", TOOLS)
        if not callable(self.strategy):
            check_text("strategy", self.strategy)
        self.agent = options.get("agent")
        self.strict = options.get("strict", False)
        check_flag("strict", self.strict)
        self._task = options.get("task")
        check_function("task", self._task)
        self._terms: dict[str, Any] = {
            "task_type": options.get("task_type"),
            "max_tokens": options.get("max_tokens", 200),
            "source": source,
        }
        self.memory.attempt("-", agent=self.agent, **self._terms)  # checks them

    def task_of(self, given: Any, default: Callable[[Any], str | None]) -> str:
        """Return what a run is about, from what the framework gives; "" if nothing says it."""
        with self.going_on("the task is not known"):
            return (self._task or default)(given) or ""
        return ""

    def begin(
        self, task: str, *, agent: str | None = None, started_at: datetime | None = None
    ) -> Running:
        """Return a run that begins (now). A run without a task in words is not recorded."""
        running = Running(self, _key(task), self.agent or agent)
        if running.task:
            with self.going_on("the run is not recorded"):
                terms = self._terms | {"agent": running.agent, "started_at": started_at}
                running.attempt = self.memory.attempt(running.task, **terms).__enter__()
        return running

    def going_on(
        self, problem: str, raised: BaseException | None = None
    ) -> AbstractContextManager[None]:
        """Log errors, so that the agent goes on; with ``strict``, let them through."""
        return going_on(problem, strict=self.strict and raised is None)


class Running:
    """A run of an agent. All threads may use it. Calls after its end are ignored."""

    def __init__(self, runs: Runs, task: str, agent: str | None) -> None:
        self.task = task
        self.agent = agent
        self.model: str | None = None
        """The name of the model, when it is known."""
        self.attempt: Attempt | None = None
        """None: the run is not recorded, or has ended."""
        self._runs = runs
        self._lock = threading.Lock()
        self._steps: list[Step] = []

    def context(self) -> str:
        """Return what is known of the task, read once; nothing if that fails."""
        attempt = self.attempt
        if attempt is not None:
            with self._runs.going_on("the context is not known"):
                return attempt.context
        return ""

    async def acontext(self) -> str:
        """Do as :meth:`context`, in a thread."""
        with self._runs.going_on("the context is not known"):
            return await self._runs.threads.run(self.context)
        return ""

    def step(
        self,
        tool: str,
        arguments: Any = None,
        observation: Any = None,
        error: BaseException | str | None = None,
    ) -> None:
        """Record a call of a tool, and what it returned or raised; arguments may be JSON."""
        attempt = self.attempt
        if attempt is None:
            return
        with self._runs.going_on("a step is not recorded"):
            step = Step(
                action_type=_key(tool) or "tool",
                action=_to_json(chats.arguments(arguments)),
                observation=None if observation is None else _text(observation),
                error=describe_error(error),
            )
            attempt.step(**dict(step))
            self._steps.append(step)

    def end(
        self,
        answer: Any = None,
        error: BaseException | str | None = None,
        *,
        paused: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the episode, or the abandoned attempt; only the first call does.

        Abandoned is a run without an outcome, one that was cancelled or interrupted, and one that
        ``paused``, for instance for an approval.
        """
        with self._lock:
            attempt, self.attempt = self.attempt, None
        if attempt is None:
            return
        steps, told = tuple(self._steps), describe_error(error)
        text = "" if answer is None else _text(answer)
        run = Run(self.task, text, steps, told, self.agent, metadata=metadata or {}, output=answer)
        runs = self._runs
        raised = error if isinstance(error, BaseException) else None
        attempt._state.unjudged = True
        with runs.going_on("the run was not learned", raised):
            try:
                with runs.going_on("the strategy is not known", raised):
                    attempt.used(*self._strategies(run))
                if not paused and (raised is None or isinstance(raised, Exception)):
                    with runs.going_on("the outcome is not known", raised):
                        self._conclude(attempt, run)
            finally:
                attempt.__exit__(None if raised is None else type(raised), raised, None)
            if attempt.episode_id is None:  # then a note is on the error of the run
                _log.warning("the run was not learned")

    async def aend(
        self,
        answer: Any = None,
        error: BaseException | None = None,
        *,
        paused: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Do as :meth:`end`, in a thread; it is done even if it is cancelled meanwhile."""
        end = partial(self.end, answer, error, paused=paused, metadata=metadata)
        if isinstance(error, GeneratorExit):  # nothing can be awaited
            end()
            return
        with self._runs.going_on("the run was not learned", error):
            await self._runs.threads.finish(end)

    def _strategies(self, run: Run) -> Sequence[str]:
        by = self._runs.strategy
        if callable(by):
            return by(run)
        tools = [step.action_type for step in run.steps]
        return strategies(by, tools=tools, model=self.model, agent=self.agent, fields=run.metadata)

    def _conclude(self, attempt: Attempt, run: Run) -> None:
        verdict = self._runs.judge(run)
        score = None if verdict is None or isinstance(verdict, bool) else float(verdict)
        threshold = self._runs.memory.settings.success_threshold
        if verdict is True or (score is not None and score >= threshold):
            attempt.succeed(score)
        elif verdict is not None:
            attempt.fail(run.error, score)


def describe_error(error: BaseException | str | None) -> str | None:
    """Return the kind of an error and what it says; a text as it is."""
    if error is None or isinstance(error, str):
        return error and _text(error)
    return attempts.describe_error(error)


def _key(text: str) -> str:
    """Return a text in a form that can be a task or a name."""
    return ends(unicodedata.normalize("NFC", _text(text)).strip(), MAX_KEY).strip()


def _text(value: Any) -> str:
    """Return a value as a text for storing: not too long, without lone surrogates."""
    if not isinstance(value, str):
        plain = _to_json(value)
        value = plain if isinstance(plain, str) else canonical_json(plain)
    text: str = value.encode("utf-8", "replace").decode()
    return text[:MAX_TEXT]


def _to_json(value: Any) -> JsonValue:
    """Return a value as JSON for storing; a value that is too large, or no JSON, as a text."""
    if isinstance(value, str):
        return _text(value)
    try:
        plain: JsonValue = to_jsonable_python(value, serialize_unknown=True)
        text = canonical_json(plain)
        return plain if len(text.encode()) <= MAX_TEXT else _text(text)
    except (ValueError, RecursionError):  # it has cycles, is nested too deeply, or is no text
        return _text(reprlib.repr(value))
