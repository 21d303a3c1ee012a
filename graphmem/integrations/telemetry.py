"""OpenTelemetry: a span and a duration for every call of a memory, after the GenAI conventions.

Needs the extra ``otel``. ``instrument()`` wraps the methods of memories and their parts, and
``uninstrument()`` restores them. Without a provider nothing is recorded. Spans have no contents of
a memory, of questions or of answers; only with ``content`` they have the text of a question.

``gen_ai.memory.store.id`` is the namespace, ``gen_ai.memory.record.id`` the id if the call wrote
one thing, and ``graphmem.method`` the method.
"""

from __future__ import annotations

import functools
import inspect
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

try:
    from opentelemetry import context, metrics, trace
except ImportError as error:
    raise ImportError(
        "telemetry needs the OpenTelemetry API, which is not installed: "
        "in a clone of graphmem: pip install -e '.[otel]'"
    ) from error

from graphmem import async_memory
from graphmem.episodes.attempts import Attempts
from graphmem.graph.graph import Graph
from graphmem.lessons import Lessons
from graphmem.levels import Levels
from graphmem.memory import Memory
from graphmem.models import LearnReport
from graphmem.models.recall import Recall
from graphmem.people import People
from graphmem.people.scopes import LearningScopes
from graphmem.policies import Policies
from graphmem.policies.cycles import Cycles
from graphmem.policies.events import Events
from graphmem.policies.ledger import Predictions
from graphmem.upkeep import Upkeep

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable that allows contents in the spans of all GenAI libraries."""
_ALLOWED = {"true", "1", "span_only", "span_and_event"}
SEARCH, UPSERT, UPDATE, DELETE = "search_memory", "upsert_memory", "update_memory", "delete_memory"
CREATE_STORE, MAINTAIN = "create_memory_store", "maintain_memory"
"""``maintain_memory`` is a name of our own, for what the conventions lack."""
BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""Bounds of durations in seconds that the conventions advise."""
_TEXTS = {"text", "task", "strategy", "item", "cypher"}
"""Names of first arguments that hold the question of a reading call."""

CLASSES: dict[type, tuple[str, type]] = {
    Memory: ("", async_memory.AsyncMemory),
    Lessons: ("lessons.", async_memory.AsyncLessons),
    Policies: ("policies.", async_memory.AsyncPolicies),
    Levels: ("levels.", async_memory.AsyncLevels),
    People: ("people.", async_memory.AsyncPeople),
    LearningScopes: ("scopes.", async_memory.AsyncScopes),
    Events: ("events.", async_memory.AsyncEvents),
    Predictions: ("predictions.", async_memory.AsyncPredictions),
    Cycles: ("cycles.", async_memory.AsyncCycles),
    Upkeep: ("upkeep.", async_memory.AsyncUpkeep),
}
"""A memory and its parts: the prefixes of their methods' names, and their asynchronous twins."""
OPERATIONS: dict[str, str] = {
    UPSERT: "upkeep.import_",
    UPDATE: "lessons.merge lessons.unmerge policies.link policies.strengthen policies.weaken"
    " policies.propagate predictions.resolve predictions.feedback predictions.expire",
    DELETE: "policies.unlink levels.close levels.remove levels.unpull levels.remove_lens"
    " scopes.remove upkeep.erase upkeep.forget",
    CREATE_STORE: "upkeep.initialize",
    MAINTAIN: "verify calibrate levels.maintain levels.prolong",
    "": "events.consume events.stop levels.start levels.stop",
}
"""The operations of methods, in the words of the conventions, where they do not follow.

Otherwise a method of ``upkeep`` maintains, another one that writes upserts, and one that reads
searches. "": the method only makes an object, or runs or ends what runs for long.
"""
ATTEMPT = "attempt"
"""The end of an attempt, where its episode is learned."""


class Instrumented:
    """The effect of :func:`instrument`; leave the ``with`` block to undo it."""

    def __enter__(self) -> Instrumented:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        uninstrument()


class Instrumentor:
    """The class that ``opentelemetry-instrument`` finds and calls."""

    def instrument(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        **_: Any,
    ) -> None:
        """Instrument all memories, as :func:`instrument` does."""
        instrument(tracer_provider=tracer_provider, meter_provider=meter_provider)

    def uninstrument(self, **_: Any) -> None:
        """Undo it."""
        uninstrument()


def instrument(
    *,
    tracer_provider: trace.TracerProvider | None = None,
    meter_provider: metrics.MeterProvider | None = None,
    content: bool | None = None,
) -> Instrumented:
    """Record the calls of all memories of this process, also of open ones.

    A second call replaces the first.

    Args:
        tracer_provider: receives spans; default: the global one, whenever it is set.
        meter_provider: receives durations; default: the global one, whenever it is set.
        content: whether spans have the text of a question, as ``gen_ai.memory.query.text``;
            default: what the environment variable
            ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` says, else no.
    """
    uninstrument()
    if content is None:
        content = os.environ.get(CAPTURE, "").lower() in _ALLOWED
    recorder = _Recorder(tracer_provider, meter_provider, content)
    for name, (owner, twin) in methods().items():
        method = name.rpartition(".")[2]
        if operation := operation_of(name, writes=getattr(vars(twin)[method], "writes", False)):
            _wrap(owner, method, recorder, operation, name)
            _wrap(twin, method, recorder, operation, name)
    _wrap(Attempts, "store", recorder, UPSERT, ATTEMPT)
    return Instrumented()


def methods() -> dict[str, tuple[type, type]]:
    """Return the classes with each method, the asynchronous one second, by the method's name."""
    return {
        f"{prefix}{name}": (owner, twin)
        for owner, (prefix, twin) in CLASSES.items()
        for name, method in vars(twin).items()
        if hasattr(method, "writes") or (name == "lens" and owner is Levels)
    }


def operation_of(name: str, *, writes: bool) -> str:
    """Return the operation of a method; "" if its calls are not recorded."""
    for operation, names in OPERATIONS.items():
        if name in names.split():
            return operation
    if name.startswith("upkeep."):
        return MAINTAIN
    return UPSERT if writes else SEARCH


def uninstrument() -> None:
    """Record no more; restore the methods."""
    while _wrapped:
        owner, name, own = _wrapped.pop()
        if own is None:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


_wrapped: list[tuple[type, str, Any]] = []
"""What was wrapped: a class, a method, and the class's own attribute of that name, if any."""


def _wrap(owner: type, name: str, recorder: _Recorder, operation: str, label: str) -> None:
    method = getattr(owner, name)
    first = [*inspect.signature(method).parameters, "", ""][1]
    asked = first if operation == SEARCH and first in _TEXTS else None
    known = _Known(operation, label, asked, writes=operation in (UPSERT, UPDATE))
    wrapper = _wrap_coroutine if inspect.iscoroutinefunction(method) else _wrap_method
    _wrapped.append((owner, name, vars(owner).get(name)))
    setattr(owner, name, wrapper(method, recorder, known))


@dataclass(frozen=True, slots=True)
class _Known:
    """A method: its operation, its name, and the argument with the question."""

    operation: str
    method: str
    asked: str | None
    writes: bool


def _wrap_method(
    method: Callable[..., Any], recorder: _Recorder, known: _Known
) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not recorder.is_on():
            return method(self, *args, **kwargs)
        with _Recording(recorder, known, self, args, kwargs) as recording:
            recording.result = method(self, *args, **kwargs)
        return recording.result

    return call


def _wrap_coroutine(
    method: Callable[..., Any], recorder: _Recorder, known: _Known
) -> Callable[..., Any]:
    @functools.wraps(method)
    async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not recorder.is_on():
            return await method(self, *args, **kwargs)
        with _Recording(recorder, known, self, args, kwargs) as recording:
            recording.result = await method(self, *args, **kwargs)
        return recording.result

    return call


class _Recorder:
    """Where spans and durations go."""

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None,
        meter_provider: metrics.MeterProvider | None,
        content: bool,
    ) -> None:
        from graphmem import __version__

        self.tracer = trace.get_tracer("graphmem", __version__, tracer_provider)
        meter = metrics.get_meter("graphmem", __version__, meter_provider)
        self.durations = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )
        self.content = content
        self._on = tracer_provider is not None or meter_provider is not None

    def is_on(self) -> bool:
        """Return whether there is a provider; a global one stays."""
        if not self._on:
            there = trace.get_tracer_provider(), metrics.get_meter_provider()
            self._on = any("Proxy" not in type(provider).__name__ for provider in there)
        return self._on


class _Recording:
    """One call: its span is the current one until it ends."""

    def __init__(
        self,
        recorder: _Recorder,
        known: _Known,
        owner: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> None:
        self._recorder = recorder
        self._known = known
        self.result: Any = None
        owner = getattr(owner, "_awaited", owner)
        graph: Graph = owner.graph if isinstance(owner, Attempts) else owner._graph
        common: dict[str, Any] = {
            "gen_ai.operation.name": known.operation,
            "graphmem.method": known.method,
        }
        is_server = graph.store.capabilities.server
        if is_server:
            common |= _address(graph.store.url)
        self._common = common
        self._span = recorder.tracer.start_span(
            known.operation,
            kind=trace.SpanKind.CLIENT if is_server else trace.SpanKind.INTERNAL,
            attributes={**common, "gen_ai.memory.store.id": graph.ns},
        )
        if known.asked and recorder.content and self._span.is_recording():
            text = args[0] if args else kwargs.get(known.asked)
            if isinstance(text, str):
                self._span.set_attribute("gen_ai.memory.query.text", text)

    def __enter__(self) -> _Recording:
        self._token = context.attach(trace.set_span_in_context(self._span))
        self._start = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        seconds = time.perf_counter() - self._start
        context.detach(self._token)
        common, span = self._common, self._span
        if kind is not None:  # its text may hold contents
            module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
            common["error.type"] = f"{module}{kind.__qualname__}"
        if span.is_recording():
            if kind is not None:
                span.set_attribute("error.type", common["error.type"])
                span.set_status(trace.StatusCode.ERROR)
            else:
                span.set_attributes(_answer_attributes(self._known, self.result))
            span.end()
        self._recorder.durations.record(seconds, common)


@functools.lru_cache(maxsize=64)
def _address(url: str) -> dict[str, Any]:
    """Return the address of a server."""
    parts = urlsplit(url)
    return {"server.address": parts.hostname or "", "server.port": parts.port or 7687}


def _answer_attributes(known: _Known, result: Any) -> dict[str, Any]:
    """Return the attributes from the answer of a call: how many, and the id of the only one."""
    record: object = None
    count: object = len(result) if isinstance(result, list) else None
    if known.operation == SEARCH:
        items = result.items if isinstance(result, Recall) else result
        count = len(items) if isinstance(items, list | tuple | dict) else None
    elif isinstance(result, LearnReport):
        count = result.created + result.skipped + len(result.rejected)
    elif known.operation == DELETE:
        count, record = getattr(result, "episodes", None), getattr(result, "episode_id", None)
    elif known.writes:
        names = ("episode_id", "policy_id", "id")
        ids = (getattr(result, name, None) for name in names)
        record = result if isinstance(result, str) else next(filter(None, ids), None)
        count = 1 if isinstance(record, str) else count
    told: dict[str, Any] = {}
    if isinstance(count, int):
        told["gen_ai.memory.record.count"] = count
    if isinstance(record, str):
        told["gen_ai.memory.record.id"] = record
    return told
